"""A yes in the agent's own permission dialog counts as a person's only where nothing else can have given it."""

import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gate.driving import Agent, allowed, body, governed, machine, records, refusal, said
from gate.people.test_ask import Person
from processes import list_below
from remit.gate.gate import Gate
from remit.servers.hook import HookFrame, answer
from remit.workspace.processes.process_tracking import read_command_line
from waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")

PROPOSE = "remit intent propose 'Rate limits' --scope src/limits.py --why 'see #12'"
STARTER = """
import subprocess, sys
for line in open(int(sys.argv[1])):
    child = subprocess.Popen(line.rstrip("\\n").split("\\t"), stdin=subprocess.PIPE)
    print(child.pid, file=open(int(sys.argv[2]), "w", closefd=False), flush=True)
"""
RUNNER = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:], close_fds=False))"
HOOK = ("hook", "claude-code", "pre")


class Program:
    """A process at a terminal of its own, or at none, which starts others: an agent with hooks."""

    def __init__(
        self, folder: Path, *, name: str = "claude", options: tuple[str, ...] = (), tty: bool = True, above: str = ""
    ) -> None:
        for file, text in ((above or "-", RUNNER), (name, STARTER), ("claude-code", "read -r _\n")):
            (folder / file).write_text(text)
        with suppress(FileExistsError):
            (folder / "hook").symlink_to("/bin/sh")
        asked, self.ask = os.pipe()
        told, answers = os.pipe()
        words = [sys.executable, "-I", "-S", str(folder / name), str(asked), str(answers), *options]
        if above:
            words = [sys.executable, "-I", "-S", str(folder / above), *words]
        self.master = -1
        if tty:
            self.pid, self.master = pty.fork()
            if self.pid == 0:
                os.chdir(folder)
                for descriptor in (asked, answers):
                    os.set_inheritable(descriptor, True)
                os.execve(sys.executable, words, {"PATH": f"{folder}:/usr/bin:/bin"})
        else:
            variables = {"PATH": f"{folder}:/usr/bin:/bin"}
            process = subprocess.Popen(
                words, cwd=folder, env=variables, pass_fds=(asked, answers), start_new_session=True
            )
            process.returncode, self.pid = 0, process.pid
        for descriptor in (asked, answers):
            os.close(descriptor)
        self.answers = os.fdopen(told)

    def start(self, *words: str) -> int:
        """Start a process below, or one below a shell; return its id."""
        os.write(self.ask, ("\t".join(words) + "\n").encode())
        pid = int(self.answers.readline())
        wanted = words[0] if words[0] != "sh" else "hook"
        found: list[int] = []

        def is_started() -> bool:
            found[:] = [p for p in (pid, *list_below(pid)) if read_command_line(p)[:1] == [wanted]]
            return bool(found)

        wait_until(is_started)
        return found[0]

    def end(self) -> None:
        os.close(self.ask)
        self.answers.close()
        os.waitpid(self.pid, 0)
        if self.master >= 0:
            os.close(self.master)


class DialogAgent(Agent):
    """A session whose hooks run below a real process."""

    def __init__(self, root: Path, home: Path, programs: list[Program]) -> None:
        super().__init__(root, home)
        self.programs, self.options, self.name, self.tty = programs, (), "claude", True
        self.permission_mode, self.above = "default", ""
        self.words: tuple[str, ...] = HOOK
        self.program: Program | None = None
        self.hook = 0

    def begin(self) -> Program:
        if self.program is None:
            folder = self.home / f"bin{len(self.programs)}"
            folder.mkdir()
            self.program = Program(folder, name=self.name, options=tuple(self.options), tty=self.tty, above=self.above)
            self.programs.append(self.program)
        return self.program

    def send(self, event: str, **fields: Any) -> Any:
        pid = self.hook or (self.begin().start(*self.words) if self.words else 0)
        frame = HookFrame("claude-code", str(self.cwd), "pre" if event == "PreToolUse" else "post", pid)
        return answer(self.payload(event, **fields), frame, self.environment)

    def intents(self) -> list[str]:
        return [i.name for i in Gate.open(self.cwd, machine(self.home)).intents.document.intents]

    def settings(self, **content: Any) -> None:
        file = self.home / ".claude" / "settings.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content))


@pytest.fixture
def agent(repository: Path, home: Path) -> Generator[DialogAgent]:
    programs: list[Program] = []
    yield DialogAgent(governed(repository), home, programs)
    for program in programs:
        program.end()


def propose(agent: DialogAgent, command: str = PROPOSE) -> dict[str, Any]:
    return agent.ask("Bash", "toolu_1", command=command)


def run(agent: DialogAgent, command: str = PROPOSE) -> str:
    """Tell that the command ran, as the agent does after a yes; the words for the model."""
    return str(agent.tell("Bash", "toolu_1", {"stdout": ""}, command=command).get("additionalContext", ""))


