"""The floor under Remit's own agent: mode × place × effect, looked at in the world and in the records."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from gate.driving import Agent, allowed, body, governed, machine, overlay, records
from gate.test_perform import file_call
from gate.undo.test_take import blocked
from remit.core.call import SessionKey, ToolCall, hash_arguments
from remit.gate.gate import Gate
from remit.gate.perform import Performed, ToolOutput, WorkspaceAccess

SESSION = SessionKey("run-1")
MODES = ("observe", "warn", "enforce")


def open_own(repository: Path, home: Path, mode: str, *, has_floor: bool = True, select: bool = False) -> Gate:
    (home / "tmp").mkdir(exist_ok=True)
    (home / ".profile").write_text("mine\n")
    (home / "victim").mkdir()
    (home / "victim/file").write_text("mine\n")
    gate = Gate.open(governed(repository, mode), replace(machine(home), has_floor=has_floor))
    if mode == "enforce" or select:
        gate.intents.select(SESSION, "remit", "INT-001")
    return gate


def run(gate: Gate, command: str, call_id: str = "c1", folder: Path | None = None) -> Performed:
    cwd = str(folder or gate.workspace.root)
    call = ToolCall("remit", SESSION, "execute_command", "execute", cwd, call_id, command=command)
    call = replace(call, arguments_sha256=hash_arguments({"command": command}), whole_workspace=True)

    def act(access: WorkspaceAccess) -> ToolOutput:
        with (gate.environment.home / "output").open("wb") as output:
            return ToolOutput(True, "", exit_code=access.run_command(output.fileno()).code)

    return gate.perform(call, act)


def write(gate: Gate, path: str, effect: Literal["write", "delete"] = "write", call_id: str = "c1") -> Performed:
    def act(access: WorkspaceAccess) -> ToolOutput:
        if effect == "delete":
            access.remove_file(path)
        else:
            access.write_file(path, b"EVIL")
        return ToolOutput(True, "done")

    return gate.perform(file_call(gate, path, "EVIL", call_id, effect), act)


@pytest.fixture(params=MODES)
def gate(request: pytest.FixtureRequest, repository: Path, home: Path) -> Gate:
    overlay(home)
    return open_own(repository, home, request.param)


OUTSIDE: dict[str, Callable[[Gate], Performed]] = {
    "a file above": lambda g: write(g, "../outside.txt"),
    "a file of HOME": lambda g: write(g, str(g.environment.home / ".profile")),
    "a hook of git": lambda g: write(g, ".git/hooks/pre-commit"),
    "Remit's settings": lambda g: write(g, ".orchestration/remit.toml"),
    "an agent's settings": lambda g: write(g, ".claude/settings.json"),
    "appended by text": lambda g: run(g, "echo evil >> ~/.profile"),
    "removed by text": lambda g: run(g, "rm -rf ~/victim"),
    "a program": lambda g: run(g, "python3 -c \"import os; open(os.path.expanduser('~/.profile'),'a').write('x')\""),
    "from HOME": lambda g: run(g, "python3 -c \"open('.profile','a').write('x')\"", folder=g.environment.home),
    "from the root": lambda g: run(g, f"python3 -c \"open('{g.environment.home}/.profile','a')\"", folder=Path("/")),
}


@pytest.mark.parametrize("way", OUTSIDE.values(), ids=OUTSIDE)
def test_nothing_outside_changes_in_any_mode(gate: Gate, way: Callable[[Gate], Performed]) -> None:
    settings = (gate.workspace.root / ".orchestration/remit.toml").read_text()
    way(gate)
    home, root = gate.environment.home, gate.workspace.root
    assert (home / ".profile").read_text() == "mine\n"
    assert (home / "victim/file").exists()
    assert not (root.parent / "outside.txt").exists()
    assert not (root / ".git/hooks/pre-commit").exists()
    assert not (root / ".claude").exists()
    assert (root / ".orchestration/remit.toml").read_text() == settings


def test_the_workspace_and_the_temporary_folder_stay_open(gate: Gate) -> None:
    assert write(gate, "src/new.py").output is not None
    assert run(gate, "python3 -c \"open('src/made.py','w').write('x')\"", "c2").output is not None
    temporary = gate.environment.home / "tmp/t.txt"
    assert run(gate, f"python3 -c \"open('{temporary}','w').write('x')\"", "c3").output is not None
    root = gate.workspace.root
    assert all(path.exists() for path in (root / "src/new.py", root / "src/made.py", temporary))
    assert [body(r)["decision"]["effect"] for r in records(root, "tool_use")] == ["allow", "contain", "contain"]


def test_out_of_scope_is_the_modes_to_decide(gate: Gate) -> None:
    write(gate, "docs/a.md")
    run(gate, "python3 -c \"import os; os.makedirs('docs',exist_ok=True); open('docs/b.md','w').write('x')\"", "c2")
    docs, is_enforced = gate.workspace.root / "docs", gate.read_mode() == "enforce"
    assert [(docs / name).exists() for name in ("a.md", "b.md")] == [not is_enforced] * 2


def test_a_persons_line_is_lost_in_no_mode(gate: Gate) -> None:
    path = gate.workspace.root / "src/app.py"
    gate.mark_files_seen(SESSION, ["src/app.py"])
    path.write_text(path.read_text() + "# by a person\n")
    refused = write(gate, "src/app.py")
    assert refused.violation is not None
    assert refused.violation.error_type == "STALE_FILE"
    assert "+# by a person" in "\n".join(refused.messages)
    assert "# by a person" in path.read_text()


def test_own_commands_are_recorded_with_their_verdict(gate: Gate) -> None:
    run(gate, "echo x >> src/log.txt")
    run(gate, "python3 -c \"open('src/py.txt','a').write('3')\"", "c2")
    made = [body(r) for r in records(gate.workspace.root, "mutation")]
    assert [(m["files"][0]["path"], m["covered"]) for m in made] == [("src/log.txt", True), ("src/py.txt", True)]
    assert not [r for r in records(gate.workspace.root, "human_edit") if "src/" in str(r)]


@pytest.mark.parametrize("mode", MODES)
def test_without_containment_a_command_of_unknown_effect_is_asked_about(
    repository: Path, home: Path, mode: str
) -> None:
    gate = open_own(repository, home, mode)
    refused = run(gate, "python3 -c \"open('src/py.txt','a').write('3')\"")
    assert refused.violation is not None
    assert "cannot here: nothing on this machine can contain it" in refused.violation.message
    assert run(gate, "echo x > src/a.txt", "c2").output is not None
    assert run(gate, "ls", "c3").output is not None


def test_a_run_without_floor_is_governed_by_its_mode_alone(repository: Path, home: Path) -> None:
    overlay(home)
    gate = open_own(repository, home, "observe", has_floor=False)
    write(gate, "../outside.txt")
    assert (repository.parent / "outside.txt").exists()


@pytest.mark.parametrize("mode", MODES)
def test_what_a_mode_or_task_narrows_holds_in_every_mode(repository: Path, home: Path, mode: str) -> None:
    overlay(home)
    gate = open_own(repository, home, mode)
    gate.narrow(SESSION, ("src/c.txt",))
    assert write(gate, "src/c.txt").output is not None
    refused = write(gate, "src/other.txt", call_id="c2")
    assert refused.violation is not None
    assert refused.violation.error_type == "SCOPE_VIOLATION"
    run(gate, "python3 -c \"open('src/cmd.txt','w').write('x')\"", "c3")
    assert not (gate.workspace.root / "src/cmd.txt").exists()
    gate.narrow(SESSION, (".git/**",))
    refused = write(gate, "src/c.txt", call_id="c4")
    assert refused.violation is not None
    assert "may change no file of the workspace" in refused.violation.message


@pytest.mark.parametrize("folder", ["", "docs", "/"])
def test_what_was_undone_after_a_bare_command_is_told_to_its_caller(repository: Path, home: Path, folder: str) -> None:
    gate = open_own(repository, home, "enforce", has_floor=False)
    (repository / "docs").mkdir()
    place = repository / folder
    done = run(gate, f"python3 -c \"open('{repository}/docs/x.md','w').write('x')\"", folder=place)
    if done.output is not None:
        assert "docs/x.md" in "\n".join(done.messages)
    assert not (repository / "docs/x.md").exists()


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_other_agents_are_told_what_passes_only_because_of_the_mode(repository: Path, home: Path, mode: str) -> None:
    agent = Agent(governed(repository, mode), home)
    agent.read("src/app.py")
    with (repository / "src/app.py").open("a") as file:
        file.write("# by a person\n")
    stale = agent.ask("Write", file_path="src/app.py", content="z\n")
    assert allowed(stale)
    assert "has changed since this session last read it" in stale["additionalContext"]
    assert "+# by a person" in stale["additionalContext"]
    hook = agent.ask("Write", file_path=".git/hooks/pre-commit", content="z\n")
    assert allowed(hook)
    assert "is protected: it is git's own" in hook["additionalContext"]
    assert "additionalContext" not in agent.ask("Write", file_path="docs/new.md", content="z\n") or mode == "warn"


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_what_no_snapshot_holds_is_deleted_only_with_a_yes(repository: Path, home: Path, mode: str) -> None:
    gate = open_own(repository, home, mode)
    blocked(repository)
    for number, done in enumerate((write(gate, "src/app.py", "delete"), run(gate, "rm src/app.py", "c2"))):
        assert done.violation is not None, number
        assert "may not come back: it needs a person's yes" in done.violation.message
    assert (repository / "src/app.py").exists()
    unfloored = Gate.open(repository, replace(machine(home), has_floor=False))
    assert write(unfloored, "src/app.py", "delete", "c3").output is not None
