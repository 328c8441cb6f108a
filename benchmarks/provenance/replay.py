"""A repository's first-parent history as recorded actions, one a commit; then blame against `git blame`.

git blame is no truth either, so what comes out is agreement, never accuracy.
"""

import random
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from remit.core.diff.contents import Difference, Hunk
from remit.core.record import Body, CallPart, Record
from remit.gate.effects.own_lines import find_difference
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.gate.records import call_records
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.origins.blame_porcelain import read_git_lines
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.observe.observation import Change
from remit.workspace.safe_files import ObservedFile, observed_content
from remit.workspace.system_clock import SystemClock

from .remit_tool import RemitTool

CHUNK = 100
"""Commits whose contents are fetched together."""

FILES = ("100644", "100755")
ABSENT = "0" * 40


@dataclass
class Replayed:
    """What came of one repository. `agreeing` of `lines` are called the same commit's by both."""

    name: str
    commits: int = 0
    files: int = 0
    of_files: int = 0
    lines: int = 0
    agreeing: int = 0
    unknown: int = 0
    log_s: float = 0
    replay_s: float = 0
    git_blame_s: float = 0
    blame_s: float = 0

    @property
    def agreement(self) -> float:
        return 100 * self.agreeing / self.lines if self.lines else 100.0

    @property
    def ratio(self) -> float:
        return self.replay_s / self.log_s if self.log_s else 0.0


@dataclass
class Commit:
    """One commit and its changed files: path, mode and blob before and after."""

    name: str
    at: float
    files: list[tuple[str, str, str, str, str]]


def replay(repository: Path, sample: int, seed: int) -> Replayed:
    """Replay one repository and compare every line of `sample` text files; of all, where that is 0."""
    with tempfile.TemporaryDirectory(prefix="provbench-") as folder:
        root, home = Path(folder).resolve() / "repo", Path(folder).resolve() / "home"
        (home / "tmp").mkdir(parents=True)
        run("clone", "-q", "--shared", str(repository.resolve()), str(root), cwd=home)
        found = Replayed(named(repository))
        began = time.perf_counter()
        run("log", "-p", "-U0", "-M", "--first-parent", cwd=root)
        found.log_s = time.perf_counter() - began
        RemitTool().install(root, home, ("INT-001",))
        began = time.perf_counter()
        commits = record(root, home, found)
        found.replay_s = time.perf_counter() - began
        compare(root, commits, text_files(root, sample, seed, found), found)
        return found


def named(repository: Path) -> str:
    """What a repository is called: its folder, or the one above where that is called as any is."""
    folder = repository.resolve()
    return folder.parent.name if folder.name in ("repo", ".git") else folder.name


def run(*words: str, cwd: Path) -> bytes:
    return subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True).stdout


def history(root: Path) -> Iterator[Commit]:
    """The first-parent history, oldest first."""
    words = ("--first-parent", "--reverse", "--raw", "--no-abbrev", "--no-renames", "-z", "--format=%x01%H %ct")
    commit, about = Commit("", 0, []), ""
    for field in run("log", *words, cwd=root).decode("utf-8", "surrogateescape").split("\0"):
        if field.startswith("\1"):
            if commit.name:
                yield commit
            name, _, at = field[1:].partition(" ")
            commit, about = Commit(name, float(at), []), ""
        elif field.lstrip("\n").startswith(":") and not about:
            about = field.lstrip("\n")
        elif about:
            old_mode, mode, old, blob, _ = about[1:].split(" ")
            commit.files.append((field, old_mode, mode, old, blob))
            about = ""
    if commit.name:
        yield commit


class CommitClock(SystemClock):
    """A clock that stands at the time of a commit."""

    at = 0.0

    def now(self) -> float:
        return self.at


def record(root: Path, home: Path, found: Replayed) -> dict[str, str]:
    """Write a mutation for each commit, as the gate makes them; which record stands for which commit."""
    clock = CommitClock()
    gate = Gate.open(root, Environment(home, home / "tmp", clock=clock))
    made: dict[str, str] = {}
    commits = list(history(root))
    found.commits = len(commits)
    for start in range(0, len(commits), CHUNK):
        chunk = commits[start : start + CHUNK]
        known = changes_of(chunk, gate.contents)
        differences = all_differences(known, gate.contents)
        records: list[Record] = []
        for commit in chunk:
            clock.at = commit.at
            records.append(gate.recorder.make_record(body(commit, known, differences), "claude-code"))
            made[records[-1].id] = commit.name
        gate.recorder.log.append([r for r in records if msgspec.to_builtins(r.body).get("files")], sync=False)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
    return made


