"""`remit blame`: git says which version a line came with, Remit says who wrote what that version added."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from remit.core.contents import count_lines, git_blob
from remit.core.record import KEY
from remit.ledger.index import Index
from remit.provenance.origins import Recorded, Step, label, path_to
from remit.workspace.contents import ContentStore
from remit.workspace.git import Git, GitError
from remit.workspace.place import Workspace

UNCOMMITTED = re.compile(r"0{40,64}")
LINES = re.compile(r"-L(\d+),(\d+)")
HEADER = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)(?: (\d+))?$")


class BlamedLine(Struct, frozen=True):
    """One line of the file: the shape of contracts §9. `line` is 1-based; `grade` is the strength of the evidence."""

    line: int
    content: str
    commit: str
    origin: Literal["ai", "human", "mixed", "unknown"] = "unknown"
    agent: str | None = None
    model: str | None = None
    session_id: str | None = None
    intent_id: str | None = None
    mutation_class: str | None = None
    grade: str | None = None
    record: str | None = None


class Place(Struct, frozen=True):
    """Where git says a line came from: a version of a file, the version before it, and the line there."""

    commit: str
    path: str
    previous: str | None
    """`<commit> <path>` of the version before; None where there was none."""


class GitLine(Struct, frozen=True):
    """One line of `git blame --porcelain`. `number` is in the version, `line` in the file asked about."""

    place: Place
    number: int
    line: int
    content: bytes


class Blamer:
    """Blame in one workspace."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        self.workspace = workspace
        self.index = index
        self.store = store
        self.git = Git(workspace.root)
        self.working: dict[str, bytes] = {}
        """The content of the working tree, by its git name: it may be in no object store yet."""

    def blame(self, path: str, arguments: Sequence[str] = ()) -> list[BlamedLine]:
        """Each line of `path` with its origin. `arguments` are git blame's own. Raises GitError."""
        found = self.git_lines(path, arguments)
        labels = {place: self.labels(place) for place in dict.fromkeys(line.place for line in found)}
        records = self.records(name for names in labels.values() for name in names if name)
        return [self.blamed(line, labels[line.place], records) for line in found]

    def git_lines(self, path: str, arguments: Sequence[str]) -> list[GitLine]:
        """The lines by git, or those of a file that no commit has. Raises GitError."""
        try:
            return read_porcelain(self.git.run("blame", "--porcelain", *arguments, "--", path))
        except GitError:
            fresh = self.fresh_lines(path, arguments)
            if fresh is None:
                raise
            return fresh

    def fresh_lines(self, path: str, arguments: Sequence[str]) -> list[GitLine] | None:
        """The lines of a file that is in no commit yet; None where that is not so, or other than lines was asked."""
        wanted = [LINES.fullmatch(argument) for argument in arguments]
        file = self.workspace.root / path
        known = file.is_symlink() or not file.is_file() or self.resolved(f"HEAD:{path}") is not None
        if known or None in wanted:
            return None
        texts = file.read_bytes().split(b"\n")
        texts = texts[:-1] if not texts[-1] else texts
        spans = [(int(w[1]), int(w[2])) for w in wanted if w] or [(1, len(texts))]
        place = Place("0" * 40, path, None)
        numbered = enumerate(texts, 1)
        return [GitLine(place, n, n, text) for n, text in numbered if any(low <= n <= high for low, high in spans)]

    def labels(self, place: Place) -> list[str | None]:
        """The record that added each line of that version."""
        recorded = [
            Recorded(m.seq, m.id, m.before_blob, m.after_blob)
            for m in self.index.mutations_of(place.path)
            if m.after_blob is not None
        ]
        version, parent = self.blob_of(place), self.parent_blob(place)
        steps = path_to(version, parent, recorded) if version and recorded else ()
        return self.labelled(steps)

    def labelled(self, steps: Sequence[Step]) -> list[str | None]:
        """Walk the steps; nothing is said where one of their contents is not at hand."""
        names = {name for s in steps for name in (s.before, s.after) if name}
        contents = {**self.store.load_many(names), **self.working}
        if not names <= set(contents):
            return []
        texts: dict[str | None, bytes] = {None: b"", **contents}
        pairs = {f"{s.before}:{s.after}": (texts[s.before], texts[s.after]) for s in steps}
        hunks = self.store.hunks(pairs)
        lines = {name: count_lines(text) for name, text in texts.items()}
        return label(steps, lines, lambda before, after: hunks[f"{before}:{after}"])

    def blob_of(self, place: Place) -> str | None:
        """The git name of that version's content."""
        if not UNCOMMITTED.fullmatch(place.commit):
            return self.resolved(f"{place.commit}:{place.path}")
        file = self.workspace.root / place.path
        if not file.is_file():
            return None
        content = file.read_bytes()
        name = git_blob(content)
        self.working[name] = content
        return name

    def parent_blob(self, place: Place) -> str | None:
        """The git name of the content before that version."""
        if place.previous is None:
            return None
        commit, _, path = place.previous.partition(" ")
        return self.resolved(f"{commit}:{path}")

    def resolved(self, name: str) -> str | None:
        """The object of that name."""
        return self.git.text("rev-parse", "--verify", "--quiet", name, ok=(0, 1, 128)) or None

    def records(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The records of those ids."""
        return {name: documents[0] for name in set(names) if (documents := self.index.by_id(name))}

    def blamed(self, line: GitLine, labels: list[str | None], records: dict[str, dict[str, Any]]) -> BlamedLine:
        """One line with what is known of it."""
        name = labels[line.number - 1] if line.number <= len(labels) else None
        content = line.content.decode("utf-8", "replace")
        document = records.get(name) if name else None
        if name is None or document is None:
            return BlamedLine(line.line, content, line.place.commit)
        body: dict[str, Any] = document["metadata"][KEY]
        if body.get("event") == "human_edit":
            return BlamedLine(line.line, content, line.place.commit, record=name)
        return BlamedLine(
            line=line.line,
            content=content,
            commit=line.place.commit,
            origin="ai",
            agent=document.get("tool", {}).get("name"),
            model=model_of(document),
            session_id=body.get("session_id"),
            intent_id=body.get("intent_id"),
            mutation_class=body.get("mutation_class", {}).get("computed"),
            grade="exact",
            record=name,
        )


def model_of(document: dict[str, Any]) -> str | None:
    """The model that a mutation record names."""
    files: list[dict[str, Any]] = document.get("files", [])
    for file in files:
        for conversation in file.get("conversations", []):
            model = conversation.get("contributor", {}).get("model_id")
            if model:
                return str(model)
    return None


def read_porcelain(out: bytes) -> list[GitLine]:
    """The lines of `git blame --porcelain`. Source: git-blame(1), read 2026-11.

    A commit is described once, and again where lines of it come from another file: then `previous`, if any, stands
    before `filename`.
    """
    about: dict[str, tuple[str, str | None]] = {}
    found: list[GitLine] = []
    commit, number, line = "", 0, 0
    previous: str | None = None
    for raw in out.split(b"\n"):
        header = HEADER.match(raw)
        if raw.startswith(b"\t"):
            found.append(GitLine(Place(commit, *about[commit]), number, line, raw[1:]))
        elif header:
            commit, number, line, previous = header[1].decode(), int(header[2]), int(header[3]), None
        elif raw:
            key, _, value = raw.decode("utf-8", "surrogateescape").partition(" ")
            if key == "previous":
                previous = value
            elif key == "filename":
                about[commit] = (value, previous)
    return found
