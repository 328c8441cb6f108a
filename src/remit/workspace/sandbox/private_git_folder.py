"""The git folder of an attempt's own: a copy of git's folder with an empty object store borrowing from the real store,
mounted in its place while the agent works: the repository is out of the agent's reach.

What the agent commits is taken over by fetching: git makes every object anew and checks it (`fetch.fsckObjects`). Files
read here without git may come from the agent, at any moment. Source: gitrepository-layout(5), git-fetch(1),
git-worktree(1) of git 2.39, read 2026-11.
"""

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

from remit.core.untrusted_input import quote_bytes
from remit.workspace import safe_files
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import BRANCH_FOLDER, BRANCH_PREFIX, OID
from remit.workspace.place.workspace import PRIVATE_GIT_FOLDER, Workspace, find_git_view

BASE_REFS = "refs/remit/base"
"""Refs that hold what a running attempt borrows, whatever becomes of the branch that it began from."""

INCOMING_REFS = "refs/remit/incoming"
REFRESHED_REFS = ("refs/remotes", f"{BRANCH_PREFIX}{BRANCH_FOLDER}/next")
STEERING_FILES = ("commondir", "gitdir", "config.worktree")
"""In the git folder of a worktree: which repository it belongs to, and settings, which name programs."""

NOT_COPIED = shutil.ignore_patterns("remit", "modules", "reftable", "*.lock")
OBJECT_FILE = re.compile(r"(?:[0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62}))|pack/pack-[0-9a-f]{40,64}\.(?:pack|idx)")
REF_NAME = re.compile(r"refs/(?:[A-Za-z0-9_+@=-][A-Za-z0-9_+@=.-]*/)*[A-Za-z0-9_+@=-][A-Za-z0-9_+@=.-]*")
LARGE_FILE = re.compile(r"[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{64}")
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
READ_BYTES = 1 << 20
MAX_REF_BYTES = 128
MAX_PACKED_REFS_BYTES = 64 << 20
MAX_OBJECT_FILES = 100_000
MAX_COMMITS = 10_000
MAX_NEW_BYTES = 1 << 30
TAKE_OVER_LIMIT_S = 300.0


class WorkRefused(GitError):
    """Error for commits of an attempt that are not taken over. The message says why, and what stays."""

    def __init__(self, why: str) -> None:
        super().__init__(("fetch",), None, why)
        self.args = (f"its commits are not taken over: {why}; its files are",)


