"""Derived notes: an agent's pull request is merged on a forge without Remit, and read by a teammate without ledger."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.running import data
from cli.test_notes import settings
from conftest import run_git
from gate.driving import Agent, governed
from provenance.test_notes import FOREIGN, by_notes, commit, note, notes_of, put_note, write_notes
from remit.core.formats.authorship_notes import DERIVED_ATTRIBUTE, parse_note
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.notes.audit import audit_notes
from remit.provenance.notes.derived_notes import derive_notes
from remit.workspace.place.workspace import find_git_root, workspace_at

BASE = [f"the line {n} was here before everything" for n in range(20)]
AGENTS = [f"an agent wrote sentence {n} about parsing" for n in range(12)]
PERSONS = "a person added this remark by hand"
MAINLINE = [f"meanwhile on main, remark {n}" for n in range(3)]


class Forge:
    """A bare repository with an agent's pull request of three commits, whose notes are published. The second is a
    person's. `stranger` is a clone without Remit.
    """

    def __init__(self, author: Agent, folder: Path) -> None:
        self.author, self.folder, self.bare = author, folder, folder / "forge.git"
        root = author.cwd
        author.write("src/app.py", "\n".join(BASE) + "\n")
        commit(root)
        run_git(folder, "clone", "-q", "--bare", str(root), str(self.bare))
        run_git(root, "remote", "add", "origin", str(self.bare))
        run_git(root, "switch", "-q", "-c", "feature")
        self.edit([*BASE[:10], *AGENTS[:4], *BASE[10:]])
        author.write("src/new.py", "\n".join(AGENTS[8:]) + "\n")
        commit(root)
        path = root / "src" / "new.py"
        path.write_text(path.read_text() + PERSONS + "\n")
        commit(root)
        self.edit([*BASE[:10], *AGENTS[:2], *AGENTS[4:8], *BASE[10:]])
        commit(root)
        write_notes(root)
        run_git(root, "push", "-q", "origin", "feature", "feature:refs/pull/7/head", "refs/notes/ai")
        self.stranger = self.clone("stranger")
        run_git(self.stranger, "fetch", "-q", "origin", "feature:refs/remotes/origin/feature")

    def edit(self, lines: list[str]) -> None:
        self.author.write("src/app.py", "\n".join(lines) + "\n")

    def clone(self, name: str) -> Path:
        run_git(self.folder, "clone", "-q", "--no-local", "--single-branch", "--branch", "main", str(self.bare), name)
        return self.folder / name

    def move_main(self) -> None:
        path = self.stranger / "src" / "app.py"
        path.write_text("\n".join(MAINLINE) + "\n" + path.read_text())
        commit(self.stranger)

    def publish(self, branch: str = "main") -> None:
        """Push what the stranger merged, and delete the pull request's branch."""
        run_git(self.stranger, "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        run_git(self.bare, "branch", "-q", "-D", "feature")

    def sync(self, name: str = "teammate") -> Path:
        """Return the clone of somebody who has notes only, after a sync."""
        clone = self.clone(name)
        notes_of(clone).sync_remote("origin", push=False)
        derive_notes(workspace_at(clone, find_git_root(clone)), "origin")
        return clone


@pytest.fixture
def forge(repository: Path, home: Path, tmp_path: Path) -> Forge:
    author = Agent(governed(repository), home)
    author.select()
    return Forge(author, tmp_path)


def squash(stranger: Path, message: str = "Parse more (#7)") -> None:
    run_git(stranger, "merge", "-q", "--squash", "origin/feature")
    run_git(stranger, "commit", "-q", "-m", message)


def squash_edited(stranger: Path) -> None:
    """Squash, and change some of the lines in the same commit, as whoever settles a conflict does."""
    run_git(stranger, "merge", "-q", "--squash", "origin/feature")
    path = stranger / "src" / "app.py"
    path.write_text(
        path.read_text().replace("before everything", "before all else").replace(AGENTS[4], "a word of mine")
    )
    run_git(stranger, "commit", "-q", "-a", "-m", "Parse more (#7)\n\nand settle the rest")


def rebase(stranger: Path) -> None:
    run_git(stranger, "checkout", "-q", "--detach", "origin/feature")
    run_git(stranger, "rebase", "-q", "main")


def pick(stranger: Path) -> None:
    run_git(stranger, "cherry-pick", "main..origin/feature")


def told(lines: list[BlamedLine]) -> dict[str, str | None]:
    return {line.content: line.session_id if line.origin == "ai" else line.origin for line in lines}


@pytest.mark.parametrize("merge", [squash, squash_edited, rebase, pick])
@pytest.mark.parametrize("main_moved", [False, True])
def test_a_pull_request_merged_by_a_stranger_keeps_its_agent_for_a_teammate(
    forge: Forge, tmp_path: Path, merge: Callable[[Path], None], main_moved: bool
) -> None:
    if main_moved:
        forge.move_main()
    merge(forge.stranger)
    forge.publish()
    clone = forge.sync()
    lines = by_notes(clone, "src/app.py", tmp_path) + by_notes(clone, "src/new.py", tmp_path)
    agents = {text for text in (*AGENTS[:2], *AGENTS[4:]) if merge is not squash_edited or text != AGENTS[4]}
    found = told(lines)
    assert {text for text, who in found.items() if who == "session-1"} >= agents
    others = {text: who for text, who in found.items() if text not in agents and text not in BASE}
    assert set(others.values()) <= {"unknown", "human"}, others
    assert {line.grade for line in lines if line.content in agents} == {"note"}
    assert audit_notes(notes_of(clone)).findings == ()


def test_a_squash_without_a_number_is_found_by_the_noted_end_of_its_pull_request(forge: Forge, tmp_path: Path) -> None:
    forge.move_main()
    squash(forge.stranger, "Parse more")
    forge.publish()
    found = told(by_notes(forge.sync(), "src/app.py", tmp_path))
    assert {found[text] for text in AGENTS[:2]} == {"session-1"}


def test_a_derived_note_names_the_commits_it_comes_from_and_is_written_once(forge: Forge) -> None:
    squash(forge.stranger)
    forge.publish()
    clone = forge.sync()
    [session] = parse_note(note(clone)).metadata["sessions"].values()
    origins = session["custom_attributes"][DERIVED_ATTRIBUTE].split()
    assert set(origins) <= set(run_git(forge.author.cwd, "rev-list", "feature").split())
    assert session["custom_attributes"]["remit.intent"] == "INT-001"
    assert derive_notes(workspace_at(clone, find_git_root(clone)), "origin") == ()


def test_a_pick_to_a_release_branch_has_a_note_of_its_own(forge: Forge, tmp_path: Path) -> None:
    run_git(forge.stranger, "switch", "-q", "-c", "release")
    forge.move_main()
    pick(forge.stranger)
    forge.publish("release")
    clone = forge.clone("teammate")
    run_git(clone, "fetch", "-q", "origin", "+refs/heads/release:refs/remotes/origin/release")
    notes_of(clone).sync_remote("origin", push=False)
    derive_notes(workspace_at(clone, find_git_root(clone)), "origin")
    run_git(clone, "checkout", "-q", "origin/release")
    assert told(by_notes(clone, "src/app.py", tmp_path))[AGENTS[5]] == "session-1"


def test_no_line_is_claimed_that_the_originals_note_does_not_claim(forge: Forge, tmp_path: Path) -> None:
    """A teammate's note may lie about its own commit's lines, and about no others."""
    root = forge.author.cwd
    lie = FOREIGN.replace("src/app.py\n", "src/new.py\n").replace(" 1\n", " 1-999999999\n")
    put_note(root, lie, run_git(root, "rev-parse", "HEAD~1").strip())
    run_git(root, "push", "-q", "origin", "refs/notes/ai")
    squash(forge.stranger)
    forge.publish()
    found = told(by_notes(forge.sync(), "src/new.py", tmp_path))
    assert found == {**dict.fromkeys(AGENTS[8:], "session-1"), PERSONS: "chat-7"}


def test_common_lines_alone_make_no_commit_a_repetition(forge: Forge) -> None:
    forge.author.write("src/plain.py", "import os\n")
    plain = commit(forge.author.cwd)
    write_notes(forge.author.cwd)
    run_git(forge.author.cwd, "push", "-q", "origin", "feature", "+feature:refs/pull/7/head", "refs/notes/ai")
    (forge.stranger / "src" / "plain.py").write_text("import os\n")
    commit(forge.stranger)
    forge.publish()
    clone = forge.sync()
    assert run_git(clone, "cat-file", "-t", plain).strip() == "commit"
    assert notes_of(clone).read_notes([run_git(clone, "rev-parse", "HEAD").strip()]) == {}


@pytest.mark.parametrize("merge", [squash, squash_edited])
def test_a_merge_request_of_gitlab_is_found_by_its_number(
    forge: Forge, tmp_path: Path, merge: Callable[[Path], None]
) -> None:
    """GitLab keeps merge requests under a ref of its own, and names them in another way."""
    run_git(forge.bare, "update-ref", "refs/merge-requests/7/head", "refs/pull/7/head")
    run_git(forge.bare, "update-ref", "-d", "refs/pull/7/head")
    forge.move_main()
    merge(forge.stranger)
    run_git(forge.stranger, "commit", "-q", "--amend", "-m", "Parse more\n\nSee merge request team/app!7\n")
    forge.publish()
    clone = forge.sync()
    found = told(by_notes(clone, "src/app.py", tmp_path))
    assert {found[text] for text in AGENTS[:2]} == {"session-1"}
    tip = run_git(forge.bare, "rev-parse", "refs/merge-requests/7/head").strip()
    assert run_git(clone, "cat-file", "-t", tip).strip() == "commit"


def test_whoever_derives_notes_pushes_them_where_notes_are_shared(forge: Forge, tmp_path: Path) -> None:
    squash(forge.stranger)
    forge.publish()
    commits = {}
    for name, shared in (("reader", "false"), ("sharer", "true")):
        clone = forge.clone(name)
        governed(clone)
        settings(clone, f"[share]\nnotes = {shared}")
        done = data(clone, "notes", "sync")
        commits[name] = done["derived"]
        assert done["exchanged"]["pushed"] is (shared == "true")
        published = run_git(forge.bare, "notes", "--ref=ai", "list").split()
        assert (run_git(clone, "rev-parse", "HEAD").strip() in published) is (shared == "true")
    assert commits["reader"] == commits["sharer"] != []
    # One who only fetches notes is told the agent, and has nothing left to derive.
    late = forge.clone("late")
    run_git(late, "fetch", "-q", "origin", "refs/notes/ai:refs/notes/ai")
    assert told(by_notes(late, "src/app.py", tmp_path))[AGENTS[5]] == "session-1"
    assert data(late, "notes", "sync")["derived"] == []
