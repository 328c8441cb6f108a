"""Calls that run in the gate's own process: decided, performed, compared and recorded by one door."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import run_git
from gate.driving import body, governed, machine, overlay, records
from remit.core.call import Citation, Effect, SessionKey, ToolCall, hash_arguments
from remit.core.diff.edits import WholeFile
from remit.gate.containment.rewrite_call import KNOWN_CONTAINMENT
from remit.gate.gate import Gate
from remit.gate.perform import NEVER, OPEN, AccessRefused, CarriedOut, Fate, Performed, ToolOutput, WorkspaceAccess
from remit.gate.state.tickets import Tickets
from remit.workspace.sandbox.staging import SCRATCH_FOLDER
from waiting import wait_until

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


def writes(call: ToolCall) -> CarriedOut:
    def act(access: WorkspaceAccess) -> ToolOutput:
        for path in call.paths:
            access.write_file(path, call.arguments["content"].encode())
        return DONE

    return act


def refuses() -> CarriedOut:
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


def command_call(gate: Gate, command: str, call_id: str = "call-1") -> ToolCall:
    return ToolCall(
        agent="remit",
        session=SESSION,
        tool="execute_command",
        effect="execute",
        cwd=str(gate.workspace.root),
        call_id=call_id,
        command=command,
        arguments={"command": command},
        arguments_sha256=hash_arguments({"command": command}),
        whole_workspace=True,
    )


def runs(place: Path, time_limit_s: float | None = None) -> CarriedOut:
    """Run the call's command; its output is in the file `place`."""

    def act(access: WorkspaceAccess) -> ToolOutput:
        with place.open("wb") as output:
            ended = access.run_command(output.fileno(), time_limit_s=time_limit_s)
        return ToolOutput(ended.code == 0, place.read_text(), exit_code=ended.code)

    return act


def script(gate: Gate, text: str) -> str:
    """Return a command whose text tells nothing of what it does."""
    (gate.workspace.root / "src" / "make.sh").write_text(text)
    return "sh src/make.sh"


@pytest.fixture
def contained(gate: Gate, home: Path) -> Gate:
    KNOWN_CONTAINMENT.pop(home, None)
    overlay(home)
    return gate


def test_a_command_runs_contained_and_keeps_what_the_scope_allows(contained: Gate, tmp_path: Path) -> None:
    root = contained.workspace.root
    command = script(contained, "echo heard; echo x > src/made.py; echo x > docs.md")
    performed = contained.perform(command_call(contained, command), runs(tmp_path / "out"))
    assert performed.decision.effect == "contain"
    assert performed.output == ToolOutput(ok=True, text="heard\n", exit_code=0)
    assert (root / "src/made.py").exists()
    assert not (root / "docs.md").exists()
    said = "\n".join(performed.messages)
    assert "docs.md" in said
    assert said.count("Files kept") == 1
    assert "without a verdict" not in said
    assert events(contained) == ["tool_use", "mutation", "denied", "tool_result"]
    assert "uncontained" not in body(records(root, "tool_use")[-1])
    assert contained.state.list_open_calls() == []
    assert Tickets(contained.state).list_tickets() == []


def test_a_command_that_only_reads_runs_bare(contained: Gate, tmp_path: Path) -> None:
    performed = contained.perform(command_call(contained, "cat src/app.py"), runs(tmp_path / "out"))
    assert performed.decision.effect == "allow"
    assert performed.output is not None
    assert "def main" in performed.output.text
    assert events(contained) == ["tool_use", "tool_result"]


def test_words_of_a_contained_command_are_told_once(contained: Gate, tmp_path: Path) -> None:
    command = script(contained, "echo x > docs.md")
    assert contained.perform(command_call(contained, command), runs(tmp_path / "out")).messages
    later = contained.perform(command_call(contained, "cat src/app.py", "call-2"), runs(tmp_path / "out"))
    assert later.messages == ()


