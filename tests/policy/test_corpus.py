"""The share of commands of two corpora decided well by their text alone, in a real repository.

`commands.jsonl` and `readonly.jsonl` hold commands whose effects were watched when they ran; `agents.jsonl` was written
before the tables were tuned: what agents run in a day, and what they must not. The intent owns `src/**`.
"""

import re
import subprocess
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from gate.driving import governed, machine, overlay_untried
from policy.test_command_reads import CORPUS
from remit.cli.policy.policy import PolicyQuery, judge_query
from remit.core.call import SessionKey
from remit.gate.gate import Gate


class AgentCommand(msgspec.Struct):
    """`read` writes nothing, `inside` writes below src only, `outside` elsewhere; `open`: the text does not tell."""

    kind: Literal["read", "inside", "outside", "dangerous", "open"]
    cmd: str


class WatchedCommand(msgspec.Struct):
    id: str
    cmd: str
    writes: list[str] | str
    dangerous: bool
    lenient: bool = False


def lines(name: str) -> list[bytes]:
    return [line for line in (CORPUS / name).read_bytes().splitlines() if line]


AGENT_COMMANDS = [msgspec.json.decode(line, type=AgentCommand) for line in lines("agents.jsonl")]
WATCHED_COMMANDS = [
    row
    for name in ("commands.jsonl", "readonly.jsonl")
    for line in lines(name)
    if not (row := msgspec.json.decode(line, type=WatchedCommand)).lenient
]

FILES = {
    **{f"src/{name}.py": f"x = 1\ndef {name}():\n    return x\n" for name in ("a", "b", "util")},
    "src/pkg/mod.py": "y = 2\n",
    "src/data.json": '{"k": 1}\n',
    "tests/test_a.py": "def test_a():\n    assert 1\n",
    "docs/readme.md": "# Readme\n\nold text\n",
    "config/app.toml": "k = 1\n",
    "secret/keys.txt": "TOPSECRET\n",
    ".env": "API=1\n",
    ".intentignore": "secret/\n",
    ".claude/settings.json": "{}\n",
    "scripts/run.sh": "#!/bin/sh\necho x > docs/readme.md\n",
    "out/tmp.o": "blob",
    "../outside/victim.txt": "victim\n",
}


def place(tmp_path: Path, home: Path) -> Gate:
    """The repository in which the commands were run: with links in the scope that lead out of it."""
    root = tmp_path / "place" / "repo"
    for name, content in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (root / "src/link_dir").symlink_to("../secret")
    (root / "src/link.txt").symlink_to("../docs/readme.md")
    (root / "src/hard.txt").hardlink_to(root / "secret/keys.txt")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", root, *words], check=True)
    return Gate.open(governed(root), machine(home))


@pytest.fixture
def gate(tmp_path: Path, home: Path) -> Gate:
    overlay_untried(home)
    return place(tmp_path, home)


UNTOLD_CONTENT = "what it puts into files is not in its text"
"""Why a command runs contained that may run as written: so that the lines it makes are proved to be its own."""


def answers(gate: Gate, commands: list[str]) -> dict[str, dict[str, Any]]:
    asked = ((command, PolicyQuery(command=command)) for command in commands)
    return {command: judge_query(gate, one, SessionKey(""), "INT-001") for command, one in asked}


def effects(gate: Gate, commands: list[str]) -> dict[str, str]:
    """What is done about each command in enforce."""
    return {command: answer["effect"] for command, answer in answers(gate, commands).items()}


def effects_by_need(gate: Gate, commands: list[str]) -> dict[str, str]:
    """What is done about each command; `prove` for one that is contained only to prove whose its lines are."""
    return {
        command: "prove" if answer["reasons"][-1:] == [UNTOLD_CONTENT] else answer["effect"]
        for command, answer in answers(gate, commands).items()
    }


def share(name: str, found: dict[str, str], bad: tuple[str, ...], most: float) -> None:
    """No more than `most` of the commands met one of these effects; counts beside percentages."""
    wrong = sorted(command for command, effect in found.items() if effect in bad)
    print(f"{name}: {len(wrong)} of {len(found)} ({100 * len(wrong) / len(found):.1f} %) {'/'.join(bad)}: {wrong}")
    assert len(wrong) <= most * len(found), wrong


def watched_commands(kind: str) -> list[str]:
    """The commands whose effects were watched, by what they did."""
    dangerous = [row.cmd for row in WATCHED_COMMANDS if row.dangerous]
    read_only = [row.cmd for row in WATCHED_COMMANDS if row.id.startswith("R")]
    fine = [row.cmd for row in WATCHED_COMMANDS if not row.dangerous and not row.id.startswith("R")]
    return {"dangerous": dangerous, "read": read_only, "inside": fine}[kind]


def agent_commands(*kinds: str) -> list[str]:
    return [row.cmd for row in AGENT_COMMANDS if row.kind in kinds]


SOURCES = ["watched", "held out"]


@pytest.mark.parametrize("of", SOURCES)
def test_at_most_one_in_a_hundred_dangerous_commands_is_let_through(gate: Gate, of: str) -> None:
    commands = watched_commands("dangerous") if of == "watched" else agent_commands("dangerous", "outside")
    share(f"dangerous, {of}", effects(gate, commands), ("allow",), 0.01)


