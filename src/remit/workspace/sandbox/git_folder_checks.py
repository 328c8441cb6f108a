"""Judgement of a command's changes to git's folder: accepted or refused as a whole, since the files refer to each
other.

Here the files are checked: each must be a file of git's usual commands, with the content promised by the name. The
history behind the names is judged by `new_commits`. Remit's own refs stay unchanged; other changes proceed without
them. Of the settings, only a branch's upstream may come over: other settings run programs, hide files, or redirect git,
and belong to a person.
"""

import hashlib
import os
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from remit.core.python_runtime import LazyProperty
from remit.workspace.git.command import GUARDS, Git, GitError, GitResult, execute, list_settings
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import hash_file
from remit.workspace.sandbox.staged_changes import SPECIAL_KINDS, StagedChange
from remit.workspace.sandbox.staging import OWN_REFS, Staging

PACKED_REFS = "packed-refs"
STASH_REF = "refs/stash"
HEADS, TAGS, REMOTES = "refs/heads/", "refs/tags/", "refs/remotes/"
LASTING_REFS = (HEADS, TAGS, REMOTES)  # refs whose commits count as known: their commits were judged before
OBJECT_NAME = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
OBJECT_PATH = re.compile(r"objects/([0-9a-f]{2}/[0-9a-f]{38,62}|pack/pack-[0-9a-f]{40,64}\.(pack|idx|promisor))")
REGENERATED_FILES = re.compile(
    r"objects/info/.+|objects/pack/(multi-pack-index.*|pack-.+\.(rev|bitmap|mtimes|keep))|.*\.lock|(.*/)?gc\.(log|pid)"
    r"|rr-cache/.+|(worktrees/[^/]+/)?MERGE_RR|lfs/(tmp|cache|incomplete|logs)/.+"
)
"""Files that git recreates if missing, and believes without checking: commit graphs, pack maps, known resolutions."""

REF_PATH = re.compile(
    r"refs/(heads|tags|remotes|notes|bisect|rewritten)/.+|refs/stash|worktrees/[^/]+/refs/(bisect|rewritten)/.+"
)
REMIT_REF_PATH = re.compile(rf"(logs/)?({'|'.join(OWN_REFS)})(/.+)?")
"""Remit's refs and authorship notes: not writable or removable for agents."""

STORED_LARGE_FILE = re.compile(r"lfs/objects/[0-9a-f]{2}/[0-9a-f]{2}/([0-9a-f]{64})")
"""A file that git-lfs has stored, named for its SHA-256. Source: docs/spec.md of git-lfs 3.3, read 2026-11."""

SHARED_PATH = re.compile(rf"objects/.+|(logs/)?refs/.+|packed-refs|shallow|{STORED_LARGE_FILE.pattern}")
"""Paths shared by the worktrees of a repository; other paths of `common` belong to the main worktree."""

HEAD_PATH = re.compile(r"(worktrees/[^/]+/)?HEAD")
LOG_PATH = re.compile(r"(worktrees/[^/]+/)?logs/.+")
OPERATION_FOLDERS = r"rebase-merge|rebase-apply|sequencer"
WORKTREE_FILE = re.compile(
    r"(worktrees/[^/]+/)?(index|ORIG_HEAD|FETCH_HEAD|COMMIT_EDITMSG|MERGE_\w+|AUTO_MERGE|SQUASH_MSG|CHERRY_PICK_HEAD"
    rf"|REVERT_HEAD|REBASE_HEAD|BISECT_\w+|({OPERATION_FOLDERS})/[\w.-]+)"
)
"""What a merge, rebase, cherry-pick, revert, `am` or bisect leaves while it is open, and takes away when it ends."""

EMPTIED_FOLDER = re.compile(rf"(worktrees/[^/]+/)?(({OPERATION_FOLDERS})|(logs/)?refs/.+)")
"""Folders that go with their last file: `git status` tells of a rebase as long as its folder is there."""

IN_PROGRESS_FILE = re.compile(
    r"(worktrees/[^/]+/)?(MERGE_HEAD|CHERRY_PICK_HEAD|REVERT_HEAD|MERGE_AUTOSTASH|sequencer/head"
    r"|rebase-(merge|apply)/(onto|orig-head|autostash))"
)
"""Files with the commits that a merge or rebase continues with."""

