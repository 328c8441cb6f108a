"""The map kept up with the ledger equals a rebuild byte for byte."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import run_git
from gate.driving import Agent, governed
from ledger.makers import open_log, record
from ledger.test_prune import pruned
from provenance.test_map_text import records as tolds
from remit.core.diff.contents import hash_git_blob, sha256
from remit.core.record import Body, Content, Conversation, MutatedFile, Range, Record, TracedFile
from remit.gate.gate import Gate
from remit.ledger.log_files import FOREIGN_FOLDER, LockTimeout
from remit.ledger.reader import LogPosition, read_lines
from remit.ledger.retention import compact
from remit.provenance.map.intent_map_file import IntentMap, LogMark, MapState
from remit.provenance.map.map_text import MapEntry, render_map
from remit.workspace.place.workspace import Workspace, workspace_at

OWN, OTHER = "4b1d/0123456789ab", "4b1d/ba9876543210"
MARK = LogMark("", "", 0, 0, "", LogPosition("", 0, 0))


def never() -> bool:
    return False


@given(st.lists(st.lists(tolds, max_size=3), max_size=4))
@settings(max_examples=30, deadline=None)
def test_records_added_as_they_come_make_the_map_of_all(lots: list[list[MapEntry]]) -> None:
    with TemporaryDirectory() as folder, MapState(Path(folder) / "map.db", "form") as state:
        for lot in lots:
            state.add_records(lot, None, MARK)
        assert state.render() == render_map(told for lot in lots for told in lot)


# --- a ledger that grows, is added to by others, and loses parts -----------------------------------------------


class Ledger:
    """A workspace without git, its log, and imported records; no agent is needed to write records."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / ".orchestration").mkdir()
        self.map = IntentMap.open(Workspace(root, None, None), OWN, "machine")
        self.folder = self.map.sources.log_folder
        (self.folder / FOREIGN_FOLDER).mkdir(parents=True)
        self.log = open_log(self.folder, name=OWN, segment_bytes=3000)
        self.number = 0

    def changed(self, path: str, content: bytes, intent: str = "INT-001") -> Record:
        """Return the record of a written file."""
        self.number += 1
        written = Range(start_line=1, end_line=content.count(b"\n"), content_hash="sha256:00")
        after = Content(sha256=sha256(content), git_blob=hash_git_blob(content))
        file = MutatedFile(path=path, operation="create", after=after)
        made = record(self.number, event="mutation", intent_id=intent, files=(file,))
        return Record(
            made.id,
            made.timestamp,
            made.body,
            files=(TracedFile(path=path, conversations=(Conversation(ranges=(written,)),)),),
        )

    def named(self, name: str, at: int) -> Record:
        """Return the record of an intent's name."""
        return record(at, event="intent_changed", intent_id="INT-001", detail={"name": name, "content_sha256": "0"})

    def others(self, *found: Record) -> bytes:
        """Return the records as lines of another machine's log."""
        with TemporaryDirectory() as folder:
            with closing(open_log(Path(folder), name=OTHER)) as log:
                log.append(found)
            return b"".join(line.raw + b"\n" for line in read_lines(Path(folder)))

    def agree(self) -> bytes:
        """Update the map and assert that it equals a rebuild."""
        while self.map.update(never):
            pass
        anew = self.map.rebuild()
        if self.map.path.exists():
            assert self.map.path.read_bytes() == anew
        else:
            assert b"\n- **" not in anew
        return anew


SOURCES = [b"def a():\n    return 1\n", b"class B:\n    x = 1\n\n    def m(self):\n        return 2\n", b"\xff\n", b"x"]


