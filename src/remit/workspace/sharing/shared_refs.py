"""Refs that Remit shares through remotes: authorship notes, a blob per commit, and logs, `refs/remit/log/<machine>`.

HEAD, index and work tree stay untouched. The tree of notes is always `ab/cdef…`: mixed depths make some versions of
`git notes merge` fail. A log's ref has a single writer and moves only forward; its commit holds the segments of the log
as plain files. Tree heads in shared logs, in refs or tracked files, are a witness that outlives the state folder.
Source: git-notes(1), git-fast-import(1), git-fetch(1), read 2026-11.
"""

import hashlib
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from remit.core.formats.authorship_notes import InvalidNote, merge_notes, parse_note, write_note
from remit.core.redaction import redact
from remit.core.untrusted_input import sanitise_line
from remit.workspace.git.command import TIMEOUT_S, Git, GitError
from remit.workspace.git.repository import NOTES_REF, may_have_ref, parse_batch_output
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER, Workspace
from remit.workspace.processes.reaper import above_words
from remit.workspace.sharing.tracked_logs import folder_unreadable_reason, unreadable_reason

TRACKING_REFS = "refs/remit/notes"
LOG_REFS = "refs/remit/log/"
MAX_NOTE_BYTES = 64 << 20  # limit per note; the largest real note seen has 3.2 MB; larger notes are not read
MAX_TRIES = 24
RETRY_PAUSE_S = 0.05
BATCH_BYTES = 32 * 1024 * 1024

NETWORK_OPTIONS = tuple(
    part for name in ("file", "git", "ssh", "http", "https") for part in ("-c", f"protocol.{name}.allow=always")
)
"""Options that allow the network on a person's request, except `ext::`, which runs a program."""

FETCH_OPTIONS = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--refmap=")
PULL_REQUEST_PATTERNS = ("refs/pull/*/head", "refs/merge-requests/*/head")
PULL_REQUEST_REF = re.compile(r"refs/(?:pull|merge-requests)/([0-9]{1,9})/head")
"""Refs that forges keep of a pull request's last commit. Source: GitHub's and GitLab's documentation, read 2026-11."""
PUSH_OPTIONS = ("--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--no-signed")
IMPORT_WORDS = ("fast-import", "--quiet", "--done", "--date-format=now")
TREE_HEAD_GREP = (
    *("-c", "grep.lineNumber=false", "-c", "grep.column=false", "-c", "grep.patternType=default"),
    *("grep", "-h", "-F", "--no-color", "-a", "-e", '"event":"tree_head"'),
)

NotesByCommit = Mapping[str, bytes]
NotePlaces = list[tuple[str, str]]  # path and blob of a commit's notes in the notes tree


class NotesBusy(RuntimeError):
    """Other writers kept changing the notes, or left a lock."""

    def __init__(self, ref: str) -> None:
        super().__init__(
            f"{ref!r} could not be written in {MAX_TRIES} tries: somebody else writes it, or left a lock"
            "\nhint: try again; where no git runs, delete the file `.git/refs/notes/ai.lock`"
        )


class UnknownRemote(ValueError):
    """Neither a remote nor its address."""

    def __init__(self, remote: str) -> None:
        super().__init__(f"{remote!r} is no remote; expected a name from `git remote`, or a URL")


class RemoteAway(RuntimeError):
    """A remote that did not answer, or not in time: what was asked is tried again."""

    def __init__(self, remote: str, error: GitError) -> None:
        words = sanitise_line(redact(" ".join(error.message.split())), 300)
        super().__init__(f"the remote {remote!r} does not answer ({words}); see `git ls-remote {remote}` on this host")


class SharedLogDiffers(RuntimeError):
    """The shared log is not a prefix of the log: the log was cut, or a different clone writes under its name."""

    def __init__(self, ref: str, name: str) -> None:
        super().__init__(
            f"{ref!r} holds {name!r} with other content than this log\n"
            "hint: another clone of this repository on this machine may have shared its own log; nothing was changed"
        )


