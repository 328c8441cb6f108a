"""Blame of a file: git names the version of each line, the attributor names the author."""

import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.core.diff.line_spans import merge_spans
from remit.core.record import KEY
from remit.ledger.index.index import Index
from remit.ledger.segments import FOREIGN_FOLDER
from remit.provenance.blame.blamed_line import BlamedLine, lacks_class, make_blamed_line, read_candidates
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine, read_git_lines
from remit.provenance.origins.evidence import LIKELY, Attribution, attribution_at
from remit.provenance.origins.moved_blocks import MAX_RUNS, RecordedBlocks, drop_range_options
from remit.provenance.origins.unattributed_lines import UnattributedLines
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.refs import NOTES_REF, may_have_ref
from remit.workspace.place.workspace import Workspace

GIT_FATAL = 128
"""Exit code of git for a request that cannot be met."""

LINE_RANGE = re.compile(r"-L(\d+),(\d+)")

CONTEXT_LINES = 40
"""Lines before and after a range, which may show the block of a common line."""


class Blamer:
    """Blame in one workspace."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        self.workspace = workspace
        self.index = index
        self.git = Git(workspace.root)
        self.attributor = LineAttributor(workspace, index, store)

    def blame(self, path: str, arguments: Sequence[str] = ()) -> list[BlamedLine]:
        """Return each line of `path` with its origin. `arguments` are those of git blame. Raises GitError."""
        lines = self.read_git_lines(path, arguments)
        attributions = self.attribute_lines(path, arguments, lines)
        records = self.load_records(attribution.record for attribution in attributions.values())
        external = self.find_external_authors([line for line in lines if line.line not in attributions])
        fields = {attribution: self.describe_record(attribution, records) for attribution in {*attributions.values()}}
        return [
            external.get(line.line)
            or make_blamed_line(line, fields[attribution] if (attribution := attributions.get(line.line)) else ())
            for line in lines
        ]

    def add_classes(self, lines: Sequence[BlamedLine]) -> list[BlamedLine]:
        """Return the lines with computed classes for changes whose record has none."""
        names = {line.record for line in lines if line.record and lacks_class(line)}
        if not names:
            return list(lines)
        # Imported here for start-up speed: few answers tell classes.
        from remit.provenance.map.change_classes import add_computed_classes

        classes = {
            str(document["id"]): document["metadata"][KEY].get("mutation_class", {}).get("computed")
            for document in add_computed_classes(list(self.load_records(names).values()), self.attributor.store)
        }
        return [
            replace(line, mutation_class=classes.get(line.record or "")) if lacks_class(line) else line
            for line in lines
        ]

    @property
    def has_imported_records(self) -> bool:
        if (self.workspace.log_folder / FOREIGN_FOLDER).is_dir():
            return True
        if not self.workspace.tracked_logs.is_dir():
            return False
        # Imported here for start-up speed: few repositories have imported records.
        from remit.workspace.sharing.tracked_logs import list_other_logs

        return bool(list_other_logs(self.workspace.tracked_logs, self.workspace.state))

    def find_external_authors(self, lines: Sequence[GitLine]) -> dict[int, BlamedLine]:
        """Return lines without a local record as notes or imported records describe them."""
        imported = bool(lines) and self.has_imported_records
        if not lines or not (imported or may_have_ref(self.workspace.common_dir, NOTES_REF)):
            return {}
        # Imported here for start-up speed: few repositories have notes or imported records.
        from remit.provenance.blame.external_authors import find_external_authors

        return find_external_authors(self.attributor, lines, imported=imported)

    def attribute_lines(self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """Return the attributions by line number of the file asked about. For ranges, the lines around them are
        evidence too: a common line belongs to its block.
        """
        result = self.attribute_given_lines(path, arguments, lines)
        if not any(argument.startswith("-L") for argument in arguments):
            return result
        missing = [n.line for n in lines if n.line not in result and self.attributor.may_hold_recorded_lines(n.version)]
        surrounding = self.lines_with_context(path, arguments, missing) if missing else []
        attributed = self.attribute_given_lines(path, arguments, surrounding) if len(surrounding) > len(missing) else {}
        return {**{line: attributed[line] for line in missing if line in attributed}, **result}

    def lines_with_context(self, path: str, arguments: Sequence[str], numbers: Iterable[int]) -> list[GitLine]:
        """Return the lines with some before and after them; empty if git fails."""
        spans = merge_spans((max(1, number - CONTEXT_LINES), number + CONTEXT_LINES) for number in numbers)
        ranges = [f"-L{first},{last}" for first, last in spans[:MAX_RUNS]]
        try:
            return Blamer.read_git_lines(self, path, [*drop_range_options(arguments), *ranges])
        except GitError:
            return []

    def attribute_given_lines(
        self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]
    ) -> dict[int, Attribution]:
        """Return the attributions that these lines alone support."""
        # 1. By the version that git names for each line.
        by_version = self.attributor.attribute_lines(lines)
        direct = {n.line: found for n in lines if (found := attribution_at(by_version[n.version], n.number))}
        observed = [
            line for line in lines if line.line in direct and self.attributor.is_found_by_comparison(direct[line.line])
        ]
        suspects = [*(line for line in lines if line.line not in direct), *observed]

        # 2. By a search for the source of the rest: moved, reformatted, recorded in another file.
        search = UnattributedLines(self.git, self.attributor)
        searched = search.attribute_lines(path, arguments, suspects)
        beside = search.added_beside_existing(observed, direct, searched) if searched else set[int]()
        copied = self.lines_copied_later(searched, {line.line: direct[line.line] for line in observed})
        common = {n.line for n in observed if not direct[n.line].proved and not is_distinctive_line(n.content)}
        searched = {line: found for line, found in searched.items() if line not in copied | common | beside}
        remaining = [line for line in suspects if line.line not in searched]
        searched |= self.find_reapplied_lines(remaining, search.lines_by_calls)

        # 3. A person's edit proves nothing about lines that an agent wrote before.
        edited = [line for line in observed if line.line not in searched and direct[line.line].proved]
        doubtful = RecordedBlocks(self.git, self.attributor).lines_written_before(edited) if edited else set[int]()
        result = {**{line: found for line, found in direct.items() if line not in doubtful}, **searched}
        removed = search.removed_by_own_record(lines, result)
        return {line: found for line, found in result.items() if line not in removed} if removed else result

    def find_reapplied_lines(
        self, lines: Sequence[GitLine], texts_by_calls: Collection[bytes]
    ) -> dict[int, Attribution]:
        """Attribute lines that a call had written before git brought them back. A call may have put `texts_by_calls`
        into some file.
        """
        if not texts_by_calls or not any(line.content in texts_by_calls for line in lines):
            return {}
        versions = {line.version for line in lines if self.attributor.may_hold_recorded_lines(line.version)}
        steps_by_version = {
            version: [step for steps_of_version in self.attributor.certain_routes(version) for step in steps_of_version]
            for version in versions
        }
        uncertain = {
            version
            for version, steps_of_version in steps_by_version.items()
            if any(step.inferred or step.unproved for step in steps_of_version)
        }
        suspects = [line for line in lines if line.version in uncertain]
        if not any(is_distinctive_line(line.content) for line in suspects):
            return {}
        # Imported here for start-up speed: few files hold such lines.
        from remit.provenance.origins.reapplied_lines import ReappliedLines

        return ReappliedLines(self.attributor).attribute_lines(suspects)

    def lines_copied_later(self, sources: dict[int, Attribution], observed: dict[int, Attribution]) -> set[int]:
        """Return the lines that a person's edit had before the call that wrote them elsewhere: the call copied them."""
        lines = sources.keys() & observed.keys()
        records = self.load_records(
            attribution.record for line in lines for attribution in (sources[line], observed[line])
        )
        seq = {name: record["metadata"][KEY].get("chain", {}).get("seq", 0) for name, record in records.items()}
        return {line for line in lines if seq.get(sources[line].record, 0) > seq.get(observed[line].record, 0)}

    def read_git_lines(self, path: str, arguments: Sequence[str]) -> list[GitLine]:
        """Return the lines by git, or those of a file that no commit has. Raises GitError."""
        try:
            output = self.git.run("blame", "--porcelain", *arguments, "--", path)
        except GitError:
            uncommitted = self.read_uncommitted_file(path, arguments)
            if uncommitted is None:
                raise
            return uncommitted
        return read_git_lines(output, self.attributor.prefix)

    def read_uncommitted_file(self, path: str, arguments: Sequence[str]) -> list[GitLine] | None:
        """Return the lines of a file that no commit has; None if a commit has the file, or for other arguments than
        ranges.

        Raises GitError, in git's words, for lines beyond the end.
        """
        ranges = [LINE_RANGE.fullmatch(argument) for argument in arguments]
        file = self.workspace.root / path
        if os.path.islink(file) or not os.path.isfile(file):  # noqa: PTH113, PTH114  no path is too long for these
            return None
        if None in ranges or self.is_in_other_repository(path):
            return None
        if self.git.text("rev-parse", "--verify", "--quiet", f"HEAD:./{path}", ok=(0, 1, 128)):
            return None
        texts = file.read_bytes().split(b"\n")
        texts = texts[:-1] if not texts[-1] else texts
        spans = [(int(found[1]), int(found[2])) for found in ranges if found] or [(1, len(texts))]
        if any(low > len(texts) for low, _ in spans if ranges):
            raise GitError(("blame", *arguments), GIT_FATAL, f"fatal: file {path} has only {len(texts)} lines")
        version = FileVersion("0" * 40, path, None)
        numbered = enumerate(texts, 1)
        return [GitLine(version, n, n, text) for n, text in numbered if any(low <= n <= high for low, high in spans)]

    def is_in_other_repository(self, path: str) -> bool:
        """Return whether a path is inside `.git` or in a nested repository, such as a submodule."""
        *folders, _ = Path(path).parts
        below = (Path(*folders[: n + 1]) for n in range(len(folders)))
        return ".git" in folders or any((self.workspace.root / folder / ".git").exists() for folder in below)

    def load_records(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        return {name: documents[0] for name in set(names) if (documents := self.index.find_by_id_prefix(name))}

    def describe_record(self, attribution: Attribution, records: dict[str, dict[str, Any]]) -> tuple[Any, ...]:
        """Return the fields of a `BlamedLine` from `origin` on, for lines with that attribution."""
        document = records.get(attribution.record)
        if document is None:
            return ()
        body: dict[str, Any] = document["metadata"][KEY]
        no_agent = (None, None, None, None, None)
        if body.get("event") == "human_edit" and body.get("origin") == "person":
            return ("human", *no_agent, attribution.grade, attribution.record)
        if body.get("event") == "human_edit" or not (attribution.proved or attribution.likely):
            return ("unknown", *no_agent, None, attribution.record, read_candidates(document))
        return (
            "ai",
            document.get("tool", {}).get("name"),
            model_of(document),
            body.get("session_id"),
            body.get("intent_id"),
            body.get("mutation_class", {}).get("computed"),
            attribution.grade if attribution.proved else LIKELY,
            attribution.record,
            (),
            body.get("mutation_class", {}).get("declared"),
        )


def model_of(document: dict[str, Any]) -> str | None:
    files: list[dict[str, Any]] = document.get("files", [])
    for file in files:
        for conversation in file.get("conversations", []):
            model = conversation.get("contributor", {}).get("model_id")
            if model:
                return str(model)
    return None