REBASE_STEPS_FILE = re.compile(r"(worktrees/[^/]+/)?(rebase-merge/(git-rebase-todo(\.backup)?|done)|sequencer/todo)")
REBASE_STEP = re.compile(
    r"\s*|#.*|noop|(pick|revert|reword|edit|squash|fixup|fixup -[cC]|drop|[presfd]) [0-9a-f]{7,64}( .*)?"
    r"|update-ref refs/heads/\S+|(label|l) \S+|(reset|t) (\[new root\]|\S+)( #.*)?"
    r"|(merge|m) (-[cC] [0-9a-f]{7,64} )?\S.*"
)
"""A line of what is left of a rebase or a cherry-pick. `exec` would run a program for whoever continues."""

SHORT_STEP = re.compile(r"\s*(?:\w+|fixup -[cC]|merge -[cC]) ([0-9a-f]{7,39})\b")
"""A step whose commit has a short name, as in the steps of a cherry-pick or revert of several."""

STRATEGY_FILE = re.compile(r"(worktrees/[^/]+/)?rebase-merge/strategy")
STRATEGIES = (b"", b"ort", b"recursive", b"resolve", b"ours")
APPLY_OPTIONS_FILE = re.compile(r"(worktrees/[^/]+/)?rebase-apply/apply-opt")
APPLY_OPTIONS = re.compile(rb"(\s*'?(-[Cp]\d+|--(whitespace=\w+|ignore-whitespace|ignore-space-change|reject))'?)*\s*")
PICK_OPTIONS_FILE = re.compile(r"(worktrees/[^/]+/)?sequencer/opts")
PICK_OPTIONS = re.compile(rb"\s*(\[options\]\s*)?(\s*(?!strategy|gpg-sign)[\w-]+ = [\w-]+\n?)*")
PATCH_FILE = re.compile(r"(worktrees/[^/]+/)?rebase-apply/(\d{4,}|patch)")
"""A patch that `git am` still has to apply, for whoever continues."""

RENAMED_FROM = re.compile(rb"^rename from (.+)$", re.MULTILINE)

SETTINGS_FILE = "config"
TRACKING_KEY = re.compile(r"branch\.(?P<branch>[^\n]+)\.(?P<name>remote|merge|rebase)")
LARGE_FILES_SETTING = ("lfs.repositoryformatversion", "0")
SUBMODULE_KEY = re.compile(r"submodule\.(?P<submodule>.+)\.(?P<name>url|active)", re.DOTALL)
BRANCH_NAME = re.compile(r"refs/heads/[\w][\w./@+-]*")

BAD_REF_NAME = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|[./]$")
"""What `git check-ref-format` forbids in a full ref name. Source: its manual page of git 2.51, read 2026-11."""

ALTERNATES_PATH = re.compile(r"objects/info/(http-)?alternates")
LOG_LINE = re.compile(r"(?P<old>[0-9a-f]{40,64}) (?P<new>[0-9a-f]{40,64}) [^\t]*(\t(?P<message>.*))?")

MAX_NAMED_PATHS = 500  # above this count the whole tree is listed: a command line is limited
BLOCK_BYTES = 1 << 18
MAX_OBJECT_BYTES = 1 << 30  # limit of an unpacked loose object: git itself packs objects larger than 512 MiB
MAX_TOTAL_BYTES = 1 << 32  # of the loose objects of a command, unpacked
MAX_KNOWN = 50_000

FileKey: TypeAlias = tuple[str, int, int, int]  # path, inode, size and change time: changes with the file
NAME_BY_FILE: dict[FileKey, str] = {}
"""The name that the content of an object or pack index has; empty if invalid. A cache: objects are checked while no
other call of the repository has to wait, and asked about later.
"""