class SharedRefs:
    """Refs in git that are exchanged with remotes, each exchange within `limit_s`. Methods raise GitError."""

    def __init__(self, workspace: Workspace, limit_s: float = TIMEOUT_S) -> None:
        self.workspace = workspace
        self.limit_s = limit_s
        self.git = Git(workspace.root)

    def read_tip(self, ref: str = NOTES_REF) -> str | None:
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        return self.git.text(*words, ok=(0, 1, 128)) or None

    def is_ancestor(self, one: str, of: str) -> bool:
        try:
            self.git.run("merge-base", "--is-ancestor", one, of)
        except GitError as error:
            if error.code != 1:
                raise
            return False
        return True

    def list_remote_refs(self, remote: str, *patterns: str) -> dict[str, str]:
        words = ("ls-remote", "--refs", "--", check_remote_name(remote), *patterns)
        lines = self.run_over_network(*words).decode("utf-8", "replace").splitlines()
        return {ref: name for name, _, ref in (line.partition("\t") for line in lines)}

    def run_over_network(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> bytes:
        return run_over_network(self.git, *arguments, ok=ok, limit_s=self.limit_s)


def run_over_network(git: Git, *arguments: str, ok: tuple[int, ...] = (0,), limit_s: float = TIMEOUT_S) -> bytes:
    """Run git on a remote, which may hang: git and its transport end with this process. Raises GitError."""
    above = above_words(()) if sys.platform == "linux" else ()
    try:
        return git.run(*NETWORK_OPTIONS, *arguments, ok=ok, above=above, limit_s=limit_s)
    except GitError as error:
        raise GitError(arguments, error.code, error.message) from error


def check_remote_name(remote: str) -> str:
    """Return the remote. Raises UnknownRemote for a name that git would read as an option."""
    if not remote or remote.startswith("-") or "\n" in remote:
        raise UnknownRemote(remote)
    return remote


# -- authorship notes ----------------------------------------------------------------------------------------


class SyncResult(Struct, frozen=True):
    """Result of an exchange with a remote. `unread` are commits with two notes that could not be merged: ours stays."""

    received: int = 0
    pushed: bool = False
    unread: tuple[str, ...] = ()


class NotesRef(SharedRefs):
    """The notes of a repository."""

    def may_have_notes(self) -> bool:
        """Return whether notes may exist, without starting git."""
        return may_have_ref(self.workspace.common_dir, NOTES_REF)

    def read_notes(self, commits: Iterable[str], tip: str = NOTES_REF) -> dict[str, bytes]:
        """Return the notes of the commits, with two git processes for any number."""
        # Remit's depth first, then git's other depths.
        query = [
            (commit, f"{tip}:{path}")
            for commit in dict.fromkeys(commits)
            for path in (note_path(commit), commit, f"{commit[:2]}/{commit[2:4]}/{commit[4:]}")
        ]
        if not query:
            return {}
        names = "".join(f"{name}\n" for _, name in query).encode()
        out = self.git.run("cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname)", stdin=names)
        rows = [line.split(" ") for line in out.decode("ascii", "replace").splitlines()]
        blobs = {
            commit: row[2]
            for (commit, _), row in zip(query, rows, strict=True)
            if row[0] == "blob" and len(row) == 3 and int(row[1]) <= MAX_NOTE_BYTES
        }
        wanted = list(dict.fromkeys(blobs.values()))
        stdin = "".join(f"{name}\n" for name in wanted).encode()
        out = self.git.run("cat-file", "--batch", stdin=stdin) if wanted else b""
        contents = dict(zip(wanted, parse_batch_output(out), strict=True))
        return {commit: found for commit, blob in blobs.items() if (found := contents[blob]) is not None}

    def find_present_commits(self, names: Iterable[str]) -> set[str]:
        """Return those of the names that are commits here: shallow clones and gc drop some."""
        wanted = list(names)
        question = "".join(f"{name}\n" for name in wanted).encode()
        output = self.git.run("cat-file", "--batch-check=%(objecttype)", stdin=question) if wanted else b""
        return {name for name, kind in zip(wanted, output.splitlines(), strict=True) if kind == b"commit"}

    def fetch_pull_requests(
        self, remote: str, numbers: Collection[str], noted: Collection[str], max_count: int
    ) -> dict[str, str]:
        """Return the last commits of pull requests by number, as far as they are here; those with one of the numbers,
        or whose last commit is one of the noted, are fetched first, without a ref. Raises UnknownRemote.
        """
        listed = self.list_remote_refs(remote, *PULL_REQUEST_PATTERNS)
        tips = {int(match[1]): (ref, tip) for ref, tip in listed.items() if (match := PULL_REQUEST_REF.fullmatch(ref))}
        wanted = {n: (ref, tip) for n, (ref, tip) in tips.items() if str(n) in numbers or tip in noted}
        present = self.find_present_commits({tip for _, tip in wanted.values()})
        newest = sorted((n for n, (_, tip) in wanted.items() if tip not in present), reverse=True)[:max_count]
        if newest:
            self.run_over_network("fetch", *FETCH_OPTIONS, "--", remote, *(wanted[n][0] for n in newest))
            present |= {wanted[n][1] for n in newest}
        return {str(n): tip for n, (_, tip) in wanted.items() if tip in present}

    def list_notes(self, tip: str | None) -> dict[str, NotePlaces]:
        """Return path and blob of each note of a tree, by commit; several if depths are mixed."""
        found: dict[str, NotePlaces] = {}
        out = self.git.text("ls-tree", "--full-tree", "-r", "-z", tip) if tip else ""
        for row in out.split("\0")[:-1]:
            about, _, path = row.partition("\t")
            commit = path.replace("/", "")
            if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit) and about.split(" ")[1] == "blob":
                found.setdefault(commit, []).append((path, about.split(" ")[2]))
        return found

    def update_notes(self, commits: Iterable[str], change: Callable[[NotesByCommit], NotesByCommit]) -> int:
        """Replace the notes by the result of `change`, asked again after a concurrent write. Raises NotesBusy."""
        query = tuple(commits)
        for _ in range(MAX_TRIES):
            tip = self.read_tip()
            listed = self.list_notes(tip)
            noted = [commit for commit in query if commit in listed]
            known = self.read_notes(noted, tip) if tip and noted else {}
            fresh = {commit: text for commit, text in change(known).items() if known.get(commit) != text}
            if not fresh or self.write_commit(fresh, tip, listed):
                return len(fresh)
            time.sleep(RETRY_PAUSE_S)
        raise NotesBusy(NOTES_REF)

    def write_commit(
        self, fresh: NotesByCommit, tip: str | None, listed: Mapping[str, NotePlaces], other: str | None = None
    ) -> bool:
        """Commit notes on `tip` and `other`, moving those `listed` in the tip at other depths; return False if the ref
        moved meanwhile.
        """
        stream = [f"commit {NOTES_REF}\ncommitter Remit <remit@localhost> now\ndata 15\nNotes by Remit\n".encode()]
        stream += [f"{word} {name}\n".encode() for word, name in (("from", tip), ("merge", other)) if name]
        for commit, places in listed.items():
            path = note_path(commit)
            astray = [place for place, _ in places if place != path]
            stream += [f"D {place}\n".encode() for place in astray]
            if len(astray) == len(places) and commit not in fresh:
                stream.append(f"M 100644 {places[0][1]} {path}\n".encode())
        for commit, text in sorted(fresh.items()):
            stream.append(f"M 100644 inline {note_path(commit)}\ndata {len(text)}\n".encode() + text + b"\n")
        return self.try_to_move(tip, *IMPORT_WORDS, stdin=b"".join([*stream, b"done\n"]))

    def try_to_move(self, tip: str | None, *words: str, stdin: bytes = b"") -> bool:
        try:
            self.git.run(*words, stdin=stdin)
        except GitError as error:
            if self.read_tip() == tip and "cannot lock ref" not in error.message:
                raise
            return False
        return True

    def sync_remote(self, remote: str, *, push: bool) -> SyncResult:
        """Fetch a remote's notes, and push ours with `push`, never by force. Raises NotesBusy, UnknownRemote."""
        received: set[str] = set()
        unread: set[str] = set()
        for _ in range(MAX_TRIES):
            theirs, tip = self.fetch_notes(remote), self.read_tip()
            if theirs and theirs != tip:
                merged = self.merge_notes(tip, theirs, unread)
                if merged is None:
                    continue
                received |= merged
                tip = self.read_tip()
            is_pushed = push and tip not in (theirs, None)
            if not is_pushed or self.push_notes(remote, str(tip)):
                return SyncResult(len(received), is_pushed, tuple(sorted(unread)))
            time.sleep(RETRY_PAUSE_S)
        raise NotesBusy(f"{remote}: {NOTES_REF}")

    def fetch_notes(self, remote: str) -> str | None:
        """Fetch the remote's notes; None if the remote has none."""
        if NOTES_REF not in self.list_remote_refs(remote, NOTES_REF):
            return None
        is_plain = re.fullmatch(r"[A-Za-z0-9_-]{1,80}", remote) is not None
        ref = f"{TRACKING_REFS}/{remote if is_plain else hashlib.sha256(remote.encode()).hexdigest()[:16]}"
        self.run_over_network("fetch", *FETCH_OPTIONS, "--", remote, f"+{NOTES_REF}:{ref}")
        return self.read_tip(ref)

    def merge_notes(self, tip: str | None, theirs: str, unread: set[str]) -> set[str] | None:
        """Merge both sides; return the commits with a changed note, None if the ref moved. `unread` takes the rest."""
        if tip and self.is_ancestor(theirs, tip):
            return set()
        ours, other = self.list_notes(tip), self.list_notes(theirs)
        differing = {commit for commit, places in other.items() if ours.get(commit, [("", "")])[0][1] != places[0][1]}
        if tip is None or self.is_ancestor(tip, theirs):
            words = ("update-ref", "-m", "notes fetched by Remit", NOTES_REF, theirs, tip or "0" * len(theirs))
            return differing if self.try_to_move(tip, *words) else None
        mine, read = self.read_notes(differing, tip), self.read_notes(differing, theirs)
        fresh: dict[str, bytes] = {}
        unread |= differing - read.keys()
        for commit, text in read.items():
            try:
                if commit in mine:
                    text = write_note(
                        merge_notes(parse_note(mine[commit].decode()), parse_note(text.decode()))
                    ).encode()
            except (InvalidNote, UnicodeError):
                unread.add(commit)
                continue
            if text != mine.get(commit):
                fresh[commit] = text
        return set(fresh) if self.write_commit(fresh, tip, ours, theirs) else None

    def push_notes(self, remote: str, tip: str) -> bool:
        try:
            self.run_over_network("push", *PUSH_OPTIONS, "--", remote, f"{tip}:{NOTES_REF}")
        except GitError:
            theirs = self.fetch_notes(remote)
            if theirs is None or self.is_ancestor(theirs, tip):
                raise
            return False
        return True


