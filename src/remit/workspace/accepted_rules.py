"""Rules as people accepted them, kept beside the copies of the governing files: what a checkout, a pull, a merge or a
stash brings may make them stricter at once, and looser only after a person's word.

Contents that lie in git's own store came by git; what a person types into an editor or has Remit write does not.
"""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.diff.contents import hash_git_blob, sha256
from remit.core.intent import MAX_FILE_BYTES
from remit.core.intents.strictness import Loosening, RuleSet, hold_stricter
from remit.core.python_runtime import prepare_type
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import head_commit, read_tree_entries
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import read_regular_file, read_tail, write_below

DIGESTS_FILE, HELD_FILE, BASELINE_FOLDER = "accepted", "held", "baseline"
"""Beside the copies: a line for each accepted set of rules, the newest last; a line for each looser rule that does not
hold; the newest accepted rules of each worktree.
"""
KEPT_LINES = 256
SHA256_DIGITS = 64
LINE_BYTES = 65
DEFAULT_REFS = tuple(f"refs/remotes/origin/{name}" for name in ("HEAD", "main", "master"))


class Baseline(Struct, frozen=True):
    """The accepted rules of a worktree, and git's names of the files that they stood in, by path. `is_fixed` in a
    runner, where nothing but a person's yes loosens them.
    """

    rules: RuleSet
    files: dict[str, str]
    is_fixed: bool = False


class AcceptedRules:
    """The accepted rules of one worktree. `copies` is the folder of the copies, `root` that of the files."""

    def __init__(self, workspace: Workspace, copies: Path, root: Path) -> None:
        self.workspace = workspace
        self.copies = copies
        self.root = root

    @property
    def baseline_path(self) -> Path:
        name = sha256(str(self.root).encode("utf-8", "surrogateescape"))[:16]
        return self.copies / BASELINE_FOLDER / f"{name}.json"

    def read_baseline(self) -> Baseline | None:
        """Return the accepted rules; of a new worktree, those that were accepted last in another one."""
        own = self.baseline_path
        with suppress(OSError, msgspec.MsgspecError, ValueError):
            others = sorted(own.parent.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
            for path in [own] if own.exists() else others[:1]:
                return msgspec.convert(json.loads(path.read_bytes()), prepare_type(Baseline))
        return None

    def hold(self, found: RuleSet) -> tuple[RuleSet, tuple[Loosening, ...]]:
        """Return the rules in force, and what git brought that would loosen them."""
        baseline = self.read_baseline()
        held, loosened = hold_stricter(baseline.rules, found) if baseline is not None else (found, ())
        if baseline is None or not loosened:
            return found, ()
        known, lines = self.read_lines(HELD_FILE), [sha256(one.change.encode("utf-8", "replace")) for one in loosened]
        if baseline.is_fixed or self.came_by_git(baseline.files):
            # Remit's own writes into the same file, such as a status, make it no person's.
            with suppress(OSError):
                self.write_lines(HELD_FILE, [*known, *lines])
        elif not set(lines) & set(known):
            return found, ()
        return held, loosened

    def came_by_git(self, before: dict[str, str]) -> bool:
        if self.workspace.common_dir is None:
            return False
        git = Git(self.root)
        try:
            now = self.read_files()
            changed = {path: names for path, names in now.items() if before.get(path) not in names}
            gone = [path for path in before if path not in now]
            if not changed and not gone:
                return False
            paths = [*changed, *gone]
            for ref in DEFAULT_REFS:
                with suppress(GitError):
                    entries = read_tree_entries(self.workspace, ref, paths)
                    if entries or git.text("rev-parse", "--verify", "-q", f"{ref}^{{commit}}"):
                        same = all(path in entries and entries[path][1] in names for path, names in changed.items())
                        if same and not any(path in entries for path in gone):
                            return False
                        break
            asked = [name for names in changed.values() for name in names]
            listed = git.run("cat-file", "--batch-check", stdin="".join(f"{name}\n" for name in asked).encode())
            if any(not line.endswith(b" missing") for line in listed.splitlines()):
                return True
            tracked = read_tree_entries(self.workspace, "HEAD", gone) if gone else {}
            return any(path not in tracked for path in gone)
        except (GitError, OSError):
            return True

    def read_files(self) -> dict[str, tuple[str, ...]]:
        """Return git's names of the files that govern, by path; of a file with CRLF also the name with LF."""
        folder = self.root / ".orchestration"
        paths = [self.root / ".intentignore", folder / ".intentignore", folder / "remit.toml"]
        paths += [folder / "active_intents.yaml", *sorted((folder / "intents").rglob("*.yaml"))]
        algorithm = "sha256" if len(head_commit(self.workspace) or "") == SHA256_DIGITS else "sha1"
        found: dict[str, tuple[str, ...]] = {}
        for path in paths:
            with suppress(OSError):
                content = read_regular_file(path, MAX_FILE_BYTES)
                forms = dict.fromkeys((content, content.replace(b"\r\n", b"\n")))
                found[path.relative_to(self.root).as_posix()] = tuple(hash_git_blob(form, algorithm) for form in forms)
        return found

    def accept(self, rules: RuleSet, digest: str, *, by_person: bool = False) -> None:
        """Keep the rules as accepted: exactly these hold wherever they come again. Raises OSError."""
        if digest:
            others = [line for line in self.read_lines(DIGESTS_FILE) if line != digest]
            self.write_lines(DIGESTS_FILE, [*others, digest])
        baseline = None if by_person else self.read_baseline()
        if baseline is not None and baseline.is_fixed:
            return
        self.write_baseline(Baseline(rules, {path: names[0] for path, names in self.read_files().items()}))
        self.write_lines(HELD_FILE, [])

    def change_baseline(self, change: Callable[[RuleSet], RuleSet], found: RuleSet) -> None:
        """Take over one change that a person made through Remit, whatever else the files hold. Raises OSError."""
        baseline = self.read_baseline()
        if baseline is None:
            return
        rules = change(baseline.rules)
        self.write_baseline(Baseline(rules, baseline.files, baseline.is_fixed))
        left = {sha256(one.change.encode("utf-8", "replace")) for one in hold_stricter(rules, found)[1]}
        self.write_lines(HELD_FILE, [line for line in self.read_lines(HELD_FILE) if line in left])

    def write_baseline(self, baseline: Baseline) -> None:
        self.write(self.baseline_path, json.dumps(msgspec.to_builtins(baseline)).encode("ascii"))

    def read_lines(self, name: str) -> list[str]:
        return read_tail(self.copies / name, KEPT_LINES * LINE_BYTES).decode("ascii", "replace").split()

    def write_lines(self, name: str, lines: Iterable[str]) -> None:
        kept = list(dict.fromkeys(lines))[-KEPT_LINES:]
        if kept or (self.copies / name).exists():
            self.write(self.copies / name, "".join(f"{line}\n" for line in kept).encode())

    def write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_below(self.workspace.common_dir or self.workspace.root, path, content)
