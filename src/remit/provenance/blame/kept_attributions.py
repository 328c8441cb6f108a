"""Attributions of lines, kept in the index by content: a blame's result for a version of a file answers the next blame.

The writers of the lines added by a version depend on contents, and on the records of the time. Commit ids play no
part, hence a rebase or squash with equal contents finds every answer. An answer can change only while a
record is still to come: a save seen by comparing at the next call, or a call that committed before the call ended.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, msgpack

from remit.core.diff import contents
from remit.core.python_runtime import prepare_type
from remit.core.untrusted_input import quote_path
from remit.ledger.index.index import Index, KeptLines, LastChange
from remit.provenance.origins import attributor as attributing
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine
from remit.provenance.origins.evidence_grades import Attribution
from remit.provenance.origins.file_histories import parse_seconds

UNTIL_ANY_RECORD, UNTIL_RECORD_OF_PATH, FOR_GOOD = range(3)
RULES_FOLDERS = tuple(Path(str(module)).parent for module in (contents.__file__, attributing.__file__, __file__))
CLOCK_STEP_S = 1.0  # commit times are whole seconds

Question: TypeAlias = Literal["blame", "patch"]
"""What was asked of a version: the lines that git's blame traces to it, or all lines by the records alone."""

AttributionsByNumber = dict[int, Attribution | None]  # by line of a version; None if nothing explains the line


class _Run(Struct, array_like=True, gc=False):
    """Consecutive lines of a version with the same attribution; None for unexplained lines."""

    first: int
    count: int
    attribution: Attribution | None


_RUNS = msgpack.Decoder(prepare_type(list[_Run]))


class _VersionKey(Struct, frozen=True):
    """What the answers of a version depend on, apart from records to come."""

    path: str
    blob: str
    parent_blob: str
    sighting: int


class _FileRecords(Struct, frozen=True):
    """The newest record with a change of a file, and by content the records that left the content, with times."""

    last: LastChange
    sightings: dict[str, list[tuple[int, str]]]


class KeptAttributions:
    """The kept attributions of one workspace, as they are when a question begins."""

    def __init__(self, attributor: LineAttributor, question: Question = "blame") -> None:
        self.attributor, self.question = attributor, question
        self.index: Index = attributor.index
        self.last = LastChange()
        self.records_by_path: dict[str, _FileRecords] = {}
        self.keys: dict[FileVersion, _VersionKey] = {}
        self.known: dict[FileVersion, AttributionsByNumber] = {}

    def find(self, versions: Iterable[FileVersion]) -> dict[FileVersion, AttributionsByNumber]:
        """Return for each version the lines with a kept answer that still holds."""
        unique = list(dict.fromkeys(versions))
        attributor = self.attributor
        attributor.resolve_all(unique)
        self.last = self.index.find_last_change()
        by_path: dict[str, list[FileVersion]] = {}
        for version in unique:
            if attributor.version_blob(version):
                by_path.setdefault(quote_path(version.path), []).append(version)
        for path, own in by_path.items():
            self.find_in_file(path, own)
        return {version: self.known.get(version, {}) for version in unique}

    def find_in_file(self, path: str, versions: Sequence[FileVersion]) -> None:
        blobs = {version: self.attributor.version_blob(version) or "" for version in versions}
        last = self.index.find_last_change(path)
        sightings: dict[str, list[tuple[int, str]]] = {}
        if last.number:
            for blob, number, at in self.index.list_sightings(path, set(blobs.values())):
                sightings.setdefault(blob, []).append((number, at))
        records = self.records_by_path[path] = _FileRecords(last, sightings)
        for version, blob in blobs.items():
            sighting = last_sighting(records, version, blob)
            self.keys[version] = _VersionKey(path, blob, self.attributor.parent_blob(version) or "", sighting)
        rows = self.index.find_kept_lines(self.question, path, set(blobs.values()), rules_version())
        held = {
            _VersionKey(row.path, row.blob, row.parent_blob, row.sighting): row
            for row in rows
            if row.lasting == FOR_GOOD
            or row.known_until >= (last if row.lasting == UNTIL_RECORD_OF_PATH else self.last).number
        }
        for version in versions:
            if row := held.get(self.keys[version]):
                self.known[version] = unpack_lines(row.lines)

    def keep(self, lines: Iterable[GitLine], attributions: Mapping[int, Attribution]) -> None:
        """Keep a blame's result for the lines, which are the file's only lines from their versions. `attributions`
        are by line of the file asked about.
        """
        found: dict[FileVersion, AttributionsByNumber] = {}
        for line in lines:
            if line.version in self.keys:
                found.setdefault(line.version, {})[line.number] = attributions.get(line.line)
        self.keep_answers(found)

    def keep_answers(self, found: Mapping[FileVersion, AttributionsByNumber]) -> None:
        """Keep answers by version: of versions that `find` was asked about."""
        rows: list[KeptLines] = []
        for version, answers in found.items():
            key, whole = self.keys[version], {**answers, **self.known.get(version, {})}
            values = (rules_version(), self.last.number, self.lasting(version, key.path), pack_lines(whole))
            rows.append(KeptLines(self.question, key.path, key.blob, key.parent_blob, key.sighting, *values))
        self.index.store_kept_lines(rows)

    def lasting(self, version: FileVersion, path: str) -> int:
        """Return how long an answer holds. A later record of the file, or of another file, has seen the changes
        before: no record to come tells of an older version. A commit date is chosen by its author and is no proof.
        """
        if not version.has_commit or self.attributor.is_backdated(version):
            return UNTIL_ANY_RECORD
        if is_later(self.records_by_path[path].last, version):
            return FOR_GOOD
        return UNTIL_RECORD_OF_PATH if is_later(self.last, version) else UNTIL_ANY_RECORD


def is_later(record: LastChange, version: FileVersion) -> bool:
    return bool(record.at) and parse_seconds(record.at) > version.time_s + CLOCK_STEP_S


def last_sighting(records: _FileRecords, version: FileVersion, blob: str) -> int:
    end_s = version.time_s + CLOCK_STEP_S
    seen = records.sightings.get(blob, ())
    return max((number for number, at in seen if not version.has_commit or parse_seconds(at) < end_s), default=0)


def pack_lines(answers: AttributionsByNumber) -> bytes:
    runs: list[_Run] = []
    for number, found in sorted(answers.items(), key=itemgetter(0)):
        if runs and runs[-1].attribution == found and runs[-1].first + runs[-1].count == number:
            runs[-1].count += 1
        else:
            runs.append(_Run(number, 1, found))
    return msgpack.encode(runs)


def unpack_lines(packed: bytes) -> AttributionsByNumber:
    answers: AttributionsByNumber = {}
    for run in _RUNS.decode(packed):
        answers.update(dict.fromkeys(range(run.first, run.first + run.count), run.attribution))
    return answers


@lru_cache(1)
def rules_version() -> str:
    files = [entry for folder in RULES_FOLDERS for entry in os.scandir(folder) if entry.name.endswith(".py")]
    states = sorted((entry.name, (state := entry.stat()).st_size, state.st_mtime_ns) for entry in files)
    return contents.sha256(repr(states).encode())
