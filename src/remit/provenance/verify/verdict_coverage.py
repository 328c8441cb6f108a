"""Share of the changes that had a verdict before them, by the ledger.

Changes by people and by git need no verdict and are counted apart.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from remit.core.untrusted_input import as_object
from remit.ledger.index.index import Index
from remit.provenance.blame.blamed_line import body_of
from remit.provenance.origins.commits_before_call import parse_raw_changes
from remit.provenance.origins.evidence_grades import LIKELY
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import MADE_FILES, Workspace
from remit.workspace.sharing.tracked_logs import is_shared_log_file

MAX_RECORDS = 5000  # records of each kind that are read, newest first
NON_AGENT_ORIGINS = ("person", "git")  # origins of changes that no agent made
ANY_PATH = "*"
RecordPart: TypeAlias = Mapping[str, Any]


class CoverageShare(Struct, frozen=True):
    """Number of changed files; all except the `ungoverned` had a verdict before each change. `people` and `git` count
    files that only they changed.
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
    """Coverage overall and by session, with None for unknown sessions. `changes` lack a verdict, newest first."""

    overall: CoverageShare
    sessions: dict[str | None, CoverageShare]
    changes: tuple[UngovernedChange, ...] = ()


def measure_coverage(
    index: Index, *, since: str | None = None, until: str | None = None, max_records: int = MAX_RECORDS
) -> Coverage:
    """Return the coverage of the newest changes in the given time. The index has to be current."""
    mutations, edits, restores = (
        index.find(event=event, since=since, until=until, limit=max_records)
        for event in ("mutation", "human_edit", "restore")
    )
    documents, undone = [*mutations, *edits], find_undone_paths(restores)
    bodies = [body_of(document) for document in documents]
    by_session: dict[str | None, list[RecordPart]] = {}
    for body in bodies:
        by_session.setdefault(body.get("session_id"), []).append(body)
    changes = [change for document in documents for change in ungoverned_changes(document, undone)]
    changes.sort(key=lambda change: change.at, reverse=True)
    shares = {session: measure_share(own) for session, own in by_session.items()}
    return Coverage(measure_share(bodies), shares, tuple(changes))


def measure_share(bodies: Iterable[RecordPart]) -> CoverageShare:
    changed: set[str] = set()
    ungoverned: set[str] = set()
    others: dict[str, set[str]] = {origin: set() for origin in NON_AGENT_ORIGINS}
    for body in bodies:
        paths = {path for file in body.get("files", []) if (path := str(file["path"])) not in MADE_FILES}
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
    is_edit, session, call = body.get("event") == "human_edit", body.get("session_id"), body.get("call", {})
    why = f"{call.get('name', 'a tool')} was let through, and its text did not name the file"
    why = "no call explains it" if is_edit else why if body.get("decision") else "the call never asked"
    likeliest: Mapping[str, list[str]] = body.get("likeliest", {})
    for file in body.get("files", []):
        path = str(file["path"])
        if path in MADE_FILES:
            continue
        writers = [f"session {session}"] if session else []
        writers += [*likeliest.get(path, ()), *likeliest.get(ANY_PATH, ())]
        writers += map(describe_candidate, body.get("candidates", ()))
        grade = (LIKELY if file.get("likely") else None) if file.get("unproved") else "exact"
        yield UngovernedChange(
            path,
            str(document["timestamp"]),
            str(document["id"]),
            str(file.get("operation", "")),
            session,
            why,
            tuple(writers),
            (call.get("id", ""), path) in undone,
            grade if body.get("event") == "mutation" else None,
        )


def describe_candidate(candidate: object) -> str:
    """Return a candidate of a record in words: its agent, session and command; records of old name a session alone."""
    known = as_object(candidate)
    if not known:
        return f"session {candidate}"
    ran = f" with `{known['command']}`" if known.get("command") else ""
    return f"{known.get('agent') or 'an agent'} in session {known.get('session_id') or 'unknown'}{ran}"


def find_undone_paths(restores: Iterable[RecordPart]) -> frozenset[tuple[str, str]]:
    bodies = [body_of(document) for document in restores]
    return frozenset((b["call"].get("id", ""), str(p)) for b in bodies if b.get("call") for p in b.get("paths", ()))


class RangeCoverage(Struct, frozen=True):
    """Files changed by some commits, and how many contents come from changes with a verdict. `unrecorded` contents have
    no record in this repository.
    """

    files: int
    judged: int
    ungoverned: tuple[str, ...] = ()
    unrecorded: tuple[str, ...] = ()


def measure_range_coverage(index: Index, workspace: Workspace, commits: str) -> RangeCoverage:
    """Return the coverage of a git range such as `main..HEAD`, without merges and the shared logs. Raises GitError."""
    options = ("--raw", "-z", "--no-merges", "--no-renames", "--no-abbrev", "--relative", "--format=")
    output = Git(workspace.root).run("log", *options, "--end-of-options", commits, "--")
    blobs_by_path: dict[str, set[str]] = {}
    for change in parse_raw_changes(output):
        if change.kind != "D" and not is_shared_log_file(change.path):
            blobs_by_path.setdefault(change.path, set()).add(change.after)
    judged: set[str] = set()
    ungoverned: set[str] = set()
    for path, blobs in blobs_by_path.items():
        changes = (c for c in index.list_changes(path) if c.event in ("mutation", "human_edit"))
        newest = {change.after_blob: change.id for change in changes}
        documents = (d for blob in blobs if blob in newest for d in index.find_by_id_prefix(newest[blob]))
        if verdicts := [bool(body_of(document).get("covered")) for document in documents]:
            (judged if all(verdicts) else ungoverned).add(path)
    unrecorded = blobs_by_path.keys() - judged - ungoverned
    return RangeCoverage(len(blobs_by_path), len(judged), tuple(sorted(ungoverned)), tuple(sorted(unrecorded)))
