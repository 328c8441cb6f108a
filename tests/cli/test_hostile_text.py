"""What strangers named or wrote cannot speak to the terminal, whichever command prints it."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.test_approvals import output
from conftest import run_git
from gate.driving import INTENTS, Agent, governed
from remit.cli.root import remit
from terminals import show_on_terminal

TRICK = "\x1b]0;owned\a\x1b[30m\x1b[2J\u202e\x9b31m\x90q\x9c"
"""A title, a colour that Remit has not, an erasing, a turn of the writing direction, and C1's forms of such things."""
IN_YAML = '"N\\e]0;owned\\a\\e[30m\\e[2J\\u202e\\x9b31m\\nINT-009 forged"'
OWN_COLOUR = re.compile(r"\x1b\[(?!30m)[0-9;]*m")

COMMANDS = (
    ("status",),
    ("status", "--coverage"),
    ("log", "-n", "50"),
    ("log", "--json"),
    ("search", "nothing", "--json"),
    ("session",),
    ("intent", "list"),
    ("intent", "show", "INT-001"),
    ("restore", "list"),
    ("restore", "latest", "--preview"),
    ("verify", "--fail-on", "never"),
    ("mode", "suggest"),
    ("approvals", "list"),
)


VIEWS: dict[tuple[str, ...], list[str]] = {
    ("status",): ["status", "status --coverage"],
    ("log",): ["log -n 50", "log --path src/evil.py"],
    ("session",): ["session"],
    ("approvals", "list"): ["approvals list"],
    ("mode",): ["mode", "mode suggest"],
    ("rules", "diff"): ["rules diff"],
    ("exec",): ["exec -- true"],
    ("data", "list"): ["data list"],
    ("intent", "clear"): ["intent clear"],
    ("intent", "history"): ["intent history INT-001"],
    ("intent", "lint"): ["intent lint"],
    ("intent", "list"): ["intent list"],
    ("intent", "show"): ["intent show INT-001"],
    ("intent", "select"): [f"intent select {TRICK}"],
    ("map",): ["map"],
    ("todo",): ["todo"],
    ("lesson",): ["lesson"],
    ("plan", "check"): ["plan check"],
    ("plan", "log"): ["plan log"],
    ("plan", "status"): ["plan status"],
    ("plan", "suggest"): ["plan suggest"],
    ("task", "artifacts"): ["task artifacts INT-001"],
    ("task", "show"): ["task show INT-001"],
    ("worker", "list"): ["worker list"],
    ("fleet", "doctor"): ["fleet doctor"],
    ("blame",): [
        f"blame {options} src/evil.py"
        for options in ("", "-s", "-e", "-f", "--porcelain", "--line-porcelain", "--incremental", "--color always")
    ],
    ("why",): ["why src/evil.py:1", "why HEAD", "why src/evil.py"],
    ("show",): ["show RECORD"],
    ("search",): ["search owned", "search owned --talk"],
    ("stats",): ["stats"],
    ("verify",): ["verify --fail-on never"],
    ("patch", "make"): ["patch make HEAD~1", "patch make HEAD~1 --diff"],
    ("patch", "check"): ["patch check PATCH"],
    ("restore",): ["restore list", "restore latest --preview"],
    ("doctor",): ["doctor"],
    ("policy", "test"): [f"policy test --command echo{TRICK}"],
    ("trust",): ["trust --list", "trust --show"],
    ("ledger", "head"): ["ledger head"],
    ("ledger", "verify"): ["ledger verify"],
    ("ledger", "compact"): ["ledger compact"],
    ("notes", "write"): ["notes write"],
    ("notes", "show"): ["notes show"],
    ("trailers",): ["trailers --check HEAD~1..HEAD", "trailers"],
    ("export",): [f"export --as {form}" for form in ("csv", "agent-trace", "in-toto", "s1", "s2")],
    ("import",): ["import src/evil.py"],
}
"""Words of each command that shows something, with a place for the newest record's id and for a patch's file."""

CHANGES = "it acts, and prints by the same door what it did"
SERVES = "it speaks to a program, whose bytes they are"
UNSHOWN: dict[tuple[str, ...], str] = {
    **dict.fromkeys([("init",), ("adopt",), ("rules", "accept"), ("demo",), ("uninstall",), ("serve",)], CHANGES),
    ("start",): CHANGES,
    **dict.fromkeys([("approvals", word) for word in ("allow", "deny", "revoke")], CHANGES),
    **dict.fromkeys([("intent", word) for word in ("archive", "bind", "complete", "delete", "edit", "fork")], CHANGES),
    **dict.fromkeys([("intent", word) for word in ("merge", "migrate", "new", "propose", "renumber")], CHANGES),
    **dict.fromkeys([("intent", word) for word in ("reopen", "resolve", "set-status", "sync")], CHANGES),
    **dict.fromkeys([("intent", word) for word in ("unbind", "widen")], CHANGES),
    **dict.fromkeys([("plan", word) for word in ("land", "pause", "resume", "start", "stop", "undo")], CHANGES),
    **dict.fromkeys([("task", word) for word in ("drop", "give-back", "reassign", "retry", "steer", "take")], CHANGES),
    **dict.fromkeys([("worker",), ("worker", "drain")], CHANGES),
    **dict.fromkeys([("fleet", word) for word in ("migrate", "prune", "rebuild")], CHANGES),
    **dict.fromkeys([("ledger", word) for word in ("key", "prune", "push", "fetch", "repair")], CHANGES),
    ("ledger", "witness"): "it shows hashes only",
    **dict.fromkeys([("pin", "set"), ("pin", "clear"), ("data", "add")], CHANGES),
    ("notes", "sync"): CHANGES,
    ("patch", "apply"): CHANGES,
    ("policy", "report-wrong"): CHANGES,
    ("approvals", "watch"): "its cards have tests of their own in test_approvals.py",
    ("run",): "its screen has tests of its own in cli/terminal",
    **dict.fromkeys([("completion",), ("schema",)], "it shows Remit's own text only"),
    **dict.fromkeys([("acp-agent",), ("mcp",), ("daemon",), ("hook",)], SERVES),
}


