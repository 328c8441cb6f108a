"""Commands of the corpus, run contained in a real repository: nothing outside the scope may change.

The intent owns `src/**`. They run in the real sandbox, below the decision on their text, which stops most of them.
"""

import os
import resource
import shutil
import subprocess
import threading
from collections.abc import Generator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from gate.driving import body, overlay, records
from policy.test_corpus import WATCHED_COMMANDS, WatchedCommand, place
from processes import fields
from remit.core.call import SessionKey, ToolCall
from remit.gate.containment.run_command import run_contained
from remit.gate.containment.take_over import ContainedResult
from remit.gate.enforce import enforce
from remit.gate.gate import Gate
from remit.workspace.sandbox.containment import Containment, ContainmentKind, Limits
from remit.workspace.sandbox.staging import SCRATCH_FOLDER, remove_tree
from waiting import wait_until

Tree = dict[str, tuple[str, int, bytes]]


def tree(root: Path) -> Tree:
    """All below a folder: kind, permissions, content. What Remit and git write for themselves is left out."""
    found: Tree = {}
    for here, names, files in os.walk(root):
        if here == str(root / "repo" / ".git"):
            names[:] = ["hooks", "refs"]
        names[:] = [n for n in names if n not in (".orchestration", ".local", "tmp")]
        for name in (*names, *files):
            path = Path(here) / name
            status = path.lstat()
            content = os.fsencode(path.readlink()) if path.is_symlink() else b""
            if path.is_file() and not path.is_symlink():
                content = path.read_bytes()
            found[str(path.relative_to(root))] = (oct(status.st_mode), status.st_mode, content)
    return {
        k: v for k, v in found.items() if not k.startswith(("repo/.git/index", "repo/.git/COMMIT", "repo/.git/logs"))
    }


def outside(found: Tree) -> Tree:
    """What the intent does not own."""
    return {path: what for path, what in found.items() if not path.startswith(("repo/src/", "repo/.git/refs/"))}


@pytest.fixture
def how(home: Path) -> Containment:
    return overlay(home)


def run(
    gate: Gate, how: Containment, command: str, *, seconds: float = 100, call_id: str = "call-1"
) -> ContainedResult:
    """Run it contained, whatever its text says."""
    call = ToolCall("test", SessionKey("s1"), "Bash", "execute", str(gate.workspace.root), call_id, command=command)
    call = replace(call, whole_workspace=True)
    return run_contained(gate, how, call, ["bash", "-c", command], Limits(seconds, 1 << 28))


@pytest.fixture
def gate(tmp_path: Path, home: Path) -> Gate:
    gate = place(tmp_path, home)
    text = gate.workspace.intents_path.read_text()
    gate.workspace.intents_path.write_text(text.replace("owned_scope:", "network: none\n    owned_scope:", 1))
    gate.intents.select(SessionKey("s1"), "test", "INT-001")
    return gate


DANGEROUS = [row for row in WATCHED_COMMANDS if row.dangerous][::4]
"""All of them take ten seconds, and pass as well."""


