"""The chain with a real Claude Code: denied, selected, allowed, recorded, blamed."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from e2e.claude import Result, run_claude
from forked_commands import run_command
from remit.adapters import settings
from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.scripted_model import ModelRequest, Say, ScriptedModel, Turn, Use

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("claude_code")]

SELECT = Use("mcp__remit__select_active_intent", {"intent_id": "INT-001", "reasoning": "asked to"})
REMIT = [sys.executable, "-m", "remit"]


def remit(folder: Path, *words: str) -> str:
    """Run the real command; its standard output."""
    done = run_command(words, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def records(folder: Path, event: str) -> list[dict[str, Any]]:
    """What the ledger holds of an event, the newest first."""
    return json.loads(remit(folder, "log", "--event", event, "-n", "100", "--json"))["data"]


def about(record: dict[str, Any]) -> dict[str, Any]:
    """Remit's part of a record."""
    return record["metadata"]["dev.remit"]


@pytest.fixture
def governed(repository: Path) -> Path:
    """The repository in enforce, with one intent that owns src/**."""
    remit(repository, "init", "--mode", "enforce", "--yes")
    remit(repository, "intent", "new", "Names", "--scope", "src/**")
    return repository


def wired(home: Path) -> dict[str, Any]:
    """Put Remit's hooks into the user's settings, as a person would; the MCP server for the command line."""
    import remit_hook

    client = Path(remit_hook.__file__).with_name("__main__.py")
    (home / ".claude").mkdir(exist_ok=True)
    wanted = settings("claude-code", f"'{sys.executable}' -I -S -E '{client}'")
    (home / ".claude" / "settings.json").write_text(json.dumps(wanted))
    return {"mcpServers": {"remit": {"command": REMIT[0], "args": [*REMIT[1:], "mcp"]}}}


def run(
    folder: Path, home: Path, *steps: Any, subagents: dict[str, list[Any]] | None = None
) -> tuple[Result, list[str], AnthropicWire]:
    """Claude Code with this script; how it ended, and what the model was told of its calls."""
    with AnthropicWire(ScriptedModel(steps, subagents)).serve() as wire:
        done = run_claude(folder, home, wire.url, "do the work", mcp_config=wired(home))
        return done, wire.tool_result_texts(), wire


def test_a_write_without_an_intent_is_denied_and_the_model_told_why(governed: Path, home: Path) -> None:
    write = Use("Write", {"file_path": str(governed / "src" / "new.py"), "content": "x = 1\n"})
    done, told, wire = run(governed, home, write, Say("done"))
    assert done.returncode == 0, done
    assert "MISSING_OR_INVALID_INTENT" in told[0]
    assert "open: INT-001" in told[0]
    assert not (governed / "src" / "new.py").exists()
    assert "remit_protocol" in wire.requests[0].shown_text
    [denied] = records(governed, "denied")
    assert about(denied)["violation"]["error_type"] == "MISSING_OR_INVALID_INTENT"


def test_after_selecting_through_mcp_the_write_lands_in_ledger_and_blame(governed: Path, home: Path) -> None:
    target = governed / "src" / "new.py"
    write = Use("Write", {"file_path": str(target), "content": "x = 1\ny = 2\n"})
    done, told, _ = run(governed, home, SELECT, write, Say("done"))
    assert "<intent_context" in told[0], done
    assert target.read_text() == "x = 1\ny = 2\n"
    [mutation] = records(governed, "mutation")
    body = about(mutation)
    assert (body["intent_id"], body["in_scope"], body["covered"]) == ("INT-001", True, True)
    assert body["files"][0]["operation"] == "create"
    contributor = mutation["files"][0]["conversations"][0]["contributor"]
    assert contributor["model_id"] == "claude-sonnet-5"
    run_git(governed, "add", "-A")
    run_git(governed, "commit", "-q", "-m", "work")
    lines = json.loads(remit(governed, "blame", "src/new.py", "--json"))["data"]["lines"]
    assert [(line["origin"], line["intent_id"], line["agent"]) for line in lines] == [
        ("ai", "INT-001", "claude-code")
    ] * 2
    assert "the chain is whole" in remit(governed, "ledger", "verify")


def test_a_path_outside_the_scope_is_denied(governed: Path, home: Path) -> None:
    write = Use("Write", {"file_path": str(governed / "docs.md"), "content": "no\n"})
    _, told, _ = run(governed, home, SELECT, write, Say("done"))
    assert "SCOPE_VIOLATION" in told[1]
    assert not (governed / "docs.md").exists()


def test_a_stale_write_is_denied_with_the_difference(governed: Path, home: Path) -> None:
    """Claude Code looks at the time of the file: a copy that keeps times (`rsync -t`) gets past it, not past us."""
    target = governed / "src" / "app.py"

    def meanwhile(seen: ModelRequest) -> Turn:
        before = target.stat()
        target.write_text(target.read_text() + "# reviewed by Kim\n")
        os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
        return (Use("Write", {"file_path": str(target), "content": "def main():\n    return 2\n"}),)

    read = Use("Read", {"file_path": str(target)})
    _, told, _ = run(governed, home, SELECT, read, meanwhile, Say("done"))
    assert "STALE_FILE" in told[2], told
    assert "+# reviewed by Kim" in told[2]
    assert target.read_text().endswith("# reviewed by Kim\n")


def test_a_shell_side_door_is_shut_told_to_the_model_and_in_the_ledger(governed: Path, home: Path) -> None:
    before = (governed / "README.md").read_bytes()
    sneak = Use("Bash", {"command": "python3 -c \"open('README.md','a').write('sneaky')\""})
    _, _, wire = run(governed, home, SELECT, sneak, Say("done"))
    assert "SCOPE_VIOLATION" in wire.requests[-1].shown_text
    assert (governed / "README.md").read_bytes() == before
    named = [about(r).get("violation", {}).get("path") for r in records(governed, "denied")]
    named += [f["path"] for r in records(governed, "mutation") for f in about(r)["files"]]
    assert named == ["README.md"], "dropped where commands run contained, else found and undone"


def test_a_subagent_works_under_its_parents_intent_and_is_recorded_as_itself(governed: Path, home: Path) -> None:
    ask = Use(
        "Agent",
        {"description": "d", "prompt": "SUBTASK", "subagent_type": "general-purpose", "run_in_background": False},
    )
    write = Use("Write", {"file_path": str(governed / "src" / "sub.py"), "content": "s = 1\n"})
    stray = Use("Write", {"file_path": str(governed / "sub.md"), "content": "s\n"})
    run(governed, home, SELECT, ask, Say("heard"), subagents={"SUBTASK": [write, stray, Say("sub done")]})
    [mutation] = records(governed, "mutation")
    assert about(mutation)["intent_id"] == "INT-001"
    assert about(mutation)["agent_id"]
    assert not (governed / "sub.md").exists()


def test_an_ungoverned_repository_is_left_alone(repository: Path, home: Path) -> None:
    write = Use("Write", {"file_path": str(repository / "a.txt"), "content": "a\n"})
    run(repository, home, write, Say("done"))
    assert (repository / "a.txt").read_text() == "a\n"
    assert not (repository / ".git" / "remit").exists()
    assert not (repository / ".orchestration").exists()