@pytest.mark.parametrize("text", ["echo x > src/a; sleep 1000", "echo x > src/a; trap '' TERM; sleep 1000"])
def test_a_cancelled_command_ends_and_leaves_nothing(contained: Gate, tmp_path: Path, text: str) -> None:
    command = script(contained, text)
    cancel, scratch = threading.Event(), contained.environment.home / SCRATCH_FOLDER

    def cancel_once_it_wrote() -> None:
        wait_until(lambda: any(scratch.glob("*-*/**/src/a")))
        cancel.set()

    threading.Thread(target=cancel_once_it_wrote).start()
    performed = contained.perform(command_call(contained, command), runs(tmp_path / "out"), cancel=cancel)
    assert performed.output is not None
    assert performed.output.exit_code == 130
    assert "cancelled" in "\n".join(performed.messages)
    assert not (contained.workspace.root / "src/a").exists()
    assert contained.state.list_open_calls() == []


def test_commands_run_side_by_side_in_threads(repository: Path, home: Path, tmp_path: Path) -> None:
    gate = Gate.open(governed(repository), machine(home))
    gate.intents.select(SESSION, "remit", "INT-001")
    turn = threading.Lock()

    @contextmanager
    def let_others_pass() -> Generator[None]:
        turn.release()
        try:
            yield
        finally:
            turn.acquire()

    KNOWN_CONTAINMENT.pop(home, None)
    overlay(home)
    gate.environment = replace(gate.environment, release_lock=let_others_pass)
    found: list[Performed] = []
    command = script(gate, "sleep 0.5; echo x > src/made-$1")

    def work(number: int) -> None:
        call = command_call(gate, f"{command} {number}", f"call-{number}")
        with turn:
            found.append(gate.perform(call, runs(tmp_path / f"out-{number}")))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.messages for one in found] == [()] * 3
    assert sorted(path.name for path in (repository / "src").glob("made-*")) == ["made-0", "made-1", "made-2"]
    assert [one["event"] for one in map(body, records(repository)) if one["event"] == "human_edit"] == []


def test_a_command_without_secrets_in_its_environment(
    contained: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-of-the-host")
    contained.perform(command_call(contained, script(contained, "env")), runs(tmp_path / "out"))
    found = (tmp_path / "out").read_text()
    assert "PATH=" in found
    assert "secret-of-the-host" not in found


def test_the_workspace_of_the_path_governs_and_not_that_of_the_program(gate: Gate, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run_git(other, "init", "-q")
    governed(other)
    path = str(other / "src" / "a.py")
    denied = gate.perform(file_call(gate, path, "x\n"), refuses())
    assert denied.violation is not None
    assert denied.violation.error_type == "MISSING_OR_INVALID_INTENT"
    there = Gate.open(other, gate.environment)
    there.intents.select(SESSION, "remit", "INT-001")
    there.close()
    call = file_call(gate, path, "x\n", "call-2")
    assert gate.perform(call, writes(call)).output == DONE
    assert [body(record)["event"] for record in records(other)][-3:] == ["tool_use", "mutation", "tool_result"]
    assert records(gate.workspace.root, "tool_use") == []


def test_a_command_is_judged_by_each_workspace_that_it_names(gate: Gate, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run_git(other, "init", "-q")
    governed(other)
    denied = gate.perform(command_call(gate, f"sh {other}/make.sh; rm -rf {other}/src"), refuses())
    assert denied.output is None
    assert len(records(other, "denied")) == 1


# Files that a killed call had written in part


def test_files_of_an_open_call_are_reverted_unless_somebody_else_changed_them(gate: Gate) -> None:
    place = gate.workspace.root / "src/app.py"
    before = place.read_bytes()
    call = file_call(gate, "src/app.py", "fresh\n")
    assert gate.before(call).decision.effect == "allow"

    place.write_text("fresh\n")
    place.chmod(0o755)
    assert gate.revert_files(SESSION, "call-1") == ()
    assert place.read_bytes() == before
    assert place.stat().st_mode & 0o777 == 0o755

    place.write_text("somebody else's\n")
    assert gate.revert_files(SESSION, "call-1") == ("src/app.py",)
    assert place.read_text() == "somebody else's\n"
    assert gate.revert_files(SESSION, "call-2") == ()
