"""Runtime data changes at once for everybody, under any intent, with a copy from before; and nothing else does."""

import json
import shlex
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from conftest import run_git
from gate.containment.test_rewrite_call import bodies, run
from gate.driving import Agent, governed, machine, overlay
from gate.hooks.trusted_hooks import trust_all
from remit.core.call import SessionKey, ToolCall
from remit.gate.containment.run_command import run_contained
from remit.gate.gate import Gate
from remit.workspace.sandbox.containment import Containment, Limits
from remit.workspace.sandbox.landlock import abi_version

DATA = ["db.sqlite3", "storage/*.sqlite3", "media/**"]


@pytest.fixture
def how(repository: Path, home: Path) -> Containment:
    found = overlay(home)
    governed(repository)
    (home / "tmp").mkdir(exist_ok=True)
    trust_data(repository, home, DATA)
    return found


@pytest.fixture
def place(how: Containment, repository: Path) -> Path:
    """A governed repository with trusted patterns of runtime data."""
    return repository


@pytest.fixture
def agent(how: Containment, repository: Path, home: Path) -> Agent:
    found = Agent(repository, home)
    found.select()
    return found


def contained(root: Path, command: str, how: Containment | None = None) -> str:
    """Run a command contained under INT-001, and return what Remit says."""
    gate = Gate.open(root, machine(Path.home()))
    session = SessionKey("s1")
    if gate.state.active_session(session).intent_id is None:
        gate.intents.select(session, "test", "INT-001")
    call = ToolCall("test", session, "Bash", "execute", str(root), command=command, whole_workspace=True)
    result = run_contained(gate, how or overlay(Path.home()), call, ["sh", "-c", command], Limits())
    gate.close()
    return result.said


def python(text: str) -> str:
    return f"python3 -I -S -c {shlex.quote(text)}"


def trust_data(repository: Path, home: Path, patterns: list[str], more: str = "") -> None:
    config = repository / ".orchestration" / "remit.toml"
    config.write_text(f'mode = "enforce"\n[containment]\ndata = {json.dumps(patterns)}\n{more}')
    trust_all(repository, home)


def make_database(path: Path, mode: str = "delete") -> None:
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"PRAGMA journal_mode={mode}")
        database.execute("CREATE TABLE t (n INTEGER)")
        database.execute("INSERT INTO t VALUES (1)")