class Acts:
    """Events of a ledger between two updates of the map."""

    def __init__(self, ledger: Ledger, random: Random) -> None:
        self.ledger, self.random = ledger, random
        self.foreign = ledger.folder / FOREIGN_FOLDER / "ref-other.jsonl"
        self.view = ledger.map.sources.view

    def change(self) -> None:
        content = self.random.choice(SOURCES)
        path = self.random.choice(["a.py", "b.py", "`x`\n"])
        if self.random.random() < 0.7:
            self.ledger.map.store.keep_contents([(hash_git_blob(content), path, content)])
        made = self.ledger.changed(path, content, self.random.choice(["INT-001", "INT-002"]))
        self.ledger.log.append([made], views=[self.view])

    def name(self) -> None:
        named = self.ledger.named(self.random.choice(["One", "Two", "`#`"]), self.random.randrange(50))
        self.ledger.log.append([named])

    def fetch_more(self) -> None:
        self.foreign.write_bytes(self.before() + self.ledger.others(self.ledger.changed("c.py", SOURCES[0])))

    def fetch_others(self) -> None:
        self.foreign.write_bytes(
            self.ledger.others(self.ledger.changed("d.py", SOURCES[1]), self.ledger.named("T", 60))
        )

    def half_a_line(self) -> None:
        self.foreign.write_bytes(self.before() + b'{"id":"torn')

    def before(self) -> bytes:
        return self.foreign.read_bytes() if self.foreign.exists() else b""

    def fetch_nothing(self) -> None:
        self.foreign.unlink(missing_ok=True)

    def say_in_the_view(self) -> None:
        with self.view.open("ab") as view:
            view.write(self.ledger.others(self.ledger.changed("e.py", SOURCES[0])))

    def lose_the_view(self) -> None:
        self.view.unlink(missing_ok=True)

    def edit_the_map(self) -> None:
        self.ledger.map.path.write_text("mine\n")

    def delete_the_map(self) -> None:
        self.ledger.map.path.unlink(missing_ok=True)

    def damage_the_state(self) -> None:
        self.ledger.map.state_path.parent.mkdir(exist_ok=True)
        self.ledger.map.state_path.write_bytes(b"no database at all, " * 500)

    def seal(self) -> None:
        compact(self.ledger.folder)

    def look(self) -> None:
        self.ledger.agree()


ACTS = [name for name in vars(Acts) if not name.startswith("_") and name != "before"]


