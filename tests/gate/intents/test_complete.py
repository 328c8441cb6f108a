"""Closing an intent whose criteria are proved by commands."""

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from gate.driving import INTENTS, Agent, body, governed, machine, records
from gate.hooks.trusted_hooks import trust_all
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.gate.governing.settings import set_mode
from remit.gate.hooks import verify_commands
from remit.gate.intents.refusals import IntentRefused

KEY = SessionKey("session-1")


def intents(*commands: str) -> str:
    """INT-001 with these commands as criteria."""
    criteria = ", ".join(f"{{text: C{n}, verify: {json.dumps(c)}}}" for n, c in enumerate(commands))
    return INTENTS.replace("acceptance_criteria: [it works]", f"acceptance_criteria: [{criteria}]", 1)


def working(repository: Path, home: Path, *commands: str, trusted: bool = True) -> Gate:
    """A gate with a session under INT-001, whose commands are trusted."""
    governed(repository, intents=intents(*commands))
    if trusted:
        trust_all(repository, home)
    gate = Gate.open(repository, machine(home))
    gate.intents.select(KEY, "claude-code", "INT-001")
    return gate


def complete(gate: Gate) -> str:
    """How it ended: the status, or the refusal."""
    try:
        return gate.completion.complete(KEY, "claude-code", "INT-001", "done").status
    except IntentRefused as refused:
        return refused.violation.error


def test_commands_that_pass_complete_the_intent_and_each_is_recorded(repository: Path, home: Path) -> None:
    gate = working(repository, home, "echo all 3 passed", "test -f README.md")
    assert complete(gate) == "DONE"
    found = [body(r) for r in records(repository, "verification")]
    assert [(r["command"], r["exit_code"], r["paths"]) for r in found] == [
        ("echo all 3 passed", 0, []),
        ("test -f README.md", 0, []),
    ]
    assert (found[0]["output"], found[0]["intent_id"], found[0]["session_id"]) == (
        "all 3 passed",
        "INT-001",
        "session-1",
    )
    assert gate.state.active_session(KEY).intent_id is None


def test_one_that_fails_refuses_and_says_which_and_what_it_said(repository: Path, home: Path) -> None:
    gate = working(repository, home, "true", "seq 1 100; echo AssertionError >&2; exit 7")
    said = complete(gate)
    assert "exit code 7" in said
    assert "AssertionError" in said
    assert "\n99\n" in said
    assert "\n50\n" not in said
    assert [body(r)["exit_code"] for r in records(repository, "verification")] == [0, 7]
    assert gate.intents.get("INT-001").status == "IN_PROGRESS"


def test_what_a_command_says_is_recorded_without_secrets(repository: Path, home: Path) -> None:
    complete(working(repository, home, "echo password=hunter2-hunter2"))
    assert "hunter2" not in json.dumps(records(repository, "verification"))


def test_untrusted_commands_do_not_run_and_a_person_is_asked(repository: Path, home: Path) -> None:
    gate = working(repository, home, "touch .git/ran", trusted=False)
    assert "`remit trust`" in complete(gate)
    assert not (repository / ".git/ran").exists()
    assert gate.completion.complete(KEY, "claude-code", "INT-001", "", vouched=True).status == "DONE"
    assert not records(repository, "verification")


def test_one_that_takes_too_long_is_ended(repository: Path, home: Path) -> None:
    gate = working(repository, home, "sleep 1000")
    proof = verify_commands.run_verification(
        gate, "sleep 1000", "sleep 1000", time.monotonic() + 0.5, intent_id="INT-001", session_id=None
    )
    assert "was ended after 0" in proof.failure
    assert body(records(repository, "verification")[-1])["exit_code"] is None


def test_other_calls_pass_while_a_command_runs(repository: Path, home: Path) -> None:
    held: list[str] = []

    @contextmanager
    def unlocked() -> Generator[None]:
        held.append("let go")
        yield
        held.append("taken")

    working(repository, home, "true")
    gate = Gate.open(repository, replace(machine(home), release_lock=unlocked))
    assert complete(gate) == "DONE"
    assert held == ["let go", "taken"]


def test_what_a_command_writes_is_its_own_and_not_the_agents(repository: Path, home: Path) -> None:
    working(repository, home, "echo report > report.txt")
    agent = Agent(repository, home)
    before = agent.ask("mcp__remit__complete_intent", intent_id="INT-001", verification_notes="x")
    assert complete(Gate.open(repository, machine(home))) == "DONE"
    agent.tell("mcp__remit__complete_intent", before["call_id"], intent_id="INT-001", verification_notes="x")
    agent.send("Stop")
    assert not records(repository, "mutation")
    [edit] = [body(r) for r in records(repository, "human_edit")]
    assert (edit["origin"], [f["path"] for f in edit["files"]]) == ("verification", ["report.txt"])
    assert body(records(repository, "verification")[-1])["paths"] == ["report.txt"]


def test_a_command_cannot_change_what_governs(repository: Path, home: Path) -> None:
    file = repository / ".orchestration" / "active_intents.yaml"
    gate = working(repository, home, "sed -i 's#src/#**/#' .orchestration/active_intents.yaml")
    before = file.read_bytes()
    assert "was put back" in complete(gate)
    assert file.read_bytes() == before


def test_an_intent_that_changed_meanwhile_is_not_completed(repository: Path, home: Path) -> None:
    gate = working(repository, home, "cp .git/new.yaml .orchestration/active_intents.yaml")
    set_mode(gate.workspace, "observe")
    text = (repository / ".orchestration" / "active_intents.yaml").read_text()
    (repository / ".git" / "new.yaml").write_text(text.replace("name: Names", "name: Other names"))
    assert "changed while" in complete(gate)


def test_a_shell_command_of_an_agent_verifies_as_well(repository: Path, home: Path) -> None:
    working(repository, home, "false")
    answer = Agent(repository, home).ask("Bash", command="remit intent complete INT-001 --notes done")
    assert "exit code 1" in answer["permissionDecisionReason"]
