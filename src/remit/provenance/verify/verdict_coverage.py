"""Share of the changes that had a verdict before them, by the ledger.

Changes by people and by git need no verdict and are counted apart.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from remit.ledger.index.index import Index
from remit.provenance.origins.commits_before_call import parse_raw_changes
from remit.provenance.origins.evidence import LIKELY
from remit.provenance.verify.rules import body_of
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.tracked_logs import is_shared_log_file

MAX_RECORDS = 5000
"""Records of each kind that are read, newest first."""

NON_AGENT_ORIGINS = ("person", "git")
"""Origins of changes that no agent made."""

ANY_PATH = "*"
RecordPart: TypeAlias = Mapping[str, Any]


class CoverageShare(Struct, frozen=True):
    """Number of changed files; all except the `ungoverned` had a verdict before each change.

    `people` and `git` count files that only they changed.
    """

    changed: int = 0
    ungoverned: tuple[str, ...] = ()
    people: int = 0
    git: int = 0

    @property
    def covered_files(self) -> int:
        return self.changed - len(self.ungoverned)


class UngovernedChange(Struct, frozen=True):
    """A change of one file without a verdict before. `writers` are proved for the grade *exact*, likely for
    *likely*, and possible without a grade.
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
    """Coverage overall and by session, with None for unknown sessions.

    `changes` lack a verdict, newest first.
    """

    overall: CoverageShare
    sessions: dict[str | None, CoverageShare]
    changes: tuple[UngovernedChange, ...] = ()


def measure_coverage(
    index: Index, *, since: str | None = None, until: str | None = None, max_records: int = MAX_RECORDS
) -> Coverage:
    """Return the coverage of the newest changes in the given time. The index has to be current."""

    def find_newest(event: str) -> list[dict[str, Any]]:
        return index.find(event=event, since=since, until=until, limit=max_records)

    documents = [*find_newest("mutation"), *find_newest("human_edit")]
    undone = find_undone_paths(find_newest("restore"))
    bodies = [body_of(document) for document in documents]
    by_session: dict[str | None, list[RecordPart]] = {}
    for body in bodies:
        by_session.setdefault(body.get("session_id"), []).append(body)
    changes = sorted(
        (change for document in documents for change in ungoverned_changes(document, undone)),
        key=lambda o: o.at,
        reverse=True,
    )
    return Coverage(
        measure_share(bodies),
        {session: measure_share(own_bodies) for session, own_bodies in by_session.items()},
        tuple(changes),
    )


def measure_share(bodies: Iterable[RecordPart]) -> CoverageShare:
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
    if body.get("event") != "mutation":
        return None
    if not file.get("unproved"):
        return "exact"
    return LIKELY if file.get("likely") else None


def reason_ungoverned(body: RecordPart) -> str:
    """Return the reason for the missing verdict."""
    if body.get("event") == "human_edit":
        return "no call explains it"
    if not body.get("decision"):
        return "the call never asked"
    tool = body.get("call", {}).get("name", "a tool")
    return f"{tool} was let through, and its text did not name the file"


def possible_writers(body: RecordPart, path: str) -> Iterator[str]:
    if body.get("session_id"):
        yield f"session {body['session_id']}"
    likeliest: Mapping[str, list[str]] = body.get("likeliest", {})
    yield from (*likeliest.get(path, ()), *likeliest.get(ANY_PATH, ()))
    yield from (f"session {session}" for session in body.get("candidates", ()))


def find_undone_paths(restores: Iterable[RecordPart]) -> frozenset[tuple[str, str]]:
    """Return (call, path) of the files that were undone after the call."""
    bodies = [body_of(document) for document in restores]
    return frozenset((b["call"].get("id", ""), str(p)) for b in bodies if b.get("call") for p in b.get("paths", ()))


class RangeCoverage(Struct, frozen=True):
    """Files changed by some commits, and how many contents come from changes with a verdict.

    `unrecorded` contents have no record in this repository.
    """

    files: int
    judged: int
    ungoverned: tuple[str, ...] = ()
    unrecorded: tuple[str, ...] = ()


def measure_range_coverage(index: Index, workspace: Workspace, commits: str) -> RangeCoverage:
    """Return the coverage of a git range such as `main..HEAD`, without the shared logs. Raises GitError."""
    blobs_by_path = {
        path: blobs for path, blobs in contents_brought_by(workspace, commits).items() if not is_shared_log_file(path)
    }
    judged: set[str] = set()
    ungoverned: set[str] = set()
    for path in blobs_by_path:
        changes_by_blob = {
            change.after_blob: change
            for change in index.list_mutations(path)
            if change.event in ("mutation", "human_edit")
        }
        records = [changes_by_blob[blob] for blob in blobs_by_path[path] if blob in changes_by_blob]
        bodies = [body_of(document) for change in records for document in index.find_by_id_prefix(change.id)]
        if bodies:
            (judged if all(body.get("covered") for body in bodies) else ungoverned).add(path)
    unrecorded = blobs_by_path.keys() - judged - ungoverned
    return RangeCoverage(len(blobs_by_path), len(judged), tuple(sorted(ungoverned)), tuple(sorted(unrecorded)))


def contents_brought_by(workspace: Workspace, commits: str) -> dict[str, set[str]]:
    """Return the blobs that these commits put at each path; merges are left out."""
    options = ("--raw", "-z", "--no-merges", "--no-renames", "--no-abbrev", "--relative", "--format=")
    output = Git(workspace.root).run("log", *options, "--end-of-options", commits, "--")
    blobs_by_path: dict[str, set[str]] = {}
    for change in parse_raw_changes(output):
        if change.kind != "D":
            blobs_by_path.setdefault(change.path, set()).add(change.after)
    return blobs_by_path
