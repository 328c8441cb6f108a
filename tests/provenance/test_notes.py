"""Notes: written from the ledger, read in a clone without one, exchanged and audited, with real git."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, governed
from remit.core.formats.authorship_notes import find_author, parse_note
from remit.gate.gate import Gate
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.notes.added_lines import find_additions, find_additions_to_paths
from remit.provenance.notes.audit import MAX_FINDINGS, audit_notes
from remit.provenance.notes.note_writer import NoteWriter, WrittenNotes, write_new_notes
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git
from remit.workspace.git.repository import NOTES_REF
from remit.workspace.place.workspace import find_git_root, workspace_at
from remit.workspace.sharing.shared_refs import NotesRef


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    return found


def commit(root: Path, *more: str) -> str:
    run_git(root, "add", "src")
    run_git(root, "commit", "-q", "-m", "work", *more)
    return run_git(root, "rev-parse", "HEAD").strip()


def write_notes(root: Path, wanted: str | None = None) -> WrittenNotes:
    gate = Gate.open(root)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        writer = NoteWriter(Blamer(gate.workspace, index, gate.contents))
        return writer.write(writer.find_commits(wanted))


def by_ledger(root: Path, path: str) -> list[BlamedLine]:
    gate = Gate.open(root)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        return Blamer(gate.workspace, index, gate.contents).blame(path)


def by_notes(root: Path, path: str, scratch: Path) -> list[BlamedLine]:
    """Return the blame of a clone without ledger."""
    workspace = workspace_at(root, find_git_root(root))
    with Index.open(scratch / "index.db", scratch / "log") as index:
        return Blamer(workspace, index, ContentStore(workspace, "")).blame(path)


def notes_of(root: Path) -> NotesRef:
    return NotesRef(workspace_at(root, find_git_root(root)))


def note(root: Path, commit: str = "HEAD") -> str:
    return run_git(root, "notes", "--ref=ai", "show", commit)


def authors_of(lines: list[BlamedLine]) -> list[tuple[str | None, ...]]:
    return [(line.origin, line.agent, line.model, line.session_id, line.intent_id) for line in lines]


def put_note(root: Path, text: str, commit: str = "HEAD") -> None:
    subprocess.run(
        ["git", "-C", str(root), "notes", "--ref=ai", "add", "-f", "-F", "-", commit], input=text.encode(), check=True
    )


FOREIGN = """\
src/app.py
  s_0123456789abcd::t_0123456789abcd 1