class PrivateGitFolder:
    """The git folder of its own that the attempt in the worktree `tree` has while it runs. Methods raise GitError,
    OSError.
    """

    def __init__(self, tree: Workspace) -> None:
        assert tree.git_dir is not None, "worktrees are git's"
        assert tree.common_dir is not None, "worktrees are git's"
        self.tree = tree
        self.real, self.real_own = tree.common_dir, tree.git_dir
        self.folder = self.real_own / PRIVATE_GIT_FOLDER
        self.common = self.folder / "common"
        self.own = self.common / "worktrees" / self.real_own.name
        self.shared = self.folder / "shared"
        self.lock_path = self.real_own / "remit-own"
        self.git = Git(self.real)

    @property
    def name(self) -> str:
        """The attempt, such as INT-014/7."""
        return (self.folder / "name").read_text()

    @property
    def branch(self) -> str:
        return f"{BRANCH_PREFIX}{BRANCH_FOLDER}/{self.name}"

    @property
    def exists(self) -> bool:
        return find_git_view(str(self.real_own)) != str(self.real_own)

    def make(self, name: str) -> None:
        """Make the folder of an attempt, unless it is there: with the refs of this moment, and no objects."""
        if self.exists:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, mode=0o700)
        (self.folder / "name").write_text(name)
        start = self.git.text("rev-parse", "--verify", self.branch)
        self.git.run("update-ref", f"{BASE_REFS}/{self.name}", start)
        for folder in ("objects/info", "objects/pack", "refs/heads", "hooks"):
            (self.common / folder).mkdir(parents=True)
        self.shared.mkdir()
        (self.folder / "lfs").mkdir()
        # Outside of the jail the first does not lead to objects, inside the second is the store itself.
        write_alternates(self.common / "objects", self.shared, self.real / "objects")
        for name in ("config", "shallow", "description"):
            if (self.real / name).is_file():
                shutil.copyfile(self.real / name, self.common / name)
        config = self.common / "config"
        if (self.real / "reftable").is_dir():
            self.git.run("config", "--file", str(config), "--unset", "extensions.refstorage")
        info = self.real / "info"
        shutil.copytree(info, self.common / "info") if info.is_dir() else (self.common / "info").mkdir()
        self.copy_refs()
        head = self.git.text("symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
        head = f"ref: {head}" if head else self.git.text("rev-parse", "HEAD", ok=(0, 128))
        (self.common / "HEAD").write_text(f"{head}\n")
        safe_files.write_atomically(self.folder / "taken", f"{start}\n".encode())
        # Last, by one rename: the folder counts as soon as this one is there.
        fresh = self.folder / "worktree"
        shutil.copytree(self.real_own, fresh, ignore=NOT_COPIED)
        (fresh / "HEAD").write_text(f"ref: {self.branch}\n")
        (fresh / "commondir").write_text("../..\n")
        self.own.parent.mkdir()
        fresh.rename(self.own)

    def copy_refs(self) -> None:
        rows = self.git.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)").split(b"\n")
        lines: list[bytes] = []
        for line in filter(None, rows):
            commit, name, target = line.split(b" ")
            if target:
                path = self.common / os.fsdecode(name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"ref: %s\n" % target)
            else:
                lines.append(b"%s %s\n" % (commit, name))
        (self.common / "packed-refs").write_bytes(b"".join(lines))

    # In the jail

    def list_writable(self) -> dict[Path, Path]:
        """Return the agent's writable paths, by their place in the jail. Each is a separate mount, immovable for
        processes in the jail.
        """
        inner = ("objects", "objects/info", "refs", "worktrees", f"worktrees/{self.real_own.name}")
        return {self.real: self.common, **{self.real / name: self.common / name for name in inner}}

    def list_read_only(self) -> dict[Path, Path]:
        """Return what is shown read-only, by the place where it is found: the real objects, and what steers git."""
        hooks, lfs = self.real / "hooks", self.real / "lfs"
        own = {self.real_own / name: self.own / name for name in STEERING_FILES if (self.own / name).is_file()}
        return {
            self.shared: self.real / "objects",
            **{self.real / name: self.common / name for name in ("config", "info", "objects/info/alternates")},
            hooks: hooks if hooks.is_dir() else self.common / "hooks",
            self.real_own / "remit": self.real_own / "remit",
            **({self.folder / "lfs": lfs} if lfs.is_dir() else {}),  # beside the objects, where git-lfs looks too
            **own,
        }

    # From the jail

    def lock(self) -> AbstractContextManager[None]:
        """Return the lock of those who write here: the heartbeat, a checkpoint beside it, a snapshot, and the end."""
        return safe_files.hold_lock(self.lock_path, timeout_s=TAKE_OVER_LIMIT_S)

    def refresh(self) -> None:
        """Bring the refs of remotes, and of what has landed, to where they are now."""
        with safe_files.try_lock(self.lock_path) as is_free:  # the heartbeat waits for no fetch
            if is_free and self.exists:
                self.refresh_refs()

    def refresh_refs(self) -> None:
        out = self.git.text("for-each-ref", "--format=%(objectname) %(refname)%(symref)", *REFRESHED_REFS)
        known = self.folder / "refreshed"
        if known.is_file() and known.read_text() == out:
            return
        for line in out.splitlines():
            commit, _, name = line.partition(" ")
            if REF_NAME.fullmatch(name):  # a symbolic one does not match
                with suppress(OSError):
                    safe_files.write_below(self.common, self.common / name, f"{commit}\n".encode(), follow_links=False)
        safe_files.write_atomically(known, out.encode())

    def read_head(self) -> str | None:
        """Return the commit of the agent's worktree, otherwise of the branch; None if unreadable."""
        found = read_short_file(self.own / "HEAD")
        if OID.fullmatch(found):
            return found
        name = found.removeprefix("ref: ")
        return self.read_ref(name) or self.read_ref(self.branch)

    def read_ref(self, name: str) -> str | None:
        if not REF_NAME.fullmatch(name) or ".." in name:
            return None
        loose = read_short_file(self.common / name)
        if OID.fullmatch(loose):
            return loose
        with suppress(OSError):
            packed = safe_files.read_regular_file(self.common / "packed-refs", MAX_PACKED_REFS_BYTES)
            for line in packed.decode("utf-8", "replace").splitlines():
                commit, _, ref = line.partition(" ")
                if ref == name and OID.fullmatch(commit):
                    return commit
        return None

    def take_over(self) -> None:
        """Bring the agent's commits into the repository, and move its branch to the newest. May be repeated after a
        crash at any moment. Raises WorkRefused.
        """
        with self.lock():
            if self.exists:
                self.fetch_commits()

    def fetch_commits(self) -> None:
        head, known = self.read_head(), (self.folder / "taken").read_text().split()
        at = self.git.text("rev-parse", "--verify", "--quiet", self.branch, ok=(0, 1))
        if head is None or head == at:
            return  # an agent that deletes its branch leaves no commits, and its files are handed in
        if at not in known:
            raise WorkRefused(f"somebody else moved its branch {self.branch} to {at[:12]} meanwhile")
        with ExitStack() as stack, suppress(OSError):  # there is none, or a link in its place
            store = stack.enter_context(safe_files.open_parent_folder(self.common, "lfs/objects/x", create=False))
            stack.callback(take_over_large_files, store, self.real / "lfs/objects")
        bare = self.make_bare(head)
        incoming = f"{INCOMING_REFS}/{self.name}"
        try:
            self.check_amount(Git(bare), head)
            self.git.run(
                *("-c", "fetch.fsckObjects=true", "-c", "protocol.file.allow=always", "fetch", "--quiet", "--no-tags"),
                *("--no-write-fetch-head", "--no-auto-gc", "--no-recurse-submodules"),
                *(f"--negotiation-tip={BASE_REFS}/{self.name}", "--", str(bare), f"+refs/heads/handed:{incoming}"),
                limit_s=TAKE_OVER_LIMIT_S,
            )
        except GitError as error:
            raise WorkRefused(" ".join(error.message.split())[:300]) from error
        finally:
            shutil.rmtree(bare, ignore_errors=True)
        if head not in known:  # before the branch moves: after a crash between the two, its place is known
            safe_files.write_atomically(self.folder / "taken", "".join(f"{one}\n" for one in (*known, head)).encode())
        self.git.run("update-ref", "--no-deref", "-m", "remit: taken over", self.branch, head, at)
        self.git.run("update-ref", "-d", incoming)

    def make_bare(self, head: str) -> Path:
        bare = self.folder / f"bare-{os.getpid()}"
        shutil.rmtree(bare, ignore_errors=True)
        (bare / "objects/info").mkdir(parents=True)
        (bare / "refs/heads").mkdir(parents=True)
        (bare / "HEAD").write_text("ref: refs/heads/handed\n")
        (bare / "refs/heads/handed").write_text(f"{head}\n")
        form = "sha256" if len(head) == 64 else "sha1"
        version = "1\n[extensions]\n\tobjectformat = sha256\n" if form == "sha256" else "0\n"
        (bare / "config").write_text(f"[core]\n\tbare = true\n\trepositoryformatversion = {version}")
        write_alternates(bare / "objects", self.real / "objects")
        if (self.real / "shallow").is_file():
            shutil.copyfile(self.real / "shallow", bare / "shallow")
        for count, _ in enumerate(link_objects(self.common / "objects", bare / "objects"), 1):
            if count > MAX_OBJECT_FILES:
                shutil.rmtree(bare)
                raise WorkRefused(f"its git folder holds more than {MAX_OBJECT_FILES:,} files of objects")
        return bare

    def check_amount(self, git: Git, head: str) -> None:
        """Raise WorkRefused for more commits, or more bytes, than an attempt may add."""
        new = (head, "--not", "--alternate-refs")
        commits = int(git.text("rev-list", "--count", f"--max-count={MAX_COMMITS + 1}", *new))
        if commits > MAX_COMMITS:
            raise WorkRefused(f"they are more than {MAX_COMMITS:,}")
        size = int(git.text("rev-list", "--objects", "--disk-usage", *new))
        if size > MAX_NEW_BYTES:
            raise WorkRefused(f"they hold {size >> 20:,} MiB, more than {MAX_NEW_BYTES >> 20:,}")

    def close(self) -> None:
        """Take the agent's commits over, and end the folder: from then on git works with the real one. Where commits
        are refused, the branch stays as it was, and the folder beside, until the worktree is used again. Raises
        WorkRefused.
        """
        if self.exists:
            with self.lock():
                if self.exists:  # nobody else has ended it meanwhile
                    self.end()

    def end(self) -> None:
        name, refused = self.name, self.folder.with_name("refused")
        try:
            self.fetch_commits()
        except WorkRefused:
            shutil.rmtree(refused, ignore_errors=True)
            self.folder.rename(refused)
            raise
        else:
            self.own.rename(self.folder / "ended")
            shutil.rmtree(self.folder)
        finally:
            if not self.exists:
                # The index is that of the start; what lies outside of the sparse checkout stays so.
                Git(self.tree.root).run("reset", "--quiet", "--mixed", "--no-refresh")
                self.git.run("update-ref", "-d", f"{BASE_REFS}/{name}")


