"""A trusted hook gives a call other arguments: what each real agent then does, and what is recorded of it."""

import json
import sys
from pathlib import Path

import pytest

from e2e.test_four_agents import AGENTS, LINES, name, records, remit, run, wire_up
from gate.hooks.trusted_hooks import hook, put_hooks
from remit.core.agents import ROWS

__all__ = ["name"]

pytestmark = pytest.mark.live

SCRIPT = """\
import json, sys
arguments = json.load(sys.stdin)["call"]["arguments"]
changed = json.loads(json.dumps(arguments).replace("y = 2", "y = 3"))
print(json.dumps({"effect": "allow", "arguments": changed}))
"""


def test_other_arguments_reach_the_agent_or_the_call_is_refused_with_them(
    name: str, repository: Path, home: Path
) -> None:
    agent = AGENTS[name]
    wire_up(repository, name)
    (repository / ".orchestration" / "hooks").mkdir()
    (repository / ".orchestration" / "hooks" / "rewrite.py").write_text(SCRIPT)
    tools = '{tools = ["Write", "write_file", "apply_patch"]}'
    put_hooks(repository, home, hook(f"'{sys.executable}' .orchestration/hooks/rewrite.py", when=tools, timeout_s=30))
    target = repository / "src" / "new.py"
    select = agent.shell("remit intent select INT-001")
    done, told = run(name, repository, home, select, agent.write(target, LINES))
    assert done.returncode == 0, done
    if not ROWS[name].rewrites:
        assert "HOOK_BLOCKED" in told[1], told
        assert "y = 3" in told[1]
        assert not target.exists()
        return
    assert target.read_text() == LINES.replace("2", "3"), told
    [mutation] = records(repository, "mutation")
    assert (mutation["covered"], mutation["intent_id"]) == (True, "INT-001")
    assert [r["rewritten_by"] for r in records(repository, "tool_use") if "rewritten_by" in r] == [["hooks/a.toml#1"]]
    assert json.loads(remit(repository, "status", "--json"))["data"]["untrusted"] == []