class LayeredGit:
    """git on a repository as a command left it: the real `common`, with new objects and index in the layer `upper`."""

    def __init__(self, upper: Path, common: Path) -> None:
        self.upper = upper
        self.common = common

    def run(
        self, *arguments: str, stdin: bytes = b"", index: Path | None = None, scratch: Path | None = None
    ) -> GitResult:
        """Run git in `/`, out of reach of attribute files; new objects go to `scratch`. Raises GitError."""
        alternates = str(self.upper / "objects")
        variables: list[str] = []
        if scratch is not None:
            alternates = f"{self.common / 'objects'}:{alternates}"
            variables.append(f"GIT_OBJECT_DIRECTORY={scratch}")
        if index is not None:
            variables.append(f"GIT_INDEX_FILE={index}")
        variables.append(f"GIT_ALTERNATE_OBJECT_DIRECTORIES={alternates}")
        git = ("git", *GUARDS, "--no-replace-objects", "--work-tree=/", "--git-dir", str(self.common))
        return execute(["env", "-C", "/", *variables, *git, *arguments], arguments, stdin, self.common)

    def output(
        self,
        *arguments: str,
        stdin: bytes = b"",
        index: Path | None = None,
        ok: tuple[int, ...] = (0,),
        scratch: Path | None = None,
    ) -> bytes:
        done = self.run(*arguments, stdin=stdin, index=index, scratch=scratch)
        if done.code not in ok:
            raise GitError(arguments, done.code, done.errors)
        return done.output

    def succeeds(self, *arguments: str) -> bool:
        return self.run(*arguments).code == 0

    def read_blob_names(self, tree: str, paths: Iterable[str]) -> dict[str, str]:
        """Return the blob by path in a commit or tree, for these paths. Raises GitError."""
        wanted = set(paths)
        if not wanted or not tree:
            return {}
        pathspecs = sorted(wanted) if len(wanted) <= MAX_NAMED_PATHS else []
        out = self.output("--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", tree, "--", *pathspecs)
        rows = (line.partition("\t") for line in out.decode("utf-8", "surrogateescape").split("\0")[:-1])
        return {path: about.split(" ")[2] for about, _, path in rows if path in wanted}


# -- objects -------------------------------------------------------------------------------------------------


def check_objects(workspace: Workspace, staging: Staging) -> None:
    """Check the objects of a command, for later questions."""
    common = workspace.common_dir
    if common is not None:
        upper = staging.common.upper if staging.common else staging.root.upper / common.relative_to(workspace.root)
        check_object_folder(upper, common)


def check_object_folder(upper: Path, common: Path) -> None:
    """Check the objects that a git folder got. A few megabytes can unpack to terabytes: it is bounded."""
    if not (upper / "objects").is_dir():
        return
    left = MAX_TOTAL_BYTES
    for path in sorted((upper / "objects").glob("[0-9a-f][0-9a-f]/*")):
        if path.is_file() and not path.is_symlink():
            name, unpacked = compute_object_name(path, len(path.parent.name + path.name), min(left, MAX_OBJECT_BYTES))
            left -= unpacked
            remember_name(path, name)
    for path in (upper / "objects/pack").glob("*.idx"):
        try:
            is_whole_pack(LayeredGit(upper, common), path)
        except GitError:
            continue  # `is_whole_pack` is asked again when the pack matters, and reports the error


def is_whole_pack(layered: LayeredGit, index: Path) -> bool:
    if file_key(index) not in NAME_BY_FILE:
        remember_name(index, index.stem if layered.succeeds("verify-pack", str(index)) else "")
    return bool(NAME_BY_FILE[file_key(index)])


def compute_object_name(place: Path, digits: int, max_bytes: int) -> tuple[str, int]:
    found = hashlib.sha256() if digits == 64 else hashlib.sha1(usedforsecurity=False)
    unpacking, total = zlib.decompressobj(), 0
    try:
        with place.open("rb") as packed:
            while block := unpacking.unconsumed_tail or packed.read(BLOCK_BYTES):
                part = unpacking.decompress(block, BLOCK_BYTES)
                found.update(part)
                total += len(part)
                if total > max_bytes or unpacking.unused_data:
                    return "", total
        part = unpacking.flush()
    except zlib.error:
        return "", total
    found.update(part)
    return (found.hexdigest() if unpacking.eof and not unpacking.unused_data else ""), total + len(part)


def file_key(place: Path) -> FileKey:
    status = place.lstat()
    return os.fspath(place), status.st_ino, status.st_size, status.st_ctime_ns


def remember_name(place: Path, name: str) -> None:
    if len(NAME_BY_FILE) >= MAX_KNOWN:
        NAME_BY_FILE.clear()
    NAME_BY_FILE[file_key(place)] = name


# -- files ---------------------------------------------------------------------------------------------------


class RefMove(Struct, frozen=True):
    """A ref with a new target; `old` or `new` is empty for a created or deleted ref."""

    name: str
    old: str
    new: str

    @property
    def is_branch_or_tag(self) -> bool:
        return self.name.startswith(LASTING_REFS)


