"""Lines after a rewrite of history: an agent's stay the agent's, and nobody else's become so."""

import shutil
import time
from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, governed
from provenance.test_blame import ME, blame, commit, sessions
from remit.gate.gate import Gate
from remit.ledger.file_changes import RecordedChange
from remit.ledger.index.index import open_index
from remit.provenance.origins.commits_before_call import CommitPath
from remit.provenance.origins.file_histories import FileHistories

LONG_AGO = 1_600_000_000  # before any call

CALLER = "def run(args):\n    try:\n        return subprocess.call(args)\n    except OSError:\n        return None\n"
BLOCK = "def measured_total(rows):\n    total = sum(row.price for row in rows)\n    return total\n"


def block(name: str) -> str:
    return BLOCK.replace("measured", name)


@pytest.fixture
def agent(repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """An agent in a repository whose first commits are old."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{LONG_AGO} +0000")
    (repository / "src/lock").write_text('requires-python = ">=3.8"\nresolution = "highest"\n')
    (repository / "src/project").write_text('requires-python = ">=3.8"\n')
    commit(repository)
    monkeypatch.delenv("GIT_COMMITTER_DATE")
    found = Agent(governed(repository), home)
    found.select()
    (repository / ".git/info/exclude").write_text("/.orchestration\n")
    return found


def move_to_subfolder(root: Path) -> None:
    """As `git filter-repo --to-subdirectory-filter sub` does, which leaves nothing of the former history."""
    script = 'git read-tree --empty && git read-tree --prefix=sub/ "$GIT_COMMIT"'
    run_git(root, "filter-branch", "-f", "--index-filter", script, "--", "main")
    run_git(root, "reset", "-q", "--hard")
    run_git(root, "update-ref", "-d", "refs/original/refs/heads/main")
    run_git(root, "reflog", "expire", "--expire=now", "--all")


@pytest.mark.parametrize("pruned", [True, False], ids=["the old commits are gone", "git keeps them for a while"])
def test_a_move_of_all_history_to_a_subfolder_makes_no_old_line_the_agents(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, pruned: bool
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{LONG_AGO + 1000} +0000")
    (agent.cwd / "src/app.py").write_text(f"import subprocess\n\n\n{CALLER}")
    commit(agent.cwd)
    monkeypatch.delenv("GIT_COMMITTER_DATE")
    agent.write("src/new.py", CALLER.replace("run", "execute") + block("agents"))
    agent.read("src/project")
    agent.write("src/project", 'requires-python = ">=3.10"\n')
    (agent.cwd / "src/lock").write_text('requires-python = ">=3.10"\nresolution = "highest"\n')
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/lock") == [None, None]
    move_to_subfolder(agent.cwd)
    if pruned:
        run_git(agent.cwd, "gc", "-q", "--prune=now")
    assert sessions(agent.cwd, "sub/src/app.py") == [None] * 8
    assert sessions(agent.cwd, "sub/src/lock") == [None, None]
    assert sessions(agent.cwd, "sub/src/project") == [ME]
    assert sessions(agent.cwd, "sub/src/new.py") == [ME] * 8


def test_an_indentation_of_a_whole_file_changes_no_author(agent: Agent) -> None:
    """git takes a `})` for an equal one that is indented less, and an empty line for any other."""
    old = "describe(() => {\n    it(() => {\n        one()\n    })\n})\n\nlast()\n"
    (agent.cwd / "src/t.js").write_text(old)
    commit(agent.cwd)
    agent.read("src/t.js")
    added = "describe(() => {\n        it(() => {\n            agents()\n        })\n    })\n\n"
    agent.write("src/t.js", old.replace("last()", f"{added}last()"))
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/t.js") == [None] * 6 + [ME] * 6 + [None]
    lines = (agent.cwd / "src/t.js").read_text().splitlines()
    (agent.cwd / "src/t.js").write_text("".join(f"    {line}\n" if line else "\n" for line in lines))
    for _ in range(2):
        assert sessions(agent.cwd, "src/t.js") == [None] * 6 + [ME] * 6 + [None]
        commit(agent.cwd, "--allow-empty")


def test_repeated_blocks_of_two_sessions_keep_their_authors_when_all_is_indented(agent: Agent, home: Path) -> None:
    other = Agent(agent.cwd, home, "session-2")
    other.select()
    parts: list[str] = []
    for number in range(6):
        writer = (agent, other)[number % 2]
        overload = f"@overload\ndef load(\n    self,\n    key: Key,\n    salt: Salt{number} = None,\n): ...\n\n\n"
        parts.insert(number // 2, overload)
        writer.read("src/o.py")
        writer.write("src/o.py", "".join(parts))
        commit(agent.cwd)
    before = sessions(agent.cwd, "src/o.py")
    lines = (agent.cwd / "src/o.py").read_text().splitlines()
    (agent.cwd / "src/o.py").write_text("".join(f"    {line}\n" if line else "\n" for line in lines))
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/o.py") == before


def on_branch(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of yesterday: plain lines by the agent, in a file that a person changes beside."""
    monkeypatch.setenv("GIT_AUTHOR_DATE", f"{LONG_AGO + 2000} +0000")
    lines = [f"setting_{n} = {n}\n" for n in range(40)]
    (agent.cwd / "src/plain.py").write_text("".join(lines))
    commit(agent.cwd)
    run_git(agent.cwd, "checkout", "-q", "-b", "feature")
    for at, text in ((10, "import os\n"), (20, '    "cookie": "0.7.1",\n'), (30, "    pass\n")):
        agent.read("src/plain.py")
        lines.insert(at, text)
        agent.write("src/plain.py", "".join(lines))
        commit(agent.cwd)
        lines[at + 3] = lines[at + 3].replace("setting", "persons")
        (agent.cwd / "src/plain.py").write_text("".join(lines))
        commit(agent.cwd)
    monkeypatch.delenv("GIT_AUTHOR_DATE")


def change_mainline(agent: Agent) -> None:
    run_git(agent.cwd, "checkout", "-q", "main")
    path = agent.cwd / "src/plain.py"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(["# the mainline's\n", *lines[:35], "mainline = 1\n", *lines[35:]]))
    commit(agent.cwd)
    run_git(agent.cwd, "checkout", "-q", "feature")