def rows(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as database:
        return [n for (n,) in database.execute("SELECT n FROM t ORDER BY n")]


def insert(path: str, number: int) -> str:
    return python(
        f"import sqlite3; c = sqlite3.connect({path!r}); c.execute('INSERT INTO t VALUES ({number})'); c.commit()"
    )


@pytest.mark.parametrize(("path", "mode"), [("db.sqlite3", "delete"), ("storage/dev.sqlite3", "wal")])
def test_a_database_of_a_person_is_changed_in_place_and_told(agent: Agent, path: str, mode: str) -> None:
    make_database(agent.cwd / path, mode)
    inode = (agent.cwd / path).stat().st_ino
    _, done = run(agent, insert(path, 2))
    assert done.returncode == 0, done.stderr
    assert f"Remit: kept: {path} (runtime data, " in done.stderr
    assert rows(agent.cwd / path) == [1, 2]
    assert (agent.cwd / path).stat().st_ino == inode
    assert not list((agent.cwd / path).parent.glob("*-wal"))
    [snapshot], [changed] = bodies(agent.cwd, "data_snapshot"), bodies(agent.cwd, "data_changed")
    assert snapshot["id"].startswith("data@")
    assert (changed["path"], changed["before"] != changed["after"]) == (path, True)
    assert changed["bytes"] == (agent.cwd / path).stat().st_size
    assert not bodies(agent.cwd, "mutation")
    assert not bodies(agent.cwd, "human_edit")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_new_database_is_kept_and_the_next_command_finds_it(place: Path, mode: str) -> None:
    make = f"import sqlite3; c = sqlite3.connect('db.sqlite3'); c.execute('PRAGMA journal_mode={mode}'); "
    said = contained(place, python(make + "c.execute('CREATE TABLE t (n INTEGER)'); c.commit()"))
    assert "kept: db.sqlite3 (runtime data, new, " in said
    said = contained(place, insert("db.sqlite3", 1))
    assert rows(place / "db.sqlite3") == [1]


def test_data_stays_when_the_rest_is_dropped_and_the_sentence_names_the_way_back(place: Path) -> None:
    make_database(place / "db.sqlite3")
    said = contained(place, insert("db.sqlite3", 2) + "; " + python("open('docs.txt', 'w').write('x')"))
    assert "SCOPE_VIOLATION" in said
    assert not (place / "docs.txt").exists()
    assert rows(place / "db.sqlite3") == [1, 2]
    [snapshot] = bodies(place, "data_snapshot")
    assert f"`remit restore {snapshot['id']} db.sqlite3`" in said


def test_a_command_that_only_reads_leaves_no_point_and_no_word(place: Path) -> None:
    make_database(place / "db.sqlite3")
    for _ in range(2):
        read = "import sqlite3; print(sqlite3.connect('db.sqlite3').execute('SELECT n FROM t').fetchall())"
        said = contained(place, python(read))
        assert said == ""
    assert not bodies(place, "data_snapshot")
    assert not list((place / ".git/remit/data/points").iterdir())


def test_a_database_that_the_text_removes_goes_and_comes_anew(place: Path) -> None:
    make_database(place / "db.sqlite3")
    make = "import sqlite3; c = sqlite3.connect('db.sqlite3'); c.execute('CREATE TABLE t (n INTEGER)'); c.commit()"
    contained(place, f"rm -f db.sqlite3* && {python(make)}")
    assert rows(place / "db.sqlite3") == []
    [snapshot] = bodies(place, "data_snapshot")
    assert snapshot["paths"] == ["db.sqlite3"]


def test_uploads_are_kept_and_what_is_no_data_is_dropped(place: Path) -> None:
    (place / "media").mkdir()
    (place / "media" / "old.png").write_bytes(b"old")
    files = {"a/new.png": "x", "x.py": "evil", "conftest.py": "evil", ".envrc": "evil", ".env": "SECRET=1"}
    text = (
        "import os\nos.makedirs('media/a')\nos.remove('media/old.png')\n"
        f"for p, c in {files!r}.items(): open(f'media/{{p}}', 'w').write(c)\n"
        "open('media/tool', 'w').write('#!'); os.chmod('media/tool', 0o755)\nos.symlink('/etc/passwd', 'media/link')\n"
    )
    said = contained(place, python(text))
    kept = sorted(str(p.relative_to(place)) for p in (place / "media").rglob("*") if not p.is_dir())
    assert kept == ["media/a/new.png"]
    assert "media/: 6 files, outside the scope" in said
    changed = {c["path"]: c.get("after") for c in bodies(place, "data_changed")}
    assert (sorted(changed), changed["media/old.png"]) == (["media/a/new.png", "media/old.png"], None)


def test_a_tracked_database_is_no_data(place: Path) -> None:
    make_database(place / "db.sqlite3")
    run_git(place, "add", "db.sqlite3")
    run_git(place, "commit", "-qm", "fixture")
    said = contained(place, insert("db.sqlite3", 2))
    assert "SCOPE_VIOLATION" in said
    assert rows(place / "db.sqlite3") == [1]


@pytest.mark.parametrize("untrusted", ["patterns", "ignored"])
def test_without_a_yes_or_against_intentignore_nothing_is_bound(place: Path, home: Path, untrusted: str) -> None:
    make_database(place / "db.sqlite3")
    if untrusted == "ignored":
        (place / ".intentignore").write_text("db.sqlite3\n")
    else:
        config = place / ".orchestration" / "remit.toml"
        config.write_text(config.read_text().replace('"media/**"', '"media/**", "uploads/**"'))
    said = contained(place, insert("db.sqlite3", 2))
    assert "dropped" in said
    assert rows(place / "db.sqlite3") == [1]


def test_a_link_and_a_program_are_no_data(place: Path, tmp_path: Path) -> None:
    make_database(tmp_path / "elsewhere.sqlite3")
    (place / "db.sqlite3").symlink_to(tmp_path / "elsewhere.sqlite3")
    make_database(place / "storage" / "run.sqlite3")
    (place / "storage" / "run.sqlite3").chmod(0o755)
    contained(place, insert("db.sqlite3", 2))
    contained(place, insert("storage/run.sqlite3", 2))
    assert rows(tmp_path / "elsewhere.sqlite3") == [1]
    assert rows(place / "storage" / "run.sqlite3") == [1]


def test_the_copy_holds_what_stands_in_the_log_and_is_private(place: Path) -> None:
    make_database(place / "db.sqlite3", "wal")
    with closing(sqlite3.connect(place / "db.sqlite3")) as server:
        server.execute("INSERT INTO t VALUES (7)")
        server.commit()
        contained(place, insert("db.sqlite3", 8))
    [changed] = bodies(place, "data_changed")
    copy = place / ".git/remit/data" / changed["before"][:2] / changed["before"][2:]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert rows(copy) == [1, 7]
    assert rows(place / "db.sqlite3") == [1, 7, 8]


def test_data_above_the_limit_is_kept_without_a_copy_and_said(place: Path, home: Path) -> None:
    make_database(place / "db.sqlite3")
    trust_data(place, home, DATA, "data_snapshot_mib = 0\n")
    said = contained(place, insert("db.sqlite3", 2))
    assert "No copy was kept" in said
    assert rows(place / "db.sqlite3") == [1, 2]
    assert not bodies(place, "data_snapshot")


def test_a_dropped_database_names_the_step_of_a_person(place: Path) -> None:
    said = contained(place, python("import sqlite3; sqlite3.connect('other.sqlite3').execute('CREATE TABLE t (n)')"))
    assert "`remit data add other.sqlite3` lets commands change it" in said
    assert not (place / "other.sqlite3").exists()


@pytest.mark.parametrize("way", ["bind", "landlock"])
def test_without_an_overlay_named_folders_and_databases_are_writable(place: Path, how: Containment, way: str) -> None:
    if way == "landlock" and abi_version() < 1:
        pytest.skip("THIS KERNEL HAS NO LANDLOCK: NOT TESTED")
    trust_data(place, Path.home(), ["storage/**", "db.sqlite3"])
    make_database(place / "storage" / "dev.sqlite3")
    make_database(place / "db.sqlite3", "wal")
    bound = Containment("bind", how.program) if way == "bind" else Containment("landlock")
    text = (
        insert("storage/dev.sqlite3", 2) + "; " + insert("db.sqlite3", 3) + "; echo x > storage/upload; echo x > other"
    )
    said = contained(place, f"{text}; ln -s /etc/passwd storage/link; true", bound)
    assert "kept: " in said
    assert rows(place / "storage" / "dev.sqlite3") == [1, 2]
    assert rows(place / "db.sqlite3") == [1, 3]
    assert (place / "storage" / "upload").read_text() == "x\n"
    assert not (place / "other").exists()
    # A link there is compared, and so undone, like any other.
    seen = [path for path in Gate.open(place, machine(Path.home())).observe().files if path.startswith("storage")]
    assert seen == ["storage/link"]
    assert len(bodies(place, "data_changed")) == 2


def test_a_command_that_nothing_contains_changes_data_and_a_copy_is_there(repository: Path, home: Path) -> None:
    governed(repository)
    trust_data(repository, home, DATA)
    agent = Agent(repository, home)
    agent.select()
    make_database(repository / "db.sqlite3")
    for number in (2, 3):
        agent.shell(insert("db.sqlite3", number))
    assert rows(repository / "db.sqlite3") == [1, 2, 3]
    first, second = bodies(repository, "data_snapshot")
    assert first["paths"] == second["paths"] == ["db.sqlite3"]
    assert not bodies(repository, "mutation")
    assert not bodies(repository, "restore")