def find_commands(
    command: click.Command, context: click.Context, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command that does something."""
    if not isinstance(command, click.Group):
        yield words
        return
    if words and command.invoke_without_command:
        yield words
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found
        yield from find_commands(found, click.Context(found, info_name=name, parent=context), (*words, name))


def test_each_command_is_shown_here_or_says_why_not() -> None:
    assert {*find_commands(remit, click.Context(remit))} == {*VIEWS, *UNSHOWN}
    assert not VIEWS.keys() & UNSHOWN.keys()


@pytest.fixture
def repository_of_tricks(repository: Path, home: Path) -> Path:
    """A repository whose intent, files, session and tools are named to do harm."""
    governed(repository, "observe", INTENTS.replace("name: Names", f"name: {IN_YAML}"))
    agent = Agent(repository, home, session=f"s{TRICK}")
    agent.send("UserPromptSubmit", prompt=f"do{TRICK}\nforged")
    agent.select()
    agent.write("src/evil.py", f"x = 1 # {TRICK}\ny = '{TRICK}'\n")
    run_git(repository, "add", "src/evil.py")
    author = f"Dana{TRICK}"
    run_git(repository, "-c", f"user.name={author}", "-c", f"user.email=d{TRICK}", "commit", "-qm", f"say{TRICK}")
    agent.write(f"src/{TRICK}\nforged.py", f"x = '{TRICK}'\n")
    agent.write(f"docs-{TRICK}.md", "x\n")
    agent.shell(f"echo '{TRICK}' > src/b.txt")
    asked = agent.ask(f"mcp__x{TRICK}\nforged", note=TRICK)
    agent.tell(f"mcp__x{TRICK}\nforged", asked["call_id"], note=TRICK)
    return repository


def test_no_command_passes_on_what_a_terminal_would_obey(repository_of_tricks: Path) -> None:
    for words in COMMANDS:
        said = output(repository_of_tricks, *words)
        found = {c for c in said if unicodedata.category(c) in ("Cc", "Cf")} - {"\n", "\t"}
        assert not found, (words, found, said)
        if words[:2] == ("intent", "show"):
            continue  # what agents are told keeps its lines, inside an element
        assert not any(line.startswith(("forged", "INT-009")) for line in said.splitlines()), (words, said)


def find_raw(shown: str) -> set[str]:
    """Return the characters that a terminal would obey or hide, in what is shown."""
    return {c for c in OWN_COLOUR.sub("", shown) if unicodedata.category(c) in ("Cc", "Cf")} - {"\n", "\t"}


@pytest.mark.parametrize("columns", [0, 80, 200])
def test_blame_says_nothing_to_the_terminal(repository_of_tricks: Path, columns: int) -> None:
    for words in (["blame", "src/evil.py"], ["blame", "--porcelain", "src/evil.py"]):
        _, shown = show_on_terminal(repository_of_tricks, words, columns, {})
        assert "owned" in shown
        assert not find_raw(shown), (words, shown)
    piped = output(repository_of_tricks, "blame", "--json", "src/evil.py")
    assert "owned" in piped
    assert not find_raw(piped), piped


@pytest.mark.live
def test_no_view_says_anything_to_the_terminal(repository_of_tricks: Path, tmp_path: Path) -> None:
    record = output(repository_of_tricks, "log", "-n", "1").split()[0]
    patch = tmp_path / "x.patch"
    patch.write_text(output(repository_of_tricks, "patch", "make", "HEAD~1"))
    places = {"RECORD": record, "PATCH": str(patch)}
    faults: list[tuple[str, set[str]]] = []
    told: dict[str, str] = {}
    for line in (line for lines in VIEWS.values() for line in lines):
        for form in ([], ["--json"]):
            words = [places.get(word, word) for word in line.split()]
            at = words.index("--") if "--" in words else len(words)
            _, shown = show_on_terminal(repository_of_tricks, [*words[:at], *form, *words[at:]], 0, {})
            told.setdefault(line, shown)
            if raw := find_raw(shown):
                faults.append((" ".join((line, *form)), raw))
    assert faults == []
    assert [line for line, shown in told.items() if "Usage:" in shown] == [], "a view that is not shown proves nothing"
