"""Calls that run in the gate's own process: decided, performed, compared and recorded by one door."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gate.driving import body, governed, machine, records
from remit.core.call import Citation, Effect, SessionKey, ToolCall, hash_arguments
from remit.core.diff.edits import WholeFile
from remit.gate.gate import Gate
from remit.gate.perform import NEVER, OPEN, AccessRefused, Act, Fate, ToolOutput, WorkspaceAccess

SESSION = SessionKey("run-1")
DONE = ToolOutput(ok=True, text="done")


@pytest.fixture
def gate(repository: Path, home: Path) -> Gate:
    gate = Gate.open(governed(repository), machine(home))
    gate.intents.select(SESSION, "remit", "INT-001")
    return gate


def file_call(gate: Gate, path: str, content: str, call_id: str = "call-1", effect: Effect = "write") -> ToolCall:
    arguments = {"path": path, "content": content}
    return ToolCall(
        agent="remit",
        session=SESSION,
        tool="write_to_file",
        effect=effect,
        cwd=str(gate.workspace.root),
        call_id=call_id,
        paths=(path,),
        arguments=arguments,
        arguments_sha256=hash_arguments(arguments),
        citation=Citation("INT-001", "INTENT_EVOLUTION"),
        edit=WholeFile(content),
    )


def writes(call: ToolCall) -> Act:
    def act(access: WorkspaceAccess) -> ToolOutput:
        for path in call.paths:
            access.write_file(path, call.arguments["content"].encode())
        return DONE

    return act


def refuses() -> Act:
    def act(access: WorkspaceAccess) -> ToolOutput:
        raise AssertionError("a call that may not act acted")

    return act


def events(gate: Gate, call_id: str = "call-1") -> list[str]:
    found = [body(record) for record in records(gate.workspace.root)]
    return [one["event"] for one in found if one.get("call", {}).get("id") == call_id]


def test_a_file_tool_is_decided_performed_and_recorded_once(gate: Gate) -> None:
    call = file_call(gate, "src/new.py", "x = 1\n")
    performed = gate.perform(call, writes(call))
    assert (performed.decision.effect, performed.output, performed.messages) == ("allow", DONE, ())
    assert (gate.workspace.root / "src/new.py").read_text() == "x = 1\n"
    assert events(gate) == ["tool_use", "mutation", "tool_result"]
    assert body(records(gate.workspace.root, "mutation")[-1])["mutation_class"]["declared"] == "INTENT_EVOLUTION"


def test_a_denied_call_never_acts_and_its_words_name_the_way_out(gate: Gate) -> None:
    performed = gate.perform(file_call(gate, "docs/a.md", "x\n"), refuses())
    assert performed.output is None
    assert performed.violation is not None
    assert performed.violation.error_type == "SCOPE_VIOLATION"
    assert "request_scope_expansion" in "\n".join(performed.messages)
    assert events(gate) == ["denied"]


def test_a_tool_writes_only_the_files_that_were_judged(gate: Gate) -> None:
    call = file_call(gate, "src/new.py", "x = 1\n")

    def act(access: WorkspaceAccess) -> ToolOutput:
        access.write_file("docs/elsewhere.md", b"x\n")
        return DONE

    with pytest.raises(AccessRefused):
        gate.perform(call, act)
    assert not (gate.workspace.root / "docs").exists()
    assert body(records(gate.workspace.root, "tool_result")[-1])["result"]["ok"] is False


def test_permissions_of_a_replaced_file_stay(gate: Gate) -> None:
    path = gate.workspace.root / "src" / "app.py"
    path.chmod(0o750)
    call = file_call(gate, "src/app.py", "x = 1\n")
    gate.perform(call, writes(call))
    assert path.stat().st_mode & 0o777 == 0o750


def test_a_link_put_in_the_way_is_not_followed(gate: Gate, tmp_path: Path) -> None:
    root = gate.workspace.root
    (root / "src" / "sub").mkdir()
    call = file_call(gate, "src/sub/a.py", "x = 1\n")

    def act(access: WorkspaceAccess) -> ToolOutput:
        (root / "src" / "sub").rmdir()
        (root / "src" / "sub").symlink_to(tmp_path)
        access.write_file("src/sub/a.py", b"x = 1\n")
        return DONE

    with pytest.raises(OSError, match=r"judged|link"):
        gate.perform(call, act)
    assert not (tmp_path / "a.py").exists()


def test_fate_tells_what_became_of_a_call(gate: Gate) -> None:
    call = file_call(gate, "src/new.py", "x = 1\n")
    assert gate.fate(SESSION, "call-1") == NEVER
    seen: list[Fate] = []

    def act(access: WorkspaceAccess) -> ToolOutput:
        seen.append(gate.fate(SESSION, "call-1"))
        return ToolOutput(ok=False, text="no", exit_code=3)

    gate.perform(call, act)
    assert seen == [OPEN]
    assert gate.fate(SESSION, "call-1") == Fate("returned", ok=False, exit_code=3)


def test_the_turn_is_given_up_while_a_tool_acts(repository: Path, home: Path) -> None:
    steps: list[str] = []

    @contextmanager
    def let_others_pass() -> Generator[None]:
        steps.append("released")
        yield
        steps.append("taken")

    def act(access: WorkspaceAccess) -> ToolOutput:
        steps.append("acted")
        return DONE

    gate = Gate.open(governed(repository), replace(machine(home), release_lock=let_others_pass))
    gate.perform(ToolCall("remit", SESSION, "read_file", "read", str(repository), "call-1", ("src/app.py",)), act)
    assert steps == ["released", "acted", "taken"]


def test_nothing_is_recorded_where_nobody_asked_remit_to_govern(repository: Path, home: Path) -> None:
    gate = Gate.open(repository, machine(home))
    call = file_call(gate, "src/new.py", "x = 1\n")
    assert not gate.perform(call, writes(call)).decision.governed
    assert (repository / "src/new.py").read_text() == "x = 1\n"
    assert not (repository / ".git" / "remit").exists()