@pytest.mark.parametrize("of", SOURCES)
def test_what_only_reads_is_neither_denied_nor_asked_about_and_seldom_contained(gate: Gate, of: str) -> None:
    found = effects(gate, watched_commands("read") if of == "watched" else agent_commands("read"))
    share(f"read-only, {of}", found, ("deny", "ask"), 0.005)
    share(f"read-only, {of}", found, ("contain",), 0.05)


@pytest.mark.parametrize("of", SOURCES)
def test_writes_in_the_scope_are_seldom_stopped_or_contained(gate: Gate, of: str) -> None:
    found = effects_by_need(gate, watched_commands("inside") if of == "watched" else agent_commands("inside"))
    share(f"in scope, {of}", found, ("deny", "ask"), 0.05)
    share(f"in scope, must be contained, {of}", found, ("contain",), 0.10)


@pytest.mark.parametrize("of", SOURCES)
def test_a_command_is_contained_to_prove_its_lines_only_where_its_text_tells_all_its_files(gate: Gate, of: str) -> None:
    commands = watched_commands("inside") if of == "watched" else agent_commands("inside")
    found = answers(gate, commands)
    proving = [command for command, effect in effects_by_need(gate, commands).items() if effect == "prove"]
    assert [c for c in proving if (found[c]["outcome"], bool(found[c]["writes"])) != ("literal_writes", True)] == []


DISCARDS = re.compile(r"\bgit (?:-C \S+ )?(?:reset (?:\S+ )*--hard|checkout (?:-f|--|\.)|clean|restore)")
"""What throws uncommitted work away: a snapshot comes before it, and in the scope it may run."""


def test_what_is_dangerous_whatever_the_scope_is_stopped_before_it_runs(gate: Gate) -> None:
    found = effects(gate, agent_commands("dangerous"))
    discards = {command: effect for command, effect in found.items() if DISCARDS.search(command)}
    assert 10 <= len(discards) <= 20
    share("work thrown away, held out", discards, ("allow",), 0.0)
    rest = {command: effect for command, effect in found.items() if command not in discards}
    share("dangerous, held out", rest, ("allow", "contain"), 0.01)


WRONG_HERE = [
    ("cd nowhere && touch src/x", "it goes into"),
    ("cd nowhere || rm -rf docs", "it goes into"),
    ("echo x > src/hard.txt", "hard links"),
    ("tar xf src/x.tar", "whole workspace"),
    ("grep -rl old src docs --include=*.md | xargs sed -i s/a/b/", "may become"),
    ("grep -rl old docs | xargs sed -i s/a/b/", "it may write"),
    ("rm src/pkg/*", "may become other words"),
]


@pytest.mark.parametrize(("command", "why"), WRONG_HERE)
def test_a_text_that_does_not_hold_here_is_contained_and_says_why(gate: Gate, command: str, why: str) -> None:
    (gate.workspace.root / "src" / "pkg" / "a b").write_text("x")
    answer = judge_query(gate, PolicyQuery(command=command), SessionKey(""), "INT-001")
    assert (answer["effect"], answer["verdict"]) == ("contain", "contain")
    assert why in answer["reasons"][-1]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("echo x > docs/y", "SCOPE_VIOLATION"),
        ("cp src/a.py docs", "SCOPE_VIOLATION"),
        ("rm -rf src docs", "SCOPE_VIOLATION"),
        ("rm docs/*.md", "SCOPE_VIOLATION"),
        ("echo x > src/link.txt", "SCOPE_VIOLATION"),
        ("touch src/link_dir/x", "INTENTIGNORE_PATH_BLOCKED"),
        ("cp src/data.json .claude/settings.json", "PROTECTED_PATH"),
        ("git config user.name x", "PROTECTED_PATH"),
        ("touch ../outside/x", "OUTSIDE_WORKSPACE"),
        ("echo x >> ~/.bashrc", "OUTSIDE_WORKSPACE"),
    ],
)
def test_a_target_is_judged_like_a_file_that_a_tool_writes(gate: Gate, command: str, code: str) -> None:
    answer = judge_query(gate, PolicyQuery(command=command), SessionKey(""), "INT-001")
    assert (answer["effect"], answer["outcome"]) == ("deny", "literal_writes")
    assert any(reason.startswith(code) for reason in answer["reasons"])


@pytest.mark.parametrize(
    ("command", "writes"),
    [
        ("cp src/a.py src/pkg", ["src/pkg/a.py"]),
        ("rm -rf src/pkg", ["src/pkg/mod.py"]),
        ("rm src/link.txt", ["src/link.txt"]),
        ("sed -i 1d src/*.py", ["src/a.py", "src/b.py", "src/util.py"]),
        ("mkdir -p src/new src/pkg", ["src/new/"]),
        ("cd src && mv a.py pkg/../c.py", ["src/a.py", "src/c.py"]),
        ("cat src/a.py", []),
        ("make", None),
    ],
)
def test_the_files_that_are_written_are_named_from_the_root(gate: Gate, command: str, writes: list[str] | None) -> None:
    assert judge_query(gate, PolicyQuery(command=command), SessionKey(""), "INT-001")["writes"] == writes
