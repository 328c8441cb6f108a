"""How much of what changed had been judged before it changed, as the ledger tells.

What a person wrote, and what git brought, needs no verdict: it is counted apart.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from remit.core.record import KEY
from remit.ledger.index.index import Index
from remit.provenance.origins.evidence import LIKELY
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.tracked_logs import is_shared_log_file

MAX_RECORDS = 5000
"""Records of each kind that are looked at, the newest first."""

NON_AGENT_ORIGINS = ("person", "git")
"""Origins of changes that no agent made."""

ANY_PATH = "*"
RecordPart: TypeAlias = Mapping[str, Any]


class CoverageShare(Struct, frozen=True):
    """Of `changed` files, all but the `ungoverned` ones had a verdict before each of their changes.

    `people` and `git` count files that only they changed.
    """

    changed: int = 0
    ungoverned: tuple[str, ...] = ()
    people: int = 0
    git: int = 0

    @property
    def covered_files(self) -> int:
        """How many files had one."""
        return self.changed - len(self.ungoverned)


class UngovernedChange(Struct, frozen=True):
    """One change of one file without a verdict before it. `writers` are in words: who wrote it, where the `grade` is
    *exact*; who likely did, where it is *likely*, as in blame; who may have, where there is none.
    """

    path: str
    at: str
    record: str
    operation: str
    session_id: str | None
    why: str
    writers: tuple[str, ...] = ()
    undone: bool = False
    grade: str | None = None


class Coverage(Struct, frozen=True):
    """Overall, and by session; changes that no session is known for stand under None.

    `changes` are those without a verdict, the newest first.
    """

    overall: CoverageShare
    sessions: dict[str | None, CoverageShare]
    changes: tuple[UngovernedChange, ...] = ()


def measure_coverage(
    index: Index, *, since: str | None = None, until: str | None = None, max_records: int = MAX_RECORDS
) -> Coverage:
    """The coverage of the newest changes in that time. The index has to be current."""

    def find_newest(event: str) -> list[dict[str, Any]]:
        return index.find(event=event, since=since, until=until, limit=max_records)

    found = [*find_newest("mutation"), *find_newest("human_edit")]
    undone = find_undone_paths(find_newest("restore"))
    bodies = [body_of(document) for document in found]
    by_session: dict[str | None, list[RecordPart]] = {}
    for body in bodies:
        by_session.setdefault(body.get("session_id"), []).append(body)
    listed = sorted(
        (one for document in found for one in ungoverned_changes(document, undone)), key=lambda o: o.at, reverse=True
    )
    return Coverage(
        measure_share(bodies), {session: measure_share(its) for session, its in by_session.items()}, tuple(listed)
    )


def body_of(document: RecordPart) -> RecordPart:
    """Remit's part of a record."""
    return document["metadata"][KEY]


def measure_share(bodies: Iterable[RecordPart]) -> CoverageShare:
    """The share of these records' files."""
    changed: set[str] = set()
    ungoverned: set[str] = set()
    others: dict[str, set[str]] = {origin: set() for origin in NON_AGENT_ORIGINS}
    for body in bodies:
        paths = {str(file["path"]) for file in body.get("files", [])}
        if body.get("origin") in others:
            others[body["origin"]] |= paths
            continue
        changed |= paths
        ungoverned |= set[str]() if body.get("covered") else paths
    people, git = others["person"] - changed, others["git"] - changed - others["person"]
    return CoverageShare(len(changed), tuple(sorted(ungoverned)), len(people), len(git))


def ungoverned_changes(document: RecordPart, undone: frozenset[tuple[str, str]]) -> Iterator[UngovernedChange]:
    """The files of a record that had no verdict before."""
    body = body_of(document)
    if body.get("covered") or body.get("origin") in NON_AGENT_ORIGINS:
        return
    call = body.get("call", {}).get("id", "")
    for file in body.get("files", []):
        path = str(file["path"])
        yield UngovernedChange(
            path,
            str(document["timestamp"]),
            str(document["id"]),
            str(file.get("operation", "")),
            body.get("session_id"),
            reason_ungoverned(body),
            tuple(possible_writers(body, path)),
            (call, path) in undone,
            grade_of_change(body, file),
        )


def grade_of_change(body: RecordPart, file: RecordPart) -> str | None:
    """How sure it is that the record's session made the change of that file, as blame grades the lines."""
    if body.get("event") != "mutation":
        return None
    if not file.get("unproved"):
        return "exact"
    return LIKELY if file.get("likely") else None


def reason_ungoverned(body: RecordPart) -> str:
    """Why the change had no verdict."""
    if body.get("event") == "human_edit":
        return "no call explains it"
    if not body.get("decision"):
        return "the call never asked"
    tool = body.get("call", {}).get("name", "a tool")
    return f"{tool} was let through, and its text did not name the file"


def possible_writers(body: RecordPart, path: str) -> Iterator[str]:
    """Who wrote it, or may have."""
    if body.get("session_id"):
        yield f"session {body['session_id']}"
    known: Mapping[str, list[str]] = body.get("likeliest", {})
    yield from (*known.get(path, ()), *known.get(ANY_PATH, ()))
    yield from (f"session {session}" for session in body.get("candidates", ()))


def find_undone_paths(restores: Iterable[RecordPart]) -> frozenset[tuple[str, str]]:
    """(call, path) of what was undone after the call."""
    bodies = [body_of(document) for document in restores]
    return frozenset((b["call"].get("id", ""), str(p)) for b in bodies if b.get("call") for p in b.get("paths", ()))


class RangeCoverage(Struct, frozen=True):
    """Of the files that some commits changed: how many got their content by a change that was judged before.

    `unrecorded` are contents that no record of this repository tells of: somebody else's, or a person's.
    """

    files: int
    judged: int
    ungoverned: tuple[str, ...] = ()
    unrecorded: tuple[str, ...] = ()


def measure_range_coverage(index: Index, workspace: Workspace, commits: str) -> RangeCoverage:
    """The coverage of the commits that git calls so (`main..HEAD`), but for the logs in them. Raises GitError."""
    wrote = {
        path: blobs for path, blobs in contents_brought_by(workspace, commits).items() if not is_shared_log_file(path)
    }
    judged: set[str] = set()
    ungoverned: set[str] = set()
    for path in wrote:
        known = {one.after_blob: one for one in index.list_mutations(path) if one.event in ("mutation", "human_edit")}
        records = [known[blob] for blob in wrote[path] if blob in known]
        bodies = [body_of(document) for one in records for document in index.find_by_id_prefix(one.id)]
        if bodies:
            (judged if all(body.get("covered") for body in bodies) else ungoverned).add(path)
    rest = wrote.keys() - judged - ungoverned
    return RangeCoverage(len(wrote), len(judged), tuple(sorted(ungoverned)), tuple(sorted(rest)))


def contents_brought_by(workspace: Workspace, commits: str) -> dict[str, set[str]]:
    """The contents that these commits put at each path, by git's names; merges are their parents' work."""
    git = Git(workspace.root)
    out = git.run(
        *(
            "log",
            "--raw",
            "-z",
            "--no-merges",
            "--no-renames",
            "--no-abbrev",
            "--relative",
            "--format=",
            "--end-of-options",
        ),
        *(commits, "--"),
    )
    found: dict[str, set[str]] = {}
    parts = [part for part in out.split(b"\0") if part.strip()]
    for about, path in zip(parts[::2], parts[1::2], strict=False):
        words = about.split(b" ")
        if len(words) == 5 and words[3].strip(b"0"):
            found.setdefault(os.fsdecode(path), set()).add(words[3].decode("ascii"))
    return found