def changes_of(chunk: Sequence[Commit], store: ContentStore) -> dict[tuple[str, str], Change]:
    """The changes with their contents, by commit and path; those whose contents are not there are left out."""
    blobs = {blob for c in chunk for f in c.files for blob, mode in ((f[3], f[1]), (f[4], f[2])) if mode in FILES}
    versions = {blob: content for blob, content in store.load_many(sorted(blobs)).items()}
    known: dict[str, ObservedFile] = {}

    def side(blob: str, mode: str) -> ObservedFile | None:
        if mode not in FILES or blob not in versions:
            return None
        if blob not in known:
            known[blob] = observed_content(versions[blob], mode)
        return known[blob]

    changes = {(c.name, f[0]): Change(f[0], side(f[3], f[1]), side(f[4], f[2])) for c in chunk for f in c.files}
    return {key: change for key, change in changes.items() if change.before or change.after}


def all_differences(known: dict[tuple[str, str], Change], store: ContentStore) -> dict[tuple[str, str], Difference]:
    """What the gate's own comparison says; git is asked once for all that it leaves to git."""
    found: dict[tuple[str, str], Difference] = {}
    left: dict[str, tuple[bytes, bytes]] = {}
    keys: dict[str, tuple[str, str]] = {}
    for key, change in known.items():
        if change.after is None or change.after.content is None:
            continue
        old = change.before.content if change.before and change.before.content is not None else b""
        difference = find_difference(old, change.after.content, ())
        if difference is None:
            left[str(len(left))] = (old, change.after.content)
            keys[str(len(keys))] = key
        else:
            found[key] = difference
    hunks: dict[str, tuple[Hunk, ...]] = store.compute_hunks(left)
    return {**found, **{keys[name]: Difference(h) for name, h in hunks.items()}}


def body(commit: Commit, known: dict[tuple[str, str], Change], differences: dict[tuple[str, str], Difference]) -> Body:
    """The record of one commit's changes."""
    keys = [(commit.name, f[0]) for f in commit.files if (commit.name, f[0]) in known]
    files = tuple(call_records.mutated_file(known[key], None, (), differences.get(key)) for key in keys)
    call: CallPart = CallPart(id=commit.name, name="Write", effect="write")
    return Body(event="mutation", intent_id="INT-001", session_id=f"of-{commit.name[:12]}", call=call, files=files)


def text_files(root: Path, sample: int, seed: int, found: Replayed) -> list[str]:
    """The files at HEAD that hold text: all, or so many of them by seed."""
    rows = run("grep", "-I", "-l", "-z", "-e", "", "HEAD", cwd=root).decode("utf-8", "surrogateescape").split("\0")
    paths = sorted(row.partition(":")[2] for row in rows if row)
    paths = [path for path in paths if (root / path).is_file() and not (root / path).is_symlink()]
    found.of_files = len(paths)
    chosen = random.Random(seed).sample(paths, min(sample, len(paths))) if sample else paths
    found.files = len(chosen)
    return chosen


def compare(root: Path, commits: dict[str, str], paths: Sequence[str], found: Replayed) -> None:
    """Every line of those files, by both."""
    gate = Gate.open(root)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        for path in paths:
            began = time.perf_counter()
            truth = read_git_lines(run("blame", "--porcelain", "--first-parent", "HEAD", "--", path, cwd=root))
            found.git_blame_s += time.perf_counter() - began
            began = time.perf_counter()
            claims: list[Any] = Blamer(gate.workspace, index, gate.contents).blame(path, ["--first-parent", "HEAD"])
            found.blame_s += time.perf_counter() - began
            for line, said in zip(truth, claims, strict=True):
                found.lines += 1
                found.unknown += said.record is None
                found.agreeing += commits.get(said.record or "") == line.version.commit