def read_ref_file(place: Path) -> str:
    """Return a ref file's text: an object name, or `ref: …`; empty if absent. Raises OSError."""
    return place.read_bytes().decode("utf-8", "replace").strip() if place.is_file() and not place.is_symlink() else ""


def read_packed_refs(place: Path) -> Mapping[str, str]:
    """Return the targets of packed refs. Source: git-pack-refs(1), read 2026-11. Raises OSError."""
    if not place.is_file() or place.is_symlink():
        return {}
    lines = place.read_text("utf-8", "surrogateescape").splitlines()
    rows = (line.split(" ") for line in lines if line[:1] not in "#^")
    return {row[1]: row[0] for row in rows if len(row) == 2}


def read_stashes(log: Path, ref: Path) -> list[str]:
    """Return the stashed commits: the entries of the stash's log, and the newest by ref. Raises OSError."""
    lines = log.read_text("utf-8", "replace").splitlines() if log.is_file() and not log.is_symlink() else []
    names = [*(row[1] for line in lines if len(row := line.split(" ", 2)) > 2), read_ref_file(ref)]
    return list(dict.fromkeys(filter(OBJECT_NAME.fullmatch, names)))


class GitChanges:
    """Changes of a command to git's folder: `upper` took the writes, `common` is the real folder.

    `worktree_folder` is the git folder of the command's worktree, relative to `common`: empty for the main worktree.
    Methods raise OSError, GitError.
    """

    def __init__(self, upper: Path, common: Path, changes: Sequence[StagedChange], worktree_folder: str = "") -> None:
        self.upper = upper
        self.common = common
        self.worktree_folder = worktree_folder
        self.layered = LayeredGit(upper, common)
        self.emptied = [c for c in changes if self.is_emptied_folder(c)]
        """Folders of ended operations and of refs that are gone, deepest first."""
        found = [c for c in changes if c.kind != "folder" and not self.is_ignorable(c)]
        self.has_settings_change = any(c.path == SETTINGS_FILE and c.kind == "file" for c in found)
        """Whether the command changed the repository's settings; only upstream settings may come over."""
        self.alternates = [c.path for c in changes if ALTERNATES_PATH.fullmatch(c.path)]
        """Lists of other repositories to read objects from, which no command may write."""
        self.remit_changes = [c for c in found if REMIT_REF_PATH.fullmatch(c.path)]
        self.changes = [c for c in found if c not in self.remit_changes and c.path != SETTINGS_FILE]
        self.paths = {c.path for c in self.changes}

    def is_ignorable(self, change: StagedChange) -> bool:
        if change.kind == "gone":  # git removes empty folders, and lists removed files separately
            return change.path.startswith("objects/") or (self.common / change.path).is_dir()
        return change.kind in SPECIAL_KINDS or REGENERATED_FILES.fullmatch(change.path) is not None

    def is_emptied_folder(self, change: StagedChange) -> bool:
        is_gone = change.kind == "gone" and EMPTIED_FOLDER.fullmatch(change.path) is not None
        own = change.path.startswith((*OWN_REFS, *(f"logs/{ref}" for ref in OWN_REFS)))
        return is_gone and not own and self.is_in_reach(change.path) and (self.common / change.path).is_dir()

    @LazyProperty
    def ref_moves(self) -> list[RefMove]:
        """Refs with a new target, without Remit's own."""
        loose = {c.path: c for c in self.changes if REF_PATH.fullmatch(c.path)}
        before = read_packed_refs(self.common / PACKED_REFS)
        after = read_packed_refs(self.upper / PACKED_REFS) if PACKED_REFS in self.paths else before
        names = {*loose, *(name for name in {*before, *after} if before.get(name) != after.get(name))}
        found: list[RefMove] = []
        for name in sorted(name for name in names if not REMIT_REF_PATH.fullmatch(name)):
            old = read_ref_file(self.common / name) or before.get(name, "")
            change = loose.get(name)
            new = ""
            if change is None or change.kind == "file":
                new = read_ref_file((self.common if change is None else self.upper) / name)
            new = new or after.get(name, "")
            if old != new:
                found.append(RefMove(name, old, new))
        return found

    def find_objection(self) -> str | None:
        reasons = ((c.path, self.find_change_objection(c)) for c in self.changes)
        return next((f"{path}: {reason}" for path, reason in reasons if reason is not None), None)

    def order_changes(self) -> list[StagedChange]:
        """Return the changes in a safe order: targets before the refs that name them."""

        def rank(path: str) -> int:
            if path.startswith("objects/"):
                return 0
            return 2 if REF_PATH.fullmatch(path) else 3 if HEAD_PATH.fullmatch(path) else 1

        return sorted(self.changes, key=lambda c: (rank(c.path), c.path))

    def valid_objects(self) -> list[StagedChange]:
        found = [c for c in self.order_changes() if c.kind == "file" and OBJECT_PATH.fullmatch(c.path)]
        return [] if any(self.find_change_objection(c) for c in found) else found

    def worktree_path(self, name: str) -> str:
        return f"{self.worktree_folder}/{name}".lstrip("/")

    def path_after(self, path: str) -> Path:
        return self.upper / path if path in self.paths else self.common / path

    def is_real_object(self, name: str) -> bool:
        return bool(Git(self.common).text("rev-parse", "--verify", "--quiet", f"{name}^{{object}}", ok=(0, 1, 128)))

    @property
    def index(self) -> Path | None:
        """The changed index of the command's worktree; None if unchanged."""
        name = self.worktree_path("index")
        return self.upper / name if name in self.paths else None

    def list_tips(self) -> dict[str, str]:
        """Return commits with a new name, by name; also those that stopped merges and rebases continue with."""
        found = {m.name: m.new for m in self.ref_moves if m.is_branch_or_tag and OBJECT_NAME.fullmatch(m.new)}
        head_path = self.worktree_path("HEAD")
        if head_path in self.paths and OBJECT_NAME.fullmatch(head := read_ref_file(self.upper / head_path)):
            found["HEAD"] = head
        for path in sorted(self.paths):
            if IN_PROGRESS_FILE.fullmatch(path) or REBASE_STEPS_FILE.fullmatch(path):
                text = read_ref_file(self.upper / path)
                found |= {f"{path} {match.start()}": match[0] for match in OBJECT_NAME.finditer(text)}
                short = (m for m in map(SHORT_STEP.match, text.splitlines()) if m is not None)
                found |= {f"{path} {m[1]}": self.layered.output("rev-parse", m[1]).decode().strip() for m in short}
        return found

    def list_new_stashes(self) -> dict[str, str]:
        new = [name for name in self.stashes_after if name not in self.stashes_before]
        return {f"{STASH_REF} {at}": name for at, name in enumerate(new)}

    @LazyProperty
    def stashes_before(self) -> list[str]:
        return read_stashes(self.common / "logs" / STASH_REF, self.common / STASH_REF)

    @LazyProperty
    def stashes_after(self) -> list[str]:
        gone = {c.path for c in self.changes if c.kind == "gone"}
        log, ref = (
            self.path_after(path) if path not in gone else Path("/dev/null")
            for path in (f"logs/{STASH_REF}", STASH_REF)
        )
        return read_stashes(log, ref)

    def list_waiting_patches(self) -> list[str]:
        """Return the paths changed by the patches that a stopped `git am` still has to apply."""
        found: list[str] = []
        for path in sorted(path for path in self.paths if PATCH_FILE.fullmatch(path)):
            patch = (self.upper / path).read_bytes() if (self.upper / path).is_file() else b""
            out = self.layered.output("apply", "--numstat", "-z", stdin=patch) if patch else b""
            found += [os.fsdecode(row.rpartition(b"\t")[2]) for row in out.split(b"\0")[:-1]]
            found += [os.fsdecode(name) for name in RENAMED_FROM.findall(patch)]
        return found

    def find_change_objection(self, change: StagedChange) -> str | None:
        """Return why a change is refused; None if accepted."""
        path, upper = change.path, self.upper / change.path
        if not self.is_in_reach(path):
            return "it belongs to another work tree"
        if REF_PATH.fullmatch(path) or path == PACKED_REFS:
            if change.kind == "file" and path != PACKED_REFS and BAD_REF_NAME.search(path):
                return "git allows no such name"
            return None if change.kind in ("file", "gone") else f"it became a {change.kind}"
        if change.kind == "gone":
            # A log goes with its ref, and files of a finished operation go.
            if LOG_PATH.fullmatch(path) and path != self.worktree_path("logs/HEAD"):
                name = path.partition("logs/")[2]
                may_go = path == f"logs/{STASH_REF}" or any(
                    move.name == name and not move.new for move in self.ref_moves
                )
            else:
                may_go = WORKTREE_FILE.fullmatch(path) is not None and path != self.worktree_path("index")
            return None if may_go else "it was taken away"
        if change.kind != "file":
            return f"it became a {change.kind}"
        if large := STORED_LARGE_FILE.fullmatch(path):
            return None if (hash_file(upper) or ("",))[0] == large[1] else "a large file is not what its name says"
        if OBJECT_PATH.fullmatch(path):
            return "an object was rewritten" if (self.common / path).exists() else self.find_object_objection(path)
        if REBASE_STEPS_FILE.fullmatch(path):
            if not all(map(REBASE_STEP.fullmatch, upper.read_text("utf-8").splitlines())):
                return "what is left of the rebase is more than commits to pick"
        elif STRATEGY_FILE.fullmatch(path) and upper.read_bytes().strip() not in STRATEGIES:
            return "the rebase names a program"
        elif (APPLY_OPTIONS_FILE.fullmatch(path) and not APPLY_OPTIONS.fullmatch(upper.read_bytes())) or (
            PICK_OPTIONS_FILE.fullmatch(path) and not PICK_OPTIONS.fullmatch(upper.read_bytes())
        ):
            return "what is left of the operation has an option that no agent may leave to a person"
        if WORKTREE_FILE.fullmatch(path) or HEAD_PATH.fullmatch(path):
            return None
        if LOG_PATH.fullmatch(path):
            return None if path == f"logs/{STASH_REF}" or self.is_log_extended(path) else "its past was rewritten"
        return "it is not a part of git's folder that a commit changes"

    def is_in_reach(self, path: str) -> bool:
        return SHARED_PATH.fullmatch(path) is not None or self.belongs_to_worktree(path)

    def belongs_to_worktree(self, path: str) -> bool:
        if path.startswith("worktrees/"):
            return self.worktree_folder != "" and path.startswith(f"{self.worktree_folder}/")
        is_of_main = (
            WORKTREE_FILE.fullmatch(path)
            or EMPTIED_FOLDER.fullmatch(path)
            or HEAD_PATH.fullmatch(path)
            or path == "logs/HEAD"
        )
        return not self.worktree_folder or not is_of_main

    def find_object_objection(self, path: str) -> str | None:
        """Return why an object differs from its name: git never checks, and would use the object for a later file."""
        place = self.upper / path
        if path.startswith("objects/pack/"):
            if not path.endswith(".idx"):
                return None if place.with_suffix(".idx").exists() else "a pack has no index"
            return None if is_whole_pack(self.layered, place) else "a pack does not hold what its index says"
        name = path.removeprefix("objects/").replace("/", "")
        known = NAME_BY_FILE.get(file_key(place))
        real = compute_object_name(place, len(name), MAX_OBJECT_BYTES)[0] if known is None else known
        return None if real == name else "an object is not what its name says, or too large"

    def is_log_extended(self, path: str) -> bool:
        old = self.common / path
        return not old.exists() or (self.upper / path).read_bytes().startswith(old.read_bytes())

    def new_log_lines(self, name: str = "HEAD") -> list[str]:
        """Return the lines that the command added to the log of HEAD, or of another ref."""
        path = self.log_path(name)
        if path not in self.paths or not (self.upper / path).is_file() or not self.is_log_extended(path):
            return []
        old = self.common / path
        size = old.stat().st_size if old.exists() else 0
        return (self.upper / path).read_bytes()[size:].decode("utf-8", "replace").splitlines()

    def log_path(self, name: str) -> str:
        return self.worktree_path("logs/HEAD") if name == "HEAD" else f"logs/{name}"

    def explain_forged_log(self, head: str) -> str | None:
        """Return why a log of a ref tells what never was; `head` is the commit of HEAD after the command.

        git writes a line when a ref gets a value: each line begins where the line before it ended, the last one ends at
        the value of the ref, and what it calls a commit is new.
        """
        after = {m.name: m.new for m in self.ref_moves if m.name.startswith(HEADS) and m.new} | {"HEAD": head}
        logs = [path.partition("logs/")[2] for path in sorted(self.paths) if LOG_PATH.fullmatch(path)]
        renamed = {line for c in self.changes if c.kind == "gone" for line in read_lines(self.common / c.path)}
        committed: dict[str, str] = {}
        for name in (name for name in logs if name == "HEAD" or name.startswith(HEADS)):
            lines = [LOG_LINE.fullmatch(line) for line in self.new_log_lines(name) if line not in renamed]
            end = after.get(name, read_ref_file(self.common / name))
            for at, line in enumerate(lines):
                if line is None or (at and (last := lines[at - 1]) and last["new"] != line["old"]):
                    return f"{self.log_path(name)}: a line that git did not write"
                if (line["message"] or "").startswith("commit"):
                    committed[line["new"]] = name
                    if line["new"] == line["old"] and not line["message"].startswith("commit (amend)"):
                        return f"{self.log_path(name)}: a commit that was not made"
            if lines and (last := lines[-1]) and end and last["new"] != end:
                return f"{self.log_path(name)}: a value that {name} did not have"
        query = "".join(f"{name}\n" for name in committed).encode()
        words = ("cat-file", "--batch-check=%(objectname) %(objecttype)")
        rows = Git(self.common).run(*words, stdin=query).decode().splitlines() if committed else []
        older = next((row.partition(" ")[0] for row in rows if not row.endswith(" missing")), None)
        return older and f"{self.log_path(committed[older])}: a commit that was there before"