def test_a_yes_makes_and_selects_and_is_recorded_as_the_persons(agent: DialogAgent) -> None:
    agent.words = ("sh", "-c", f"{shlex.join(HOOK)} || true")
    shown = propose(agent)
    assert shown["permissionDecision"] == "ask"
    assert "a new intent\nRate limits     may change" in shown["permissionDecisionReason"]
    assert "  src/limits.py (new)" in shown["permissionDecisionReason"]
    assert agent.intents() == ["Names", "Docs"], "nothing is made before the command runs"
    assert "is made and selected for you" in run(agent)
    assert agent.intents() == ["Names", "Docs", "Rate limits"]
    assert allowed(agent.write("src/limits.py", "x\n"))
    [asked] = [body(r)["approval"] for r in records(agent.cwd, "approval_requested")]
    [given] = [body(r)["approval"] for r in records(agent.cwd, "approval_answered")]
    assert (asked["through"], given["id"] == asked["id"]) == ("agent dialog", True)
    assert (given["by"], given["through"], given["answer"], given["who"]["issuer"]) == (
        "person",
        "agent dialog",
        "allow",
        "git",
    )
    effects = [body(r)["decision"]["effect"] for r in records(agent.cwd, "tool_use")]
    assert effects[0] == "ask"
    assert run(agent) == "", "a yes serves once"
    assert agent.intents().count("Rate limits") == 1


def test_other_steps_are_asked_about_in_the_same_way(agent: DialogAgent) -> None:
    agent.select("INT-002")
    agent.write("src/q.py", "x\n")
    widen = "remit intent widen src/q.py --why 'it says how'"
    assert "add src/q.py to the scope of INT-002" in propose(agent, widen)["permissionDecisionReason"]
    assert "now also owns src/q.py" in run(agent, widen)
    agent.write("src/r.py", "x\n")
    agent.ask("Bash", command="remit intent clear")
    switch = "remit intent select INT-001"
    assert "src/r.py was refused under INT-002" in propose(agent, switch)["permissionDecisionReason"]
    run(agent, switch)
    assert allowed(agent.write("src/r.py", "x\n"))


def set_mode(mode: str) -> Callable[[DialogAgent], None]:
    return lambda agent: setattr(agent, "permission_mode", mode)


def set_field(name: str, value: Any) -> Callable[[DialogAgent], None]:
    return lambda agent: setattr(agent, name, value)


def set_settings(**content: Any) -> Callable[[DialogAgent], None]:
    return lambda agent: agent.settings(**content)


def begin_other_command(agent: DialogAgent) -> None:
    agent.permission_mode = "bypassPermissions"
    agent.select()
    assert allowed(agent.ask("Bash", "toolu_0", command="make all"))
    agent.permission_mode = "default"


def break_settings(agent: DialogAgent) -> None:
    agent.settings()
    (agent.home / ".claude" / "settings.json").write_text("{")


def write_page(name: str, head: str) -> Callable[[DialogAgent], None]:
    def write(agent: DialogAgent) -> None:
        page = agent.cwd / name
        page.parent.mkdir(parents=True)
        page.write_text(f"---\n{head}\n---\n")

    return write


UNASKED: dict[str, tuple[Callable[[DialogAgent], None], str]] = {
    "bypassPermissions": (set_mode("bypassPermissions"), "its permission mode is bypassPermissions"),
    "dontAsk": (set_mode("dontAsk"), "its permission mode is dontAsk"),
    "auto": (set_mode("auto"), "its permission mode is auto"),
    "no mode": (set_mode(""), "its permission mode is not known"),
    "an unknown mode": (set_mode("polite"), "its permission mode is polite"),
    "a sub-agent": (set_field("agent_id", "sub-1"), "a sub-agent asks"),
    "no process": (set_field("words", ()), "the hook's process is not known"),
    "no terminal": (set_field("tty", False), "without a terminal"),
    "headless": (set_field("options", ("-p", "do it")), "its option -p may answer"),
    "a program answers": (set_field("options", ("--permission-prompt-tool=x",)), "--permission-prompt-tool may answer"),
    "another folder's pages": (set_field("options", ("--add-dir", "..")), "its option --add-dir may answer"),
    "another program's hook": (set_field("name", "vim"), "did not start the hook's process itself"),
    "a command plays the hook": (
        set_field("words", ("sh", "-c", "true; hook claude-code pre; true")),
        "did not start the hook's process itself",
    ),
    "a command in its place": (
        set_field("words", ("cat", "-")),
        "did not start the hook's process itself",
    ),
    "below another agent": (set_field("above", "codex"), "codex (process "),
    "an allow rule": (set_settings(permissions={"allow": ["Bash(remit:*)"]}), "by the rule Bash(remit:*)"),
    "a deny rule": (set_settings(permissions={"deny": ["Bash(remit:*)"]}), "settings deny this command"),
    "a hook that answers": (set_settings(hooks={"PermissionRequest": [{}]}), "the PermissionRequest hook of"),
    "a plugin": (set_settings(enabledPlugins={"x@y": True}), "the plugin 'x@y'"),
    "a skill's hook": (
        write_page(".claude/skills/x/SKILL.md", "hooks: {PermissionRequest: []}"),
        "the PermissionRequest hook of",
    ),
    "an inner folder's hook, in disguise": (
        write_page("src/a/.claude/commands/x.md", r'hooks: {"Permission\x52equest": []}'),
        "the PermissionRequest hook of",
    ),
    "settings that cannot be read": (break_settings, "which cannot be read"),
    "another command under way": (begin_other_command, "another command of this session is under way"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNASKED)
def test_where_the_yes_may_be_anothers_nobody_is_asked(agent: DialogAgent, name: str) -> None:
    change, why = UNASKED[name]
    change(agent)
    refused = propose(agent)
    assert refusal(refused) == "USER_REJECTED", refused
    assert why in refused["permissionDecisionReason"], refused
    assert "remit approvals watch" in refused["permissionDecisionReason"]
    assert run(agent) == ""
    assert agent.intents() == ["Names", "Docs"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--scope '**' --why w", "a yes to this takes a typed word"),
        ("--scope src/limits.py --why w " + "--criterion 'it holds' " * 9, "it would not show the whole question"),
        (f"--scope src/limits.py --why '{'so ' * 160}'", "it would not show the whole question"),
    ],
)
def test_what_the_dialog_cannot_ask_is_refused_with_the_way(agent: DialogAgent, words: str, why: str) -> None:
    refused = propose(agent, f"remit intent propose n {words}")
    assert refusal(refused) == "USER_REJECTED", refused
    assert why in refused["permissionDecisionReason"], refused
    assert "remit approvals watch" in refused["permissionDecisionReason"]