def take_over_commits(tree: Workspace) -> None:
    """Bring what a running attempt has committed in this worktree into the repository. Raises GitError, OSError."""
    if tree.git_view != tree.git_dir:
        PrivateGitFolder(tree).take_over()


def write_alternates(objects: Path, *stores: Path) -> None:
    (objects / "info/alternates").write_bytes(b"".join(quote_bytes(os.fsencode(path)) + b"\n" for path in stores))


def read_short_file(path: Path) -> str:
    with suppress(OSError):
        return safe_files.read_regular_file(path, MAX_REF_BYTES).decode("ascii", "replace").strip()
    return ""


def take_over_large_files(store: int, target: Path) -> None:
    """Copy the files that git-lfs has stored, each of which is named for its digest, and none that is not. `store` is
    a descriptor of their folder.
    """
    spent = 0
    for folder, _, names, descriptor in os.fwalk(".", dir_fd=store):
        for name in names:
            place = target / folder / name
            if not LARGE_FILE.fullmatch(str(place.relative_to(target))) or place.exists():
                continue
            try:
                file = os.fdopen(os.open(name, READ_FLAGS, dir_fd=descriptor), "rb")
            except OSError:
                continue
            with file:
                status = os.fstat(file.fileno())
                spent += status.st_size
                if spent > MAX_NEW_BYTES:
                    raise WorkRefused(f"they hold more than {MAX_NEW_BYTES >> 20:,} MiB of large files")
                if stat.S_ISREG(status.st_mode):
                    copy_large_file(file, place)


def copy_large_file(file: BinaryIO, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh, digest = place.with_name(f"{place.name}.{os.getpid()}.tmp"), hashlib.sha256()
    try:
        with fresh.open("wb") as copy:
            while content := file.read(READ_BYTES):
                digest.update(content)
                copy.write(content)
        if digest.hexdigest() == place.name:
            fresh.rename(place)
    finally:
        fresh.unlink(missing_ok=True)


def link_objects(source: Path, target: Path) -> Iterator[str]:
    """Give each object's file below `source` a second name below `target`, and yield it. What is no file of an object
    is left out, also where it is replaced meanwhile.
    """
    for folder, _, names, descriptor in os.fwalk(source, follow_symlinks=False):
        below = os.path.relpath(folder, source)
        for name in names:
            path = f"{below}/{name}"
            if OBJECT_FILE.fullmatch(path):
                place = target / path
                place.parent.mkdir(exist_ok=True)
                with suppress(OSError):
                    os.link(name, place, src_dir_fd=descriptor, follow_symlinks=False)
                    if not stat.S_ISREG(place.lstat().st_mode):
                        place.unlink()
            yield path