---
{
  "schema_version": "authorship/3.0.0",
  "base_commit_sha": "x",
  "prompts": {},
  "sessions": {
    "s_0123456789abcd": {
      "agent_id": {
        "tool": "cursor",
        "id": "chat-7",
        "model": "gpt-9"
      }
    }
  }
}"""


def test_a_note_tells_what_the_ledger_knows(agent: Agent) -> None:
    agent.write("src/app.py", "def main():\n    total = 2\n    return total\n")
    head = commit(agent.cwd)
    assert write_notes(agent.cwd).commits == (head,)
    found = parse_note(note(agent.cwd))
    [file] = found.files
    [entry] = file.entries
    assert (file.path, entry.spans) == ("src/app.py", ((2, 3),))
    assert re.fullmatch(r"s_[0-9a-f]{14}::t_[0-9a-f]{14}", entry.key)
    who = find_author(found, entry.key)
    assert who is not None
    assert (who.tool, who.session, who.attributes["remit.intent"]) == ("claude-code", "session-1", "INT-001")
    assert found.metadata["sessions"][entry.key[:16]]["agent_id"]["tool"] == "claude"
    assert found.metadata["base_commit_sha"] == head


def test_writing_again_changes_nothing(agent: Agent) -> None:
    agent.write("src/app.py", "def main():\n    return 2\n")
    commit(agent.cwd)
    write_notes(agent.cwd)
    before = run_git(agent.cwd, "rev-parse", NOTES_REF)
    assert write_notes(agent.cwd).commits == ()
    assert run_git(agent.cwd, "rev-parse", NOTES_REF) == before


def test_head_index_and_work_tree_stay(agent: Agent) -> None:
    agent.write("src/app.py", "def main():\n    return 2\n")
    commit(agent.cwd)
    (agent.cwd / "src" / "app.py").write_text("half done\n")
    run_git(agent.cwd, "add", "src/app.py")
    before = (run_git(agent.cwd, "status", "--porcelain"), (agent.cwd / ".git" / "index").read_bytes())
    write_notes(agent.cwd)
    assert (run_git(agent.cwd, "status", "--porcelain"), (agent.cwd / ".git" / "index").read_bytes()) == before


def test_a_clone_with_notes_alone_says_the_same(agent: Agent, tmp_path: Path) -> None:
    agent.write("src/app.py", "def main():\n    total = 2\n    return total\n")
    agent.write("src/my file.py", "an own line of words\n")
    commit(agent.cwd)
    agent.select("INT-001")
    agent.write("src/app.py", "def main():\n    total = 2\n    print(total)\n    return total\n")
    commit(agent.cwd)
    (agent.cwd / "src" / "app.py").write_text("# by hand\n" + (agent.cwd / "src" / "app.py").read_text())
    commit(agent.cwd)
    write_notes(agent.cwd)
    clone = tmp_path / "clone"
    run_git(tmp_path, "clone", "-q", str(agent.cwd), str(clone))
    assert notes_of(clone).sync_remote("origin", push=False).received == 2
    for path in ("src/app.py", "src/my file.py"):
        read = by_notes(clone, path, tmp_path)
        assert authors_of(read) == authors_of(by_ledger(agent.cwd, path))
        assert {line.grade for line in read if line.origin == "ai"} == {"note"}
    assert not (clone / ".git" / "remit").exists()


def test_the_ledger_stands_before_a_note(agent: Agent) -> None:
    agent.write("src/app.py", "def main():\n    return 2\n")
    commit(agent.cwd)
    put_note(agent.cwd, FOREIGN.replace(" 1\n", " 1-2\n"))
    first, second = by_ledger(agent.cwd, "src/app.py")
    assert (second.agent, second.grade) == ("claude-code", "exact")
    assert (first.origin, first.agent) == ("unknown", None), "that commit did not add the first line"


def test_entries_of_other_writers_stay(agent: Agent) -> None:
    agent.write("src/app.py", "def start_of_everything():\n    return 2\n")
    commit(agent.cwd)
    put_note(agent.cwd, FOREIGN)
    write_notes(agent.cwd)
    found = parse_note(note(agent.cwd))
    assert len(found.metadata["sessions"]) == 2
    assert [len(file.entries) for file in found.files] == [2]


def test_a_text_that_is_no_note_is_left_alone(agent: Agent) -> None:
    agent.write("src/app.py", "def main():\n    return 2\n")
    head = commit(agent.cwd)
    put_note(agent.cwd, "reviewed by nobody")
    assert write_notes(agent.cwd).unread == (head,)
    assert note(agent.cwd) == "reviewed by nobody\n"
    assert [finding.code for finding in audit_notes(notes_of(agent.cwd)).findings] == ["NOTE_UNREADABLE"]


def test_a_notes_tree_of_another_depth_is_converted(agent: Agent) -> None:
    first = run_git(agent.cwd, "rev-parse", "HEAD").strip()
    put_note(agent.cwd, FOREIGN)
    agent.write("src/app.py", "def main():\n    return 2\n")
    head = commit(agent.cwd)
    write_notes(agent.cwd)
    paths = run_git(agent.cwd, "ls-tree", "-r", "--name-only", NOTES_REF).split()
    assert sorted(paths) == sorted(f"{name[:2]}/{name[2:]}" for name in (first, head))
    assert note(agent.cwd, first).rstrip("\n") == FOREIGN


def test_a_rebased_commit_is_noted_anew(agent: Agent) -> None:
    agent.write("src/app.py", "def main():\n    return 2\n")
    old = commit(agent.cwd)
    write_notes(agent.cwd)
    run_git(agent.cwd, "commit", "-q", "--amend", "-m", "other words")
    assert write_notes(agent.cwd).commits == (run_git(agent.cwd, "rev-parse", "HEAD").strip(),)
    assert note(agent.cwd).splitlines()[:2] == note(agent.cwd, old).splitlines()[:2]


def test_a_merge_attests_only_what_no_parent_has(agent: Agent) -> None:
    run_git(agent.cwd, "switch", "-q", "-c", "side")
    agent.write("src/one.py", "something only this side has\n")
    commit(agent.cwd)
    run_git(agent.cwd, "switch", "-q", "main")
    agent.write("src/two.py", "something that main has instead\n")
    commit(agent.cwd)
    run_git(agent.cwd, "merge", "-q", "--no-commit", "side")
    agent.write("src/one.py", "something only this side has\nand a line that the merge itself adds\n")
    merge = commit(agent.cwd)
    write_notes(agent.cwd)
    found = parse_note(note(agent.cwd, merge))
    assert [(file.path, file.entries[0].spans) for file in found.files] == [("src/one.py", ((2, 2),))]
    assert audit_notes(notes_of(agent.cwd)).findings == ()


def test_a_rename_before_the_commit_keeps_its_lines(agent: Agent) -> None:
    agent.write("src/new.py", "".join(f"the number of this line is {n} here\n" for n in range(9)))
    (agent.cwd / "src" / "new.py").rename(agent.cwd / "src" / "moved.py")
    commit(agent.cwd)
    write_notes(agent.cwd)
    assert [(f.path, f.entries[0].spans) for f in parse_note(note(agent.cwd)).files] == [("src/moved.py", ((1, 9),))]


def test_many_commits_take_a_few_processes(agent: Agent, tmp_path: Path) -> None:
    for n in range(12):
        agent.write("src/app.py", "".join(f"the number of this line is {m}\n" for m in range(n + 2)))
        commit(agent.cwd)
    trace = tmp_path / "trace"
    script = "import sys; sys.path[:0] = sys.argv[2:]\nfrom pathlib import Path\n"
    script += "from provenance.test_notes import write_notes\nprint(len(write_notes(Path(sys.argv[1])).commits))"
    done = subprocess.run(
        [sys.executable, "-c", script, str(agent.cwd), str(Path(__file__).parents[1])],
        env={"PATH": "/usr/bin:/bin", "HOME": str(agent.home), "GIT_TRACE": str(trace)},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == "12\n"
    assert len(re.findall(r"git.c:\d+ +trace: built-in: ", trace.read_text())) < 20


APPEND_TO_NOTES = """
import sys
from pathlib import Path
from remit.workspace.place.workspace import find_git_root, workspace_at
from remit.workspace.sharing.shared_refs import NotesRef

