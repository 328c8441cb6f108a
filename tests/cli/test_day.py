"""A day with an agent, as the views show it: at two widths, with and without colour, and in a pipe.

`UPDATE_VIEWS=1 pytest tests/cli/test_day.py` writes the pictures anew; read the difference.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.running import data, remit, run
from conftest import run_git
from forked_commands import start_process
from gate.driving import Agent, body, records, uncontained
from gate.people.test_ask import Person
from remit.gate.people.questions import ApprovalReply
from terminals import show_on_terminal

PICTURES = Path(__file__).parent / "views"
SESSION = "7f3a2c10-1111-4222-8333-xyzxyz"
VIEWS = {
    "log": ("log", "--time", "iso"),
    "session": ("session", "7f3a", "--time", "iso"),
    "status": ("status", "--time", "iso"),
    "show": ("show", "toolu_yz", "--time", "iso"),
    "intent-show": ("intent", "show", "INT-001", "--time", "iso"),
    "intent-list": ("intent", "list"),
    "search": ("search", "why did we reset the branch?", "--time", "iso"),
}
HIDDEN: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", lambda found: "2026-11-23T12:00:00Z"),
    (r"(?<![0-9a-f-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", lambda found: "U" * 36),
    (r"(?<![0-9a-f-])(?:[0-9a-f]{40}|[0-9a-f]{12}|[0-9a-f]{8})(?![0-9a-f-])", lambda found: "x" * len(found[0])),
)


@pytest.fixture
def day(repository: Path, home: Path) -> Path:
    """A repository in which an agent wrote, was refused, asked three times, and a person answered."""
    for number in range(8):
        (repository / "src" / f"made{number}.js").write_text("x\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "generated files")
    uncontained(repository, home)
    agent = Agent(repository, home, SESSION)
    agent.send("SessionStart", source="startup", model="claude-sonnet-5")
    agent.select()
    agent.write("src/app.py", "def main():\n    return 2\n")
    agent.write("docs/x.md", "x\n")
    agent.shell("echo 'one\n two' > src/b.txt\necho three >> src/b.txt")
    with Person(repository, home, ApprovalReply(True, "the work is pushed")):
        command = "git reset -q --hard HEAD~1"
        agent.ask("Bash", "toolu_yz", command=command)
        run_git(repository, *command.split()[1:])
        agent.tell("Bash", "toolu_yz", {"stdout": ""}, command=command)
    with Person(repository, home, ApprovalReply(False, "not now, I still need build/")):
        agent.shell("git clean -fdx")
    with Person(repository, home, ApprovalReply(True, extent="session")):
        agent.write("docs/y.md", "y\n")
    return repository


def on_terminal(folder: Path, words: tuple[str, ...], width: int, **around: str) -> str:
    """What a command shows on a long terminal of that width."""
    code, shown = show_on_terminal(folder, words, width, {"TERM": "xterm", **around}, rows=500)
    assert code == 0
    return shown


def normalised(text: str, root: Path) -> str:
    """The text without what differs from run to run, and from the line that names the folder on."""
    lines = text.split("\n")
    start = next((n for n, line in enumerate(lines) if re.sub(r"\x1b\[\d*m", "", line).startswith("mode ")), 0)
    text = "\n".join(lines[start:]).replace(str(root), "/repo")
    for pattern, hidden in HIDDEN:
        text = re.sub(pattern, hidden, text)
    return text


def test_the_views_of_a_day_are_as_they_were(day: Path) -> None:
    PICTURES.mkdir(exist_ok=True)
    for name, words in VIEWS.items():
        screens = {
            "80": on_terminal(day, words, 80, NO_COLOR="1"),
            "120": on_terminal(day, words, 120, NO_COLOR="1"),
            "80-colour": on_terminal(day, words, 80),
            "pipe": remit(day, *words),
        }
        assert re.sub(r"\x1b\[[0-9;]*m", "", screens["80-colour"]) == screens["80"]
        for screen, shown in screens.items():
            picture = PICTURES / f"{name}-{screen}.txt"
            found = normalised(shown, day)
            if os.environ.get("UPDATE_VIEWS"):
                picture.write_text(found)
            assert found == picture.read_text(), picture.name


def test_on_a_terminal_times_are_told_from_now_and_a_pager_shows_what_is_long(day: Path, tmp_path: Path) -> None:
    assert re.search(r"now|\d+ (s|min) ago", on_terminal(day, ("log", "-n", "3"), 80))
    paged = tmp_path / "paged"
    shown = on_terminal(day, ("log", "-n", "400"), 80, PAGER=f"cat > {paged}")
    assert "✗ denied" in shown  # it fits the 500 lines of this terminal
    on_terminal(day, ("log", "-n", "400", "--no-pager"), 80, PAGER=f"cat > {paged}")
    assert not paged.exists()


def test_log_follows_what_comes(day: Path, home: Path) -> None:
    words = ["log", "--follow", "--json", "-n", "1", "--event", "denied"]
    with start_process(words, day, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert body(first)["call"]["command"] == "git clean -fdx"
        Agent(day, home, SESSION).write("lib/z.md", "z\n")
        second = json.loads(process.stdout.readline())
        assert body(second)["violation"]["path"] == "lib/z.md"
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130


def test_parts_of_ids_are_taken_and_candidates_listed(day: Path) -> None:
    question = body(records(day, "approval_answered")[0])["approval"]["id"]
    for given in (question[-8:], question):
        assert "“the work is pushed”" in remit(day, "show", given)
    assert len(remit(day, "log", "--session", "7f3a").splitlines()) > 10
    newest = records(day)[-1]["id"]
    assert data(day, "show", newest[-8:])["id"] == newest
    done = run(day, "show", newest[:4])  # the first ones tell the time: these change every seven weeks
    assert done.returncode == 2
    assert "records: " in done.stderr
    assert newest in done.stderr


def test_a_question_in_a_persons_words_finds_records(day: Path) -> None:
    found = remit(day, "search", "Why did we reset this thing?")
    assert "git reset" in found.splitlines()[0]
    both = remit(day, "search", "docs reset").splitlines()
    assert any("git reset" in row for row in both)
    assert any("docs/y.md" in row for row in both)
    assert "no records" in remit(day, "search", "--newest", "docs", "clean")


def test_figures_take_paths_from_the_folder_where_they_are_asked(day: Path) -> None:
    run_git(day, "add", "-A")
    run_git(day, "commit", "-qm", "work")
    here = data(day / "src", "stats", "app.py")
    assert [file["path"] for file in here["files"]] == [
        file["path"] for file in data(day, "stats", "src/app.py")["files"]
    ]
    assert here["lines"] == 2
    done = run(day, "stats", "nofile")
    assert (done.returncode, "no file 'nofile' is there" in done.stderr) == (2, True)