def test_no_command_of_the_corpus_changes_anything_outside_the_scope(
    gate: Gate, how: Containment, home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spare = tmp_path / "spare"
    shutil.copytree(gate.workspace.root / "src", spare, symlinks=True)
    before, own, failed = outside(tree(tmp_path / "place")), tree(home), list[str]()
    for row in DANGEROUS:
        run(gate, how, row.cmd, seconds=2)
        if outside(tree(tmp_path / "place")) != before or tree(home) != own:
            now = outside(tree(tmp_path / "place"))
            failed.append(f"{row.cmd}: {sorted(k for k in {*now, *before} if now.get(k) != before.get(k))}")
            before, own = now, tree(home)
        shutil.rmtree(gate.workspace.root / "src", ignore_errors=True)
        shutil.copytree(spare, gate.workspace.root / "src", symlinks=True)
    capfd.readouterr()
    assert not failed


INSIDE = [row for row in WATCHED_COMMANDS if not row.dangerous and row.writes][::2]


@pytest.mark.parametrize("row", INSIDE, ids=lambda row: row.id)
def test_in_the_scope_it_leaves_what_it_leaves_unconfined(
    row: WatchedCommand, gate: Gate, how: Containment, home: Path, tmp_path: Path
) -> None:
    twin = tmp_path / "twin"
    shutil.copytree(tmp_path / "place", twin, symlinks=True)
    environment = {**os.environ, "HOME": str(home)}
    subprocess.run(["bash", "-c", row.cmd], cwd=twin / "repo", env=environment, capture_output=True, check=False)
    run(gate, how, row.cmd)

    def own(found: Tree) -> Tree:
        return {path: what for path, what in found.items() if path.startswith("repo/src/")}

    assert own(tree(tmp_path / "place")) == own(tree(twin))


def test_each_kind_of_file_comes_over_whole(gate: Gate, how: Containment) -> None:
    src = gate.workspace.root / "src"
    result = run(
        gate,
        how,
        "cd src; printf x > 'new line'; ln a.py two; ln -s nowhere l; chmod 700 b.py; mv util.py moved.py;"
        "rm -r pkg; mkdir pkg; echo 1 > pkg/fresh; rm data.json; mkdir data.json; echo 2 > data.json/in;"
        "mkdir e; head -c 3000000 /dev/zero > big; touch -d 2001-01-01 old",
    )
    assert result.dropped == {}
    assert (src / "new line").read_text() == "x"
    assert (src / "two").stat().st_ino == (src / "a.py").stat().st_ino
    assert os.readlink(src / "l") == "nowhere"  # noqa: PTH115
    assert (src / "b.py").stat().st_mode & 0o777 == 0o700
    assert not (src / "util.py").exists()
    assert os.listdir(src / "pkg") == ["fresh"]  # noqa: PTH208
    assert (src / "data.json" / "in").read_text() == "2\n"
    assert (src / "e").is_dir()
    assert (src / "big").stat().st_size == 3_000_000
    assert (src / "old").stat().st_mtime < 1e9


def test_what_stays_is_a_covered_mutation_and_what_does_not_is_a_denial(gate: Gate, how: Containment) -> None:
    result = run(gate, how, "echo 2 > src/a.py; echo no > docs/readme.md; echo no > top")
    assert result.kept == ("src/a.py",)
    assert set(result.dropped) == {"docs/readme.md", "top"}
    assert "docs/readme.md" in result.said
    found = [body(r) for r in records(gate.workspace.root)]
    mutation = next(r for r in found if r["event"] == "mutation")
    assert mutation["covered"] is True
    assert mutation["in_scope"] is True
    assert [f["path"] for f in mutation["files"]] == ["src/a.py"]
    denied = [r["violation"]["error_type"] for r in found if r["event"] == "denied"]
    assert denied == ["SCOPE_VIOLATION"]


def test_a_process_with_many_open_files_runs_commands_all_the_same(gate: Gate, how: Containment) -> None:
    """As a daemon has them: select(2) takes no descriptor from 1024 on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, 2048 + max(int(path.name) for path in Path("/dev/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            stack.enter_context(Path(os.devnull).open("rb"))
        assert run(gate, how, "echo n > src/new").code == 0
        assert run(gate, how, "sleep 1000", seconds=0.5).code != 0


def test_a_commit_works_inside_and_takes_effect(gate: Gate, how: Containment) -> None:
    result = run(gate, how, "echo 2 > src/a.py && git add src/a.py && git commit -qm second")
    assert result.code == 0
    assert result.dropped == {}
    root = gate.workspace.root
    said = subprocess.run(["git", "log", "--format=%s"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert said.split() == ["second", "first"]
    subprocess.run(["git", "fsck", "--strict"], cwd=root, check=True, capture_output=True)


@pytest.mark.parametrize(
    "command",
    [
        "git commit -q --amend -m rewritten",
        "git checkout -q --orphan x && git commit -qm alone && git branch -D main",
        "rm -rf .git",
        "rm -rf .git/objects .git/refs",
        "git update-ref -d refs/heads/main",
        "echo '[core] pager = sh' >> .git/config; git config core.pager sh",
        "echo x > .git/hooks/pre-commit",
        "echo /tmp > .git/objects/info/alternates",
    ],
)
def test_history_and_what_git_runs_stay(command: str, gate: Gate, how: Containment) -> None:
    root = gate.workspace.root

    def heads() -> str:
        words = ["git", "for-each-ref", "refs/heads"]
        return subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout

    before, config = heads(), (root / ".git/config").read_text()
    run(gate, how, command)
    assert heads() == before
    assert (root / ".git/config").read_text() == config
    assert not (root / ".git/hooks/pre-commit").exists()
    assert not (root / ".git/objects/info/alternates").exists()
    subprocess.run(["git", "fsck", "--strict"], cwd=root, check=True, capture_output=True)


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(gate: Gate, how: Containment) -> None:
    target, scratch = gate.workspace.root / "src/a.py", gate.environment.home / SCRATCH_FOLDER
    done = gate.environment.home / "done"

    def write() -> None:
        wait_until(lambda: any("command" in path.read_text() for path in scratch.glob("*-*/**/src/a.py")))
        target.write_text("person\n")
        done.touch()

    person = threading.Thread(target=write)
    person.start()
    wait = f"until test -e {done}; do sleep 0.02; done"
    result = run(gate, how, f"echo command > src/a.py; {wait}; echo fine > src/b.py")
    person.join()
    assert target.read_text() == "person\n"
    assert (gate.workspace.root / "src/b.py").read_text() == "fine\n"
    assert set(result.dropped) == {"src/a.py"}
    aside = (gate.workspace.state / "aside").rglob("a.py")
    assert [p.read_text() for p in aside] == ["command\n"]


def test_what_runs_on_in_the_background_ends_with_the_command(gate: Gate, how: Containment) -> None:
    long = f"1000.{os.getpid()}"  # of this test alone
    done = run(gate, how, f"(sleep {long}; echo late > src/late) & setsid sleep {long} & echo ok > src/ok")
    assert done.code == 0  # not that of the limit
    wait_until(lambda: not any(long in fields(place / "cmdline") for place in Path("/proc").glob("[0-9]*")))
    assert not (gate.workspace.root / "src/late").exists()
    assert (gate.workspace.root / "src/ok").exists()


def test_a_time_limit_ends_it_with_124_and_what_it_did_is_judged(gate: Gate, how: Containment) -> None:
    result = run(gate, how, "echo a > src/ok; echo b > top; trap '' TERM; sleep 1000", seconds=2)
    assert result.code == 124
    assert (gate.workspace.root / "src/ok").exists()
    assert not (gate.workspace.root / "top").exists()


def test_no_setting_of_the_kernel_can_be_written(gate: Gate, how: Containment) -> None:
    run(gate, how, "for f in kernel/core_pattern vm/swappiness; do (: >> /proc/sys/$f) && echo $f >> src/open; done")
    assert not (gate.workspace.root / "src/open").exists()


def test_an_intent_without_network_has_none(gate: Gate, how: Containment) -> None:
    assert (
        run(gate, how, "test $(ls /sys/class/net | wc -l) -ge 1; cat /proc/net/dev | grep -v lo: | wc -l > src/n").code
        == 0
    )
    assert (gate.workspace.root / "src/n").read_text().strip() == "2"


@pytest.mark.parametrize("way", ["bind", "landlock", "none"])
def test_without_an_overlay_what_may_not_stay_is_undone(
    way: ContainmentKind, gate: Gate, how: Containment, tmp_path: Path
) -> None:
    call = ToolCall(
        *("test", SessionKey("s1"), "Bash", "execute", str(gate.workspace.root), "call-9"),
        command="python3 x",
        whole_workspace=True,
    )
    assert enforce(gate, call, gate.hooks).decision.effect == "allow"
    program = how.program if way == "bind" else ""
    lesser = Containment(way, program)
    words = ["sh", "-c", "echo 2 > src/a.py; echo x > docs/readme.md; echo new > docs/new; exit 3"]
    result = run_contained(gate, lesser, call, words, Limits(100))
    assert result.code == 3
    assert (gate.workspace.root / "src/a.py").read_text() == "2\n"
    assert (gate.workspace.root / "docs/readme.md").read_text() == FILE_THEN
    assert not (gate.workspace.root / "docs/new").exists()
    assert result.kept == ("src/a.py",)


FILE_THEN = "# Readme\n\nold text\n"


@pytest.fixture
def deep(gate: Gate) -> Generator[Gate]:
    """The gate, where folders may be made that the removal of a test's own folders breaks on."""
    yield gate
    for folder in (gate.environment.home / SCRATCH_FOLDER, gate.workspace.root / "src"):
        remove_tree(folder)


DEEP = "python3 -c \"import os; os.chdir('src'); [(os.mkdir('d'), os.chdir('d')) for _ in range({})]\""


@pytest.mark.parametrize(
    ("levels", "why"), [(1500, "more than 200 folders deep"), (3000, "paths are longer than Linux takes")]
)
def test_folders_too_deep_are_dropped_and_stand_in_no_later_commands_way(
    deep: Gate, how: Containment, levels: int, why: str
) -> None:
    result = run(deep, how, f"echo 2 > src/a.py; {DEEP.format(levels)}")
    assert why in result.said
    assert (deep.workspace.root / "src/a.py").read_text() == "2\n" if levels == 1500 else result.kept == ()
    assert run(deep, how, "echo fine > src/b.py", call_id="call-2").kept == ("src/b.py",)
    assert not list((deep.environment.home / SCRATCH_FOLDER).glob("[0-9]*-*"))


def test_folders_too_deep_are_taken_away_by_no_command_either(deep: Gate, how: Containment) -> None:
    src = deep.workspace.root / "src"
    subprocess.run(["bash", "-c", DEEP.format(250)], cwd=deep.workspace.root, check=True)
    result = run(deep, how, "rm -r src/d; echo fine > src/b.py")
    assert "more than 200 folders deep" in result.said
    assert (src / "b.py").read_text() == "fine\n"
    assert remove_tree(src / "d")


def test_holes_stay_holes_and_count_against_the_limit(gate: Gate, how: Containment) -> None:
    """A limit of 256 MiB."""
    hole = "python3 -c \"f = open('src/{0}', 'wb'); f.seek({1}); f.write(b'end'); f.truncate({1} + 4096)\""
    assert run(gate, how, hole.format("some", 100 << 20)).dropped == {}
    found = (gate.workspace.root / "src/some").stat()
    assert (found.st_size, found.st_blocks * 512 < 1 << 20) == ((100 << 20) + 4096, True)
    assert (gate.workspace.root / "src/some").read_bytes()[100 << 20 :] == b"end" + bytes(4093)
    three = " && ".join(hole.format(n, 100 << 20) for n in "abc")
    result = run(gate, how, three, call_id="call-2")
    assert (result.code, result.kept) == (124, ())
    assert "wrote more than 268435456 bytes" in result.said


def test_a_time_comes_over_in_the_scope_and_is_no_change(gate: Gate, how: Containment) -> None:
    root = gate.workspace.root
    other = (root / "docs/readme.md").stat().st_mtime_ns
    result = run(
        gate, how, "touch -d 2001-01-01 src/a.py docs/readme.md .git/config; cat src/b.py > b; cat b > src/b.py"
    )
    assert (root / "src/a.py").stat().st_mtime == datetime(2001, 1, 1).timestamp()
    assert (root / "docs/readme.md").stat().st_mtime_ns == other
    assert (result.kept, set(result.dropped)) == ((), {"b"})
    assert not [r for r in records(root) if body(r)["event"] == "mutation"]


MAKEFILE = "src/out: src/a.py\n\tcat src/a.py > src/out.new\n\tcat src/out.new > src/out\n\trm src/out.new\n"


def test_what_make_has_made_is_not_made_again(gate: Gate, how: Containment) -> None:
    root = gate.workspace.root
    (root / "Makefile").write_text(MAKEFILE)
    shutil.copy(root / "src/a.py", root / "src/out")
    os.utime(root / "src/out", (1, 1))
    assert run(gate, how, "make").code == 0
    assert run(gate, how, "make -q", call_id="call-2").code == 0