REBASES = {
    "rebase": [["rebase", "-q", "main"]],
    "cherry-pick": [["checkout", "-q", "-b", "picked", "main"], ["cherry-pick", "main..feature"]],
    "squash merge": [["checkout", "-q", "main"], ["merge", "-q", "--squash", "feature"], ["commit", "-qm", "all"]],
}


@pytest.mark.parametrize("commands", REBASES.values(), ids=REBASES)
def test_plain_lines_stay_the_agents_on_a_mainline_that_changed_the_file(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, commands: list[list[str]]
) -> None:
    on_branch(agent, monkeypatch)
    before = sessions(agent.cwd, "src/plain.py")
    assert before.count(ME) == 3
    change_mainline(agent)
    for words in commands:
        run_git(agent.cwd, *words)
    after = sessions(agent.cwd, "src/plain.py")
    assert after == [None, *before[:38], None, *before[38:]]


def test_a_squash_in_place_keeps_plain_lines(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    on_branch(agent, monkeypatch)
    before = sessions(agent.cwd, "src/plain.py")
    run_git(agent.cwd, "reset", "-q", "--soft", "main")
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/plain.py") == before


def test_a_plain_line_that_a_person_writes_instead_of_a_rejected_one_is_theirs(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_branch(agent, monkeypatch)
    run_git(agent.cwd, "checkout", "-q", "main")
    path = agent.cwd / "src/plain.py"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:10], "import os\n", *lines[10:], "persons = 1\n"]))
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/plain.py") == [None] * 42


def test_the_same_rebase_gives_the_same_answer_whoever_asked_before(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_branch(agent, monkeypatch)
    agent.write("src/more.py", block("first") + "\n\n" + block("second"))
    commit(agent.cwd)
    (agent.cwd / "src/more.py").write_text(block("first").replace("total", "grand") + "\n\n" + block("second"))
    commit(agent.cwd)
    change_mainline(agent)
    roots = [agent.cwd, *(tmp_path / name for name in ("one", "two"))]
    for root in roots[1:]:
        shutil.copytree(agent.cwd, root, symlinks=True)
    answers: list[list[tuple[str, str | None, str | None]]] = []
    for number, root in enumerate(roots):
        if number == 1:
            blame(root, "src/plain.py")
        elif number == 2:
            time.sleep(1.1)  # dates of commits are whole seconds
        run_git(root, "rebase", "-q", "main")
        lines = [line for path in ("src/plain.py", "src/more.py") for line in blame(root, path)]
        answers.append([(line.content, line.session_id, line.grade) for line in lines])
    assert answers[0] == answers[1] == answers[2]
    assert [who for _, who, _ in answers[0]].count(ME) == 8


def test_a_squash_of_a_commit_and_its_indentation_keeps_the_agents_lines(agent: Agent) -> None:
    agent.write("src/app.py", "".join(["import os\n", BLOCK]))
    commit(agent.cwd)
    body = "".join(f"    {line}\n" for line in BLOCK.splitlines())
    (agent.cwd / "src/app.py").write_text(f"import os\nclass Till:\n{body}")
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/app.py") == [ME, None, ME, ME, ME]
    run_git(agent.cwd, "reset", "-q", "--soft", "HEAD~2")
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/app.py") == [ME, None, ME, ME, ME]


def test_a_commit_that_git_no_longer_has_spoils_no_answer_about_other_calls(agent: Agent) -> None:
    agent.write("src/a.py", "a = 1\n")
    commit(agent.cwd)
    agent.write("src/b.py", "b = 1\n")  # at a HEAD that is lost below
    run_git(agent.cwd, "add", "-A")
    run_git(agent.cwd, "commit", "-q", "--amend", "-m", "instead")
    run_git(agent.cwd, "reflog", "expire", "--expire=now", "--all")
    run_git(agent.cwd, "gc", "-q", "--prune=now")
    agent.read("src/a.py")
    agent.write("src/a.py", "a = 1\nlater = 2\n")
    gate, head = Gate.open(agent.cwd), run_git(agent.cwd, "rev-parse", "HEAD").strip()
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        histories = FileHistories(gate.workspace, index, gate.contents)
        changes: dict[CommitPath, list[RecordedChange]] = {}
        for path in ("src/a.py", "src/b.py"):
            histories.history_of(path)
            changes[head, path] = [call for call, _ in histories.calls_by_path[path]]
        later = histories.call_commits.find_calls_begun_after(changes)
    assert later == {(head, "src/a.py"): {changes[head, "src/a.py"][-1].id}, (head, "src/b.py"): set()}