@given(st.lists(st.sampled_from(ACTS), max_size=10), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_the_map_equals_the_ledger_after_any_acts(acts: list[str], random: Random) -> None:
    with TemporaryDirectory() as folder:
        found = Acts(Ledger(Path(folder)), random)
        for act in ("change", *acts, "look"):
            getattr(found, act)()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    found = Ledger(tmp_path)
    yield found
    found.log.close()


def test_definitions_appear_once_their_contents_are_available(ledger: Ledger) -> None:
    ledger.log.append([ledger.changed("a.py", SOURCES[0])])
    assert b"function" not in ledger.agree()
    ledger.map.store.keep_contents([(hash_git_blob(SOURCES[0]), "a.py", SOURCES[0])])
    assert b"function `a`" in ledger.agree()


@pytest.mark.parametrize("looked", [True, False])
def test_pruned_records_leave_the_map(tmp_path: Path, looked: bool) -> None:
    ledger = Ledger(tmp_path)
    ledger.log.append([record(0, event="tree_head", detail={"note": "n"})])
    ledger.log.append([ledger.changed(f"f{n}.py", SOURCES[0]) for n in range(40)])
    ledger.log.append([record(n) for n in range(60)])
    assert ledger.agree().count(b"#### ") == 40
    compact(ledger.folder)
    if looked:
        ledger.agree()
    assert pruned(ledger.folder, standing=None) > 10
    assert ledger.agree().count(b"#### ") < 40


def test_a_restarted_log_gives_another_map(ledger: Ledger) -> None:
    ledger.log.append([ledger.changed("gone.py", SOURCES[0])])
    assert b"gone.py" in ledger.agree()
    ledger.log.close()
    for path in ledger.folder.iterdir():
        if path.is_file():
            path.unlink()
    ledger.log = open_log(ledger.folder, name=OWN)
    ledger.log.append([ledger.changed("here.py", SOURCES[0])])
    text = ledger.agree()
    assert b"here.py" in text
    assert b"gone.py" not in text


@pytest.mark.system
def test_records_read_by_several_processes_make_the_map_of_one(ledger: Ledger) -> None:
    acts = Acts(ledger, Random(3))
    for _ in range(20):
        acts.change()
        acts.name()
    whole = ledger.map.rebuild()
    assert b"class `B`" in whole
    assert ledger.map.rebuild(batch_records=3) == whole


@pytest.mark.system
def test_a_large_backlog_is_read_in_batches(ledger: Ledger) -> None:
    ledger.log.append([ledger.changed(f"f{n}.py", SOURCES[0]) for n in range(350)])
    turns = 0
    while ledger.map.update(after_one()):
        assert not ledger.map.path.exists()
        turns += 1
    assert turns >= 3
    assert ledger.map.path.read_bytes() == ledger.map.rebuild()


def after_one() -> Callable[[], bool]:
    """Return a stop condition that holds after one batch."""
    asked = iter([False])
    return lambda: next(asked, True)


def test_a_crash_before_the_file_was_written_is_repaired(ledger: Ledger) -> None:
    ledger.log.append([ledger.changed("a.py", SOURCES[0])])
    ledger.agree()
    ledger.log.append([ledger.changed("b.py", SOURCES[0])])
    with MapState(ledger.map.state_path, ledger.map.fingerprint) as state:
        ledger.map.catch_up(state, never)
    assert b"b.py" in ledger.agree()


def test_two_processes_do_not_write_it_at_once(ledger: Ledger) -> None:
    with ledger.map.lock_map(1), pytest.raises(LockTimeout):
        ledger.map.update(never)


def test_a_rebuild_drops_a_deviating_state(ledger: Ledger) -> None:
    content = SOURCES[0]
    ledger.map.store.keep_contents([(hash_git_blob(content), "a.py", content)])
    ledger.log.append([ledger.changed("a.py", content)])
    assert b"function `a`" in ledger.agree()
    assert not ledger.map.write_rebuilt()
    assert ledger.map.state_path.exists()
    for path in ledger.map.store.files.folder.rglob("*"):
        if path.is_file():
            path.unlink()
    assert ledger.map.write_rebuilt()
    assert not ledger.map.state_path.exists()
    assert b"function `a`" not in ledger.agree()


def test_a_hostile_record_of_others_is_shown_and_breaks_nothing(ledger: Ledger) -> None:
    body = Body(event="mutation", intent_id="INT-001", session_id="s", files=())
    hostile = Record("h", "2026", body)
    line = ledger.others(hostile).replace(
        b'"files":[]',
        b'"files":[{"path":"a\\u0000b","after":{"git_blob":"x\\ny"},"ranges":[{"start_line":1e3}]},'
        b'{"path":"../../etc","after":{"git_blob":"HEAD:x"},"ranges":[{"start_line":9223372036854775807,"end_line":1}]}]',
    )
    (ledger.folder / FOREIGN_FOLDER / "x.jsonl").write_bytes(line + b"\xff\n" + line)
    ledger.log.append([ledger.changed("a.py", SOURCES[0])])
    assert b"a.py" in ledger.agree()


def computing_time() -> float:
    """Seconds that this process and its ended children have computed: a clock would measure the machine."""
    return sum(os.times()[:4])


@pytest.mark.live
def test_an_update_costs_the_change_and_not_the_ledger(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    content = b"".join(b"def f%d():\n    return %d\n\n\n" % (n, n) for n in range(40))
    ledger.map.store.keep_contents([(hash_git_blob(content), "a.py", content)])
    for _ in range(3):
        ledger.log.append([ledger.changed(f"src/f{n % 100}.py", content) for n in range(50)])
    began = computing_time()
    ledger.map.rebuild()
    anew = computing_time() - began
    ledger.agree()
    steps: list[float] = []
    for n in range(5):
        ledger.log.append([ledger.changed(f"src/g{n}.py", content)])
        began = computing_time()
        assert not ledger.map.update(never)
        steps.append(computing_time() - began)
    ledger.agree()
    with capsys.disabled():
        print(f"\n150 changes: made anew {anew:.2f} s, one more {sorted(steps)[2] / anew:.4f} of that")
    assert sorted(steps)[2] < anew / 10


# --- in a repository -------------------------------------------------------------------------------------------


@pytest.fixture
def worked(repository: Path, home: Path) -> Agent:
    """Return an agent that made a file, in a repository whose map git ignores."""
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/new.py", "def first():\n    return 1\n")
    return agent


def map_of(root: Path) -> IntentMap:
    gate = Gate.open(root)
    return IntentMap.open(gate.workspace, gate.recorder.log.name, gate.recorder.machine)


def test_the_map_is_kept_up_where_git_ignores_it_and_git_sees_nothing(worked: Agent) -> None:
    before = run_git(worked.cwd, "status", "--porcelain", "--untracked-files=all")
    assert not map_of(worked.cwd).update(never)
    assert "function `first`" in map_of(worked.cwd).path.read_text()
    assert run_git(worked.cwd, "status", "--porcelain", "--untracked-files=all") == before


@pytest.mark.parametrize("how", ["tracked", "untracked", "hidden", "taken back"])
def test_a_map_visible_to_git_is_left_alone(worked: Agent, how: str) -> None:
    ignored = worked.cwd / ".orchestration" / ".gitignore"
    ignored.write_text("agent_trace.jsonl\n" + ("*.md\n!intent_map.md\n" if how == "taken back" else ""))
    path = worked.cwd / ".orchestration" / "intent_map.md"
    if how == "tracked":
        path.write_text("of people\n")
        run_git(worked.cwd, "add", "-f", str(path))
        ignored.write_text("intent_map.md\n")
    if how == "hidden":
        (worked.cwd / ".git/info").mkdir(exist_ok=True)
        (worked.cwd / ".git/info/exclude").write_text("intent_map.md\n")
    assert not map_of(worked.cwd).update(never)
    assert (path.read_text() if path.exists() else "of people\n") == "of people\n"


def test_a_worktree_has_a_map_of_its_own_and_none_without_its_folder(worked: Agent, tmp_path: Path) -> None:
    run_git(worked.cwd, "worktree", "add", "-q", str(tmp_path / "other"))
    there = map_of(tmp_path / "other")
    assert not there.update(never)
    assert not there.path.exists()
    governed(tmp_path / "other")
    assert not there.update(never)
    map_of(worked.cwd).update(never)
    assert there.path.read_bytes() == map_of(worked.cwd).path.read_bytes()
    assert there.state_path != map_of(worked.cwd).state_path


def test_a_link_in_its_place_is_replaced_and_not_followed(worked: Agent, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("theirs\n")
    path = worked.cwd / ".orchestration" / "intent_map.md"
    path.symlink_to(tmp_path / "elsewhere")
    map_of(worked.cwd).update(never)
    assert (tmp_path / "elsewhere").read_text() == "theirs\n"
    assert path.is_file()
    assert not path.is_symlink()


def test_updating_the_map_is_neither_an_effect_of_a_call_nor_an_edit(tmp_path: Path, home: Path) -> None:
    """The same holds without git, where every file is observed."""
    root = tmp_path / "plain"
    (root / "src").mkdir(parents=True)
    agent = Agent(governed(root), home)
    agent.select()
    agent.write("src/a.py", "x = 1\n")
    before = agent.ask("Bash", command="make everything")
    map_of(root).update(never)
    agent.tell("Bash", before["call_id"], {"stdout": ""}, command="make everything")
    agent.write("src/b.py", "x = 1\n")
    gate = Gate.open(root)
    assert workspace_at(root, None).common_dir is None
    text = b"".join(line.raw for line in read_lines(gate.workspace.log_folder))
    assert b"intent_map" not in text


def test_remit_map_reads_only_new_records_and_equals_a_rebuild(ledger: Ledger) -> None:
    ledger.log.append([ledger.changed("a.py", SOURCES[0])])
    assert ledger.map.write_current()
    assert ledger.map.path.read_bytes() == ledger.map.rebuild()
    ledger.log.append([ledger.changed("b.py", SOURCES[1])])
    assert ledger.map.render_current() == ledger.map.rebuild()
    assert ledger.map.path.read_bytes() != ledger.map.render_current()
    assert ledger.map.write_current()
    assert not ledger.map.write_current()
    with MapState(ledger.map.state_path, ledger.map.fingerprint) as state:
        assert len(state.log_marks) == 1, "what was read is noted, and not read again"


def test_remit_map_survives_a_damaged_state(ledger: Ledger) -> None:
    ledger.log.append([ledger.changed("a.py", SOURCES[0])])
    ledger.map.write_current()
    ledger.map.state_path.write_bytes(b"no database" * 1000)
    ledger.log.append([ledger.changed("b.py", SOURCES[1])])
    assert ledger.map.render_current() == ledger.map.rebuild()
    assert ledger.map.render_current() == ledger.map.rebuild()
