"""`remit why COMMIT`: the authors of the lines that commits added."""

from functools import partial
from pathlib import Path

import pytest

from conftest import run_git
from forked_commands import run_command
from gate.driving import governed, machine
from provenance.speaker import Speaker
from remit.gate.gate import Gate
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.why.commit_summary import CommitSummary, NoSuchCommit, summarize_commits
from remit.tools.conversations import conversations


@pytest.fixture
def agent(repository: Path, home: Path) -> Speaker:
    return Speaker(governed(repository), home)


def summary(root: Path, home: Path, wanted: str) -> CommitSummary:
    gate = Gate.open(root, machine(home))
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        blamer = Blamer(gate.workspace, index, gate.contents)
        return summarize_commits(blamer, wanted, gate.rules.document, partial(conversations, gate))


def remit(folder: Path, *words: str, code: int = 0) -> str:
    done = run_command(words, folder)
    assert done.returncode == code, done
    return done.stdout + done.stderr


def commit_all(root: Path, message: str) -> None:
    run_git(root, "add", "-A", "src")
    run_git(root, "commit", "-q", "-m", message)


def test_a_commit_tells_whose_lines_it_added_under_which_intent_and_what_was_asked(agent: Speaker, home: Path) -> None:
    agent.add("user", "add two names\nplease")
    agent.select()
    agent.write("src/new.py", "FIRST_NAME = 'Ada'\nLAST_NAME = 'Lovelace'\n")
    (agent.cwd / "src/by_hand.py").write_text("by_a_person = True\n")
    commit_all(agent.cwd, "Names (#12)")
    found = summary(agent.cwd, home, "HEAD")
    assert [(one.subject, one.pull_request) for one in found.commits] == [("Names (#12)", 12)]
    assert found.lines == {"ai": 2, "unknown": 1}
    assert found.grades == {"exact": 2}
    assert [(i.intent_id, i.name, i.lines) for i in found.intents] == [("INT-001", "Names", 2)]
    assert [(s.agent, s.session_id, s.lines, s.prompt) for s in found.sessions] == [
        ("claude-code", "session-1", 2, "add two names\nplease")
    ]
    assert {file.path: (file.lines, file.intents) for file in found.files} == {
        "src/new.py": ({"ai": 2}, ("INT-001",)),
        "src/by_hand.py": ({"unknown": 1}, ()),
    }
    text = remit(agent.cwd, "why", "HEAD")
    assert "added     3 lines  ✦ 2 by agents  · 1 unknown" in text
    assert "asked  add two names" in text


def test_a_range_sums_up_its_commits_and_a_commit_counts_only_its_own_lines(agent: Speaker, home: Path) -> None:
    agent.select()
    agent.write("src/new.py", "FIRST_NAME = 'Ada'\n")
    commit_all(agent.cwd, "first")
    agent.write("src/new.py", "FIRST_NAME = 'Ada'\nLAST_NAME = 'Lovelace'\n")
    commit_all(agent.cwd, "second")
    assert summary(agent.cwd, home, "HEAD").lines == {"ai": 1}
    both = summary(agent.cwd, home, "HEAD~2..HEAD")
    assert both.lines == {"ai": 2}
    assert len(both.commits) == 2


@pytest.mark.parametrize("wanted", ["nothing-of-that-name", "HEAD..none", "--all"])
def test_a_name_that_is_no_commit_is_refused_in_gits_words(agent: Speaker, home: Path, wanted: str) -> None:
    with pytest.raises(NoSuchCommit):
        summary(agent.cwd, home, wanted)


def test_a_merge_and_a_deletion_add_no_lines(agent: Speaker, home: Path) -> None:
    run_git(agent.cwd, "rm", "-q", "src/app.py")
    run_git(agent.cwd, "commit", "-q", "-m", "gone")
    assert summary(agent.cwd, home, "HEAD").lines == {}
    assert "added  0 lines" in remit(agent.cwd, "why", "HEAD")


def test_the_command_takes_a_commit_a_range_and_a_file_of_such_a_name(agent: Speaker, home: Path) -> None:
    agent.select()
    agent.write("src/new.py", "FIRST_NAME = 'Ada'\n")
    commit_all(agent.cwd, "first")
    for wanted in ("HEAD", "HEAD~1..HEAD", run_git(agent.cwd, "rev-parse", "HEAD").strip()[:9]):
        assert "1 line  ✦ 1 by agents" in remit(agent.cwd, "why", wanted)
    (agent.cwd / "HEAD").write_text("a file of that name\n")
    assert "HEAD:1  unknown" in remit(agent.cwd, "why", "HEAD")
    assert "no such path" in remit(agent.cwd, "why", "src/none.py", code=2)