def read_lines(place: Path) -> list[str]:
    is_plain = place.is_file() and not place.is_symlink()
    return place.read_text("utf-8", "replace").splitlines() if is_plain else []


# -- settings ------------------------------------------------------------------------------------------------


class GitSetting(Struct, frozen=True):
    """A setting; `value` is None if removed."""

    key: str
    value: str | None


def has_plain_url(text: str) -> bool:
    """Return whether git fetches from a place by a protocol of its own, and takes it for no option."""
    return bool(text) and not text.startswith("-") and "::" not in text and text.isprintable()


def resolve_submodule_url(url: str, base: str) -> str:
    """Return a URL of `.gitmodules`; one may be relative to the `base`. Source: git-submodule(1), read 2026-11."""
    while url.startswith(("./", "../")):
        step, _, url = url.partition("/")
        if step == "..":
            base = base.rstrip("/")
            base = base[: max(base.rfind("/"), base.rfind(":"), 0)]
        if not url.startswith(("./", "../")):
            return f"{base.rstrip('/')}/{url}"
    return url


def split_changed_settings(
    common: Path,
    upper: Path,
    remotes: Collection[str],
    gone: Collection[str],
    submodules: Mapping[str, str],
    work_tree: Path | None = None,
) -> tuple[list[GitSetting], list[str]]:
    """Return the acceptable changed settings, and the keys of refused ones.

    Acceptable are settings that only name a branch's upstream, a known remote with a branch, and copies by `git
    submodule init` from `.gitmodules`. `remotes` come from the real settings, `gone` the branches removed by the
    command, `submodules` the URLs of the submodules by name. A submodule may name its `work_tree`, or none. Raises
    OSError.
    """
    before, after = list_settings(common / "config"), list_settings(upper / "config")
    changed = {key: after.get(key) for key in (*after, *before) if before.get(key) != after.get(key)}
    if not any(TRACKING_KEY.fullmatch(key) for key in changed.keys() & before.keys()):
        remotes = {*remotes, "."}
    own: list[GitSetting] = []
    for key, value in changed.items():
        module = SUBMODULE_KEY.fullmatch(key)
        if module is not None and module["submodule"] in submodules:
            url = submodules[module["submodule"]]
            if value is None or value == (url if module["name"] == "url" else "true"):
                own.append(GitSetting(key, value))
        if (key, value) == LARGE_FILES_SETTING:
            own.append(GitSetting(key, value))
        is_tree = value is None or os.path.normpath(common / value) == str(work_tree)
        if key == "core.worktree" and work_tree is not None and is_tree:
            own.append(GitSetting(key, value))
        match = TRACKING_KEY.fullmatch(key)
        if match is None:
            continue
        if value is None:
            is_tracking = match["branch"] in gone
        elif match["name"] == "remote":
            is_tracking = value in remotes
        elif match["name"] == "merge":
            is_tracking = BRANCH_NAME.fullmatch(value) is not None
        else:
            is_tracking = value in ("true", "false", "merges")
        if is_tracking:
            own.append(GitSetting(key, value))
    return own, sorted(changed.keys() - {setting.key for setting in own})


def write_tracking_settings(common: Path, settings: Iterable[GitSetting]) -> None:
    git = Git(common)
    for setting in settings:
        words = ("--unset-all", setting.key) if setting.value is None else ("--replace-all", setting.key, setting.value)
        git.run("config", "--file", str(common / "config"), *words, ok=(0, 5))