root, text = Path(sys.argv[1]), sys.argv[2].encode()
notes = NotesRef(workspace_at(root, find_git_root(root)))
for commit in sys.argv[3:]:
    notes.update_notes([commit], lambda known: {commit: known.get(commit, b"") + text})
"""


def test_two_writers_at_once_lose_nothing(agent: Agent) -> None:
    heads = [commit_one(agent, n) for n in range(8)]
    orders = {"a": heads, "b": heads[::-1], "c": heads}
    writers = [
        subprocess.Popen([sys.executable, "-c", APPEND_TO_NOTES, str(agent.cwd), me, *order])
        for me, order in orders.items()
    ]
    assert [process.wait(240) for process in writers] == [0, 0, 0]
    assert [sorted(note(agent.cwd, head).strip()) for head in heads] == [["a", "b", "c"]] * 8


def commit_one(agent: Agent, number: int) -> str:
    (agent.cwd / "src" / "app.py").write_text(f"{number}\n")
    return commit(agent.cwd)


def noted_clone(tmp_path: Path, name: str, text: str, commit: str = "HEAD") -> Path:
    clone = tmp_path / name
    run_git(tmp_path, "clone", "-q", str(tmp_path / "bare.git"), str(clone))
    put_note(clone, text, commit)
    return clone


SYNC_NOTES = """
import sys
from pathlib import Path
from remit.workspace.place.workspace import find_git_root, workspace_at
from remit.workspace.sharing.shared_refs import NotesRef