def note_path(commit: str) -> str:
    return f"{commit[:2]}/{commit[2:]}"


# -- logs ----------------------------------------------------------------------------------------------------


class LogPart(Struct, frozen=True):
    """A file of the shared log. `content` reads the file, which begins with any part shared earlier."""

    name: str
    size: int
    content: Callable[[], bytes]


class SharedLog(Struct, frozen=True):
    """Result of writing a log's ref. `absent` are parts pruned before they were ever shared."""

    ref: str
    tip: str
    files: int
    fresh: int
    absent: tuple[str, ...] = ()


class FetchedLogs(Struct, frozen=True):
    """The logs of a remote. `refused` were not fetched: the local log is not a prefix."""

    logs: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class LogRefs(SharedRefs):
    """Logs shared as refs."""

    def list_files(self, tip: str | None) -> dict[str, tuple[str, int]]:
        """Return blob and size of each file of a commit."""
        out = self.git.text("ls-tree", "--full-tree", "-z", "-l", tip) if tip else ""
        rows = (row.partition("\t") for row in out.split("\0") if row)
        about = [(path, words.split()) for words, _, path in rows]
        return {path: (words[2], int(words[3])) for path, words in about if words[1] == "blob"}

    def write_ref(self, machine: str, parts: Sequence[LogPart], absent: Sequence[str]) -> SharedLog:
        """Add new or longer parts to this machine's ref. Raises SharedLogDiffers."""
        ref = LOG_REFS + machine
        tip = self.read_tip(ref)
        known = self.list_files(tip)
        named = {part.name: part for part in parts}
        for name, (blob, size) in known.items():
            part = named.get(name)
            if part is None:
                if name not in absent:
                    raise SharedLogDiffers(ref, name)
            elif part.size < size or (name == max(known) and git_blob_name(part.content()[:size], len(blob)) != blob):
                raise SharedLogDiffers(ref, name)
        fresh = [part for part in parts if part.name not in known or known[part.name][1] < part.size]
        waiting = list(fresh)
        while waiting:
            # As many parts as fit into memory, at least one. fast-import moves refs only forward.
            head = f"commit {ref}\ncommitter Remit <remit@localhost> now\ndata 12\nLog by Remit\n"
            stream = [head.encode(), f"from {tip}\n".encode() if tip else b""]
            batch = [waiting.pop(0)]
            while waiting and sum(part.size for part in (*batch, waiting[0])) <= BATCH_BYTES:
                batch.append(waiting.pop(0))
            for part in batch:
                content = part.content()
                stream += [f"M 100644 inline {part.name}\ndata {len(content)}\n".encode(), content, b"\n"]
            self.git.run(*IMPORT_WORDS, stdin=b"".join([*stream, b"done\n"]))
            tip = self.read_tip(ref)
        missing = tuple(name for name in absent if name not in known)
        return SharedLog(ref, tip or "", len(known.keys() | named.keys()), len(fresh), missing)

    def push_log(self, remote: str, ref: str, tip: str) -> None:
        """Push this machine's log; never forces. Raises UnknownRemote."""
        self.run_over_network("push", *PUSH_OPTIONS, "--", check_remote_name(remote), f"{tip}:{ref}")

    def fetch_logs(self, remote: str, machine: str) -> FetchedLogs:
        """Fetch the logs of other machines. Raises UnknownRemote."""
        theirs = self.list_remote_refs(remote, f"{LOG_REFS}*")
        machines = sorted(
            name
            for name in (ref.removeprefix(LOG_REFS) for ref in theirs)
            if re.fullmatch(r"[0-9a-f]{12}", name) and name != machine
        )
        if not machines:
            return FetchedLogs()
        specs = [f"{LOG_REFS}{name}:{LOG_REFS}{name}" for name in machines]
        self.run_over_network("fetch", *FETCH_OPTIONS, "--", remote, *specs, ok=(0, 1))
        taken = [name for name in machines if self.has_commit(LOG_REFS + name, theirs[LOG_REFS + name])]
        return FetchedLogs(tuple(taken), tuple(name for name in machines if name not in taken))

    def has_commit(self, ref: str, commit: str) -> bool:
        try:
            return self.is_ancestor(commit, ref)
        except GitError:
            return False

    def read_log(self, machine: str, max_bytes: int) -> bytes:
        found: list[bytes] = []
        for name, (blob, size) in sorted(self.list_files(self.read_tip(LOG_REFS + machine)).items()):
            if re.fullmatch(r"[0-9]{12}\.jsonl", name):
                max_bytes -= size
                if max_bytes < 0:
                    break
                found.append(self.git.run("cat-file", "blob", blob))
        return b"".join(found)