def run_other_arguments(agent: DialogAgent) -> str:
    return run(agent, PROPOSE.replace("src/limits.py", "'src/**'"))


def run_other_call(agent: DialogAgent) -> str:
    return str(agent.tell("Bash", "toolu_2", {}, command=PROPOSE).get("additionalContext", ""))


def run_as_other_session(agent: DialogAgent) -> str:
    agent.session = "session-2"
    return run(agent)


def fail(agent: DialogAgent) -> str:
    return str(
        said(
            agent.send(
                "PostToolUseFailure",
                tool_name="Bash",
                tool_input={"command": PROPOSE},
                tool_use_id="toolu_1",
                error="no",
            )
        )
    )


def run_in_another_mode(agent: DialogAgent) -> str:
    agent.permission_mode = "auto"
    return run(agent)


def run_by_another_agent(agent: DialogAgent) -> str:
    agent.program = None
    return run(agent)


def run_with_a_new_rule(agent: DialogAgent) -> str:
    agent.settings(permissions={"allow": ["Bash"]})
    return run(agent)


def run_in_between(agent: DialogAgent) -> str:
    agent.select()
    agent.ask("Bash", "toolu_3", command="make all")
    return run(agent)


def run_after_another(agent: DialogAgent) -> str:
    agent.permission_mode = "bypassPermissions"
    assert allowed(agent.shell("ls"))
    agent.permission_mode = "default"
    return run(agent)


NOT_RUN: dict[str, tuple[Callable[[DialogAgent], str], str]] = {
    "other arguments": (run_other_arguments, ""),
    "another call": (run_other_call, ""),
    "another session": (run_as_other_session, ""),
    "a failed call": (fail, ""),
    "another mode": (run_in_another_mode, "its permission mode is auto"),
    "another agent": (run_by_another_agent, "another process says that the command ran"),
    "a rule in between": (run_with_a_new_rule, "by the rule Bash of"),
    "a command since": (run_after_another, "another command of this session has run since"),
    "a command in between": (run_in_between, "another command of this session is under way"),
}


@pytest.mark.parametrize("name", NOT_RUN)
def test_only_the_call_that_was_asked_about_and_ran_counts(agent: DialogAgent, name: str) -> None:
    shown = propose(agent)
    assert shown["permissionDecision"] == "ask", shown
    tell, why = NOT_RUN[name]
    told = tell(agent)
    assert why in told
    assert agent.intents() == ["Names", "Docs"]


def test_a_process_that_is_older_than_the_question_does_not_answer_it(agent: DialogAgent) -> None:
    older = agent.begin().start(*HOOK)
    while agent.begin().start(*HOOK) and ticks(agent.begin().start(*HOOK)) == ticks(older):
        continue
    propose(agent)
    agent.hook = older
    assert "is older than the question" in run(agent)
    assert agent.intents() == ["Names", "Docs"]


def ticks(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def test_a_watcher_is_asked_before_the_dialog(agent: DialogAgent, home: Path) -> None:
    with Person(agent.cwd, home) as person:
        assert allowed(propose(agent))
    assert len(person.asked) == 1
    assert run(agent) == ""
    assert agent.intents().count("Rate limits") == 1