root = Path(sys.argv[1])
NotesRef(workspace_at(root, find_git_root(root))).sync_remote("origin", push=True)
"""


def test_two_clones_that_write_at_once_end_with_both(repository: Path, tmp_path: Path) -> None:
    run_git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    other = FOREIGN.replace("0123456789abcd", "fedcba98765432").replace(" 1\n", " 2\n")
    one, two = noted_clone(tmp_path, "one", FOREIGN), noted_clone(tmp_path, "two", other)
    both = [subprocess.Popen([sys.executable, "-c", SYNC_NOTES, str(clone)]) for clone in (one, two)]
    assert [process.wait(240) for process in both] == [0, 0]
    assert notes_of(one).sync_remote("origin", push=True).unread == ()
    notes_of(two).sync_remote("origin", push=True)
    tips = {run_git(root, "rev-parse", NOTES_REF) for root in (one, two, tmp_path / "bare.git")}
    assert len(tips) == 1
    found = parse_note(note(one).rstrip("\n"))
    assert {key for file in found.files for key in (e.key[:16] for e in file.entries)} == set(
        found.metadata["sessions"]
    )
    assert len(found.metadata["sessions"]) == 2


def test_a_sync_without_new_notes_changes_nothing(repository: Path, tmp_path: Path) -> None:
    run_git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    clone = noted_clone(tmp_path, "one", FOREIGN)
    assert notes_of(clone).sync_remote("origin", push=True).pushed
    before = run_git(clone, "rev-parse", NOTES_REF)
    assert not notes_of(clone).sync_remote("origin", push=True).pushed
    assert run_git(clone, "rev-parse", NOTES_REF) == before


def test_nothing_is_pushed_where_notes_are_not_shared(repository: Path, tmp_path: Path) -> None:
    run_git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    clone = noted_clone(tmp_path, "one", FOREIGN)
    assert not notes_of(clone).sync_remote("origin", push=False).pushed
    assert run_git(tmp_path / "bare.git", "for-each-ref", NOTES_REF) == ""


def test_a_note_that_claims_more_than_its_commit_added_is_named(repository: Path) -> None:
    (repository / "src" / "app.py").write_text("def main():\n    return 2\n")
    head = commit(repository)
    put_note(repository, FOREIGN.replace(" 1\n", " 1-2,900\n"))
    [finding] = audit_notes(notes_of(repository)).findings
    assert (finding.code, finding.commit, finding.lines) == ("NOTE_OVERCLAIMS", head, "1,900")
    put_note(repository, FOREIGN.replace(" 1\n", " 2\n"))
    assert audit_notes(notes_of(repository)).findings == ()


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "src/../../x", "a//b", "nul\0byte", "x" * 200_000])
def test_a_path_that_leads_out_of_the_repository_is_named_and_stops_no_audit(repository: Path, path: str) -> None:
    (repository / "src" / "app.py").write_text("def main():\n    return 2\n")
    commit(repository)
    put_note(repository, FOREIGN.replace("src/app.py", path))
    [finding] = audit_notes(notes_of(repository)).findings
    assert (finding.code, finding.path) == ("NOTE_OVERCLAIMS", path)


def test_reversed_ranges_and_malformed_maps_are_reported(repository: Path) -> None:
    put_note(repository, FOREIGN.replace(" 1\n", " 2-1\n"))
    assert [finding.lines for finding in audit_notes(notes_of(repository)).findings] == ["2-1"]
    put_note(repository, 'src/app.py\n  h_31dce776f88375 1\n---\n{"schema_version":"authorship/3.0.0","humans":5}')
    assert [finding.code for finding in audit_notes(notes_of(repository)).findings] == ["NOTE_UNREADABLE"]


def test_a_note_with_any_number_of_entries_has_few_findings(repository: Path) -> None:
    entries = "".join(f"  h_{n:014x} 7\n" for n in range(3 * MAX_FINDINGS))
    put_note(repository, FOREIGN.replace("src/app.py\n", f"src/app.py\n{entries}"))
    found = audit_notes(notes_of(repository)).findings
    assert len(found) == MAX_FINDINGS + 1
    assert f"{2 * MAX_FINDINGS} more" in found[-1].message


def test_a_note_stays_readable_beside_an_entry_without_lines(agent: Agent) -> None:
    agent.write("src/app.py", "def main():\n    return 2\n")
    commit(agent.cwd)
    put_note(agent.cwd, FOREIGN.replace(" 1\n", " 2-1\n"))
    write_notes(agent.cwd)
    [file] = parse_note(note(agent.cwd)).files
    assert [entry.spans for entry in file.entries] == [((2, 2),)]
    assert write_notes(agent.cwd) == WrittenNotes()


def test_attributes_do_not_hide_a_claim(repository: Path) -> None:
    (repository / ".gitattributes").write_text("*.py -diff\n")
    (repository / "src" / "app.py").write_text("def main():\n    return 2\n")
    commit(repository)
    put_note(repository, FOREIGN)
    assert [finding.lines for finding in audit_notes(notes_of(repository)).findings] == ["1"]


def test_a_note_cannot_write_to_the_terminal(repository: Path, tmp_path: Path) -> None:
    (repository / "src" / "app.py").write_text("def other():\n    return 2\n")
    commit(repository)
    evil = json.dumps("\x1b]0;owned\x07")[1:-1]
    put_note(repository, FOREIGN.replace("cursor", evil).replace("chat-7", evil))
    line = by_notes(repository, "src/app.py", tmp_path)[0]
    assert line.origin == "ai"
    assert "\x1b" not in f"{line.agent}{line.session_id}"


def idle(root: Path) -> int:
    gate = Gate.open(root)
    return write_new_notes(gate.workspace, gate.contents)


def test_an_idle_process_notes_each_new_commit_once(agent: Agent) -> None:
    agent.write("src/app.py", "def main():\n    return 2\n")
    commit(agent.cwd)
    assert [idle(agent.cwd), idle(agent.cwd)] == [1, 0]
    run_git(agent.cwd, "commit", "-q", "--amend", "-m", "other words")
    assert [idle(agent.cwd), idle(agent.cwd)] == [1, 0]
    (agent.cwd / ".git" / "remit" / "noted").write_text("f" * 40 + "\n")
    assert idle(agent.cwd) == 0, "a HEAD that is gone is no trouble"


def test_a_quoted_name_and_a_file_without_a_last_newline_are_read_from_the_patch(repository: Path) -> None:
    odd = 'src/a "b"\t\\é\n.py'
    (repository / odd).write_text("one\ntwo")
    (repository / "src" / "plain.py").write_text("+++ b/other.py\n--- a/other.py\n@@ -1 +1 @@\n")
    head = commit(repository)
    found = {a.path: a.spans for a in find_additions(Git(repository), [head])}
    assert found == {odd: ((1, 2),), "src/plain.py": ((1, 3),)}
    assert {a.path: a.spans for a in find_additions_to_paths(Git(repository), [head], [odd])} == {odd: ((1, 2),)}


def test_a_merge_that_removes_the_end_of_a_file_hides_no_other_commit(repository: Path) -> None:
    path = repository / "src" / "plain.py"
    path.write_text("".join(f"line_{n} = {n}\n" for n in range(9)))
    commit(repository)
    run_git(repository, "checkout", "-q", "-b", "side")
    path.write_text(path.read_text() + "\n# the end\nlast = 1\n")
    commit(repository)
    run_git(repository, "checkout", "-q", "-")
    path.write_text("first = 0\n" + path.read_text())
    commit(repository)
    run_git(repository, "merge", "-q", "--no-commit", "side")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:7]) + "by_the_merge = 2\nline_8 = 8\n")
    merge = commit(repository)
    (repository / "src" / "later.py").write_text("+++ b/other.py\n")
    head = commit(repository)
    found = [(a.commit, a.path, a.spans) for a in find_additions(Git(repository), [merge, head])]
    assert found == [(merge, "src/plain.py", ((8, 8),)), (head, "src/later.py", ((1, 1),))]
