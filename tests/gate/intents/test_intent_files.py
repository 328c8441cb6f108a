"""Files of one intent each under a gate: what agents may not do with them, by every door, and what closes whom."""

import subprocess
from base64 import b64encode
from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, allowed, governed, records, refusal
from remit.gate.gate import Gate
from remit.gate.governing.rules import copies_folder
from remit.gate.intents.history import intent_history
from remit.gate.intents.intents import IntentCompletion

FILE = "id: {0}\n\nowned_scope:\n  - {1}/**\n\ncreated_at: 2026-11-28T14:02:11Z\n"


def in_files(root: Path) -> Path:
    governed(root)
    folder = root / ".orchestration"
    (folder / "active_intents.yaml").unlink()
    (folder / "intents").mkdir()
    for intent_id, scope in (("INT-001", "src"), ("INT-002", "docs")):
        (folder / "intents" / f"{intent_id}.yaml").write_text(FILE.format(intent_id, scope))
    with (folder / ".gitignore").open("a") as ignored:
        ignored.write("active_intents.yaml\n")
    config = folder / "remit.toml"
    config.write_text(config.read_text() + '\n[containment]\nrewrite = "off"\n')
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "rules")
    return root


def one(root: Path) -> Path:
    return root / ".orchestration/intents/INT-001.yaml"


def test_a_life_adds_one_line(repository: Path, home: Path) -> None:
    agent = Agent(in_files(repository), home)
    before = one(repository).read_text()
    agent.select()
    assert run_git(repository, "status", "--porcelain") == ""
    gate = Gate.open(repository)
    IntentCompletion(gate).complete(gate.state.list_recent_sessions()[0], "claude-code", "INT-001", "ran")
    assert one(repository).read_text() == before + "status: DONE\n"
    assert run_git(repository, "diff", "--numstat").split() == ["1", "0", ".orchestration/intents/INT-001.yaml"]
    view = (repository / ".orchestration/active_intents.yaml").read_text()
    assert view.startswith("# remit:view sha256:")
    assert "status: DONE" in view


SCRIPT = b"""
open('.orchestration/intents/INT-002.yaml', 'a').write('status: DONE\\n')
open('.orchestration/intents/INT-011.yaml', 'w').write('id: INT-011\\nowned_scope: [x]\\n')
import os; os.unlink('.orchestration/intents/INT-001.yaml')
"""
HIDDEN = b64encode(SCRIPT).decode()
DOORS = {
    "a word at the end": "echo 'status: DONE' >> .orchestration/intents/INT-002.yaml",
    "a wider scope": "sed -i 's,docs,**,' .orchestration/intents/INT-001.yaml",
    "a new file": "printf 'id: INT-009\\nowned_scope: [\"**\"]\\n' > .orchestration/intents/INT-009.yaml",
    "a new closed file": "mkdir -p .orchestration/intents/closed && cp .orchestration/intents/INT-001.yaml "
    ".orchestration/intents/closed/INT-010.yaml",
    "a file less": "rm .orchestration/intents/INT-002.yaml",
    "a text that does not tell": "python3 -c \"import base64; exec(base64.b64decode('" + HIDDEN + "'))\"",
    "a script": "python3 -c \"open('.orchestration/intents/INT-002.yaml','a').write('status: ABORTED\\n')\"",
}


@pytest.mark.parametrize("command", DOORS.values(), ids=DOORS.keys())
def test_what_an_agents_command_does_to_them_does_not_stay(repository: Path, home: Path, command: str) -> None:
    agent = Agent(in_files(repository), home)
    agent.select()
    answer = agent.ask("Bash", command=command)
    if allowed(answer):
        subprocess.run(["sh", "-c", command], cwd=repository, check=True)
        agent.tell("Bash", answer["call_id"], {"stdout": ""}, command=command)
    assert run_git(repository, "status", "--porcelain", "--untracked-files=all") == ""


def test_a_file_tool_writes_none_of_them(repository: Path, home: Path) -> None:
    agent = Agent(in_files(repository), home)
    agent.select()
    for name in ("INT-001.yaml", "INT-009-new.yaml", "closed/INT-001.yaml"):
        assert refusal(agent.write(repository / ".orchestration/intents" / name, "id: INT-009\n")) == "PROTECTED_PATH"


def test_a_broken_file_stops_its_own_session_only(repository: Path, home: Path) -> None:
    mine, other = Agent(in_files(repository), home), Agent(repository, home, session="session-2")
    mine.select()
    other.select("INT-002")
    one(repository).write_text("id: INT-001\nowned_scope: [**]\n")
    said = mine.write("src/a.py", "x\n")
    assert refusal(said) == "INTENTS_FILE_INVALID"
    assert ".orchestration/intents/INT-001.yaml:2:" in str(said)
    assert allowed(other.write("docs/a.md", "x\n"))
    third = Agent(repository, home, session="session-3")
    assert "INTENTS_FILE_INVALID" in str(third.select())
    assert refusal(third.write("docs/b.md", "x\n")) == "MISSING_OR_INVALID_INTENT"


def test_the_kept_copies_are_in_force_while_the_folder_is_gone(repository: Path, home: Path) -> None:
    agent = Agent(in_files(repository), home)
    agent.select()
    assert allowed(agent.write("src/a.py", "x\n"))
    (repository / ".orchestration").rename(repository.parent / "away")
    assert allowed(agent.write("src/b.py", "x\n"))
    assert refusal(agent.write("docs/b.md", "x\n")) == "SCOPE_VIOLATION"


def test_each_content_of_a_file_is_a_version(repository: Path, home: Path) -> None:
    agent = Agent(in_files(repository), home)
    agent.select()
    one(repository).write_text(FILE.format("INT-001", "lib"))
    agent.read("README.md")
    versions = intent_history(Gate.open(repository), "INT-001", 10)
    assert [v.intent.owned_scope for v in versions if v.intent] == [("src/**",), ("lib/**",)]
    digest = versions[-1].content_sha256
    assert (copies_folder(Gate.open(repository).workspace) / "versions" / digest).read_text() == FILE.format(
        "INT-001", "lib"
    )
    agent.write("lib/a.py", "x\n")
    assert records(repository, "tool_use")[-1]["metadata"]["dev.remit"]["decision"]["intent_sha256"] == digest