def git_blob_name(content: bytes, digits: int) -> str:
    digest = hashlib.sha1 if digits == 40 else hashlib.sha256
    return digest(b"blob %d\0" % len(content) + content).hexdigest()


# -- tree heads ----------------------------------------------------------------------------------------------


def find_shared_head_lines(workspace: Workspace) -> Iterator[tuple[bytes, str]]:
    """Yield lines of `tree_head` records in shared logs, with the ref; any file of its tree may hold them."""
    if workspace.common_dir is None:
        return
    git = Git(workspace.root)
    for ref in git.text("for-each-ref", "--format=%(refname)", LOG_REFS).splitlines():
        # A foreign object without a tree holds no log.
        if git.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{tree}}", ok=(0, 1, 128)):
            yield from ((line, ref) for line in git.run(*TREE_HEAD_GREP, ref, "--", ":/", ok=(0, 1)).splitlines())


def find_tracked_head_lines(workspace: Workspace, name: str) -> Iterator[tuple[bytes, str]]:
    """Yield lines of `tree_head` records in the tracked log, on disk and in HEAD. Raises GitError, OSError."""
    path = f"{TRACKED_LOGS_FOLDER}/{name}"
    if folder_unreadable_reason(workspace.tracked_logs) is None and unreadable_reason(workspace.root / path) is None:
        lines = (workspace.root / path).read_bytes().splitlines()
        yield from ((line, path) for line in lines if TREE_HEAD_GREP[-1].encode() in line)
    if workspace.common_dir is not None:
        out = Git(workspace.root).run(*TREE_HEAD_GREP, "HEAD", "--", f":(literal){path}", ok=(0, 1, 128))
        yield from ((line, f"HEAD:{path}") for line in out.splitlines())
