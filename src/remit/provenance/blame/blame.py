"""Blame of a file: git names the version of each line, the attributor names the author."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from remit.core.diff.contents import is_distinctive_line, merge_spans
from remit.ledger.index.index import Index
from remit.ledger.log_files import FOREIGN_FOLDER
from remit.provenance.blame.blamed_line import BlamedLine, body_of, lacks_class, make_blamed_line, read_candidates
from remit.provenance.blame.kept_attributions import KeptAttributions
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine, read_git_lines
from remit.provenance.origins.evidence_grades import LIKELY, Attribution, attribution_at
from remit.provenance.origins.intent_names import IntentNames
from remit.provenance.origins.moved_blocks import MAX_RUNS, RecordedBlocks, drop_range_options
from remit.provenance.origins.second_search import ReappliedLines, UnattributedLines
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import GitError
from remit.workspace.git.repository import NOTES_REF, may_have_ref
from remit.workspace.place.workspace import Workspace, find_nested_repository

if TYPE_CHECKING:
    from remit.provenance.blame.claimed_authors import ExternalAuthors

GIT_FATAL = 128  # exit code of git for a request that cannot be met
LINE_RANGE = re.compile(r"-L(\d+),(\d+)")
CONTEXT_LINES = 40  # lines before and after a range, which may show the block of a common line


class Blamer:
    """Blame in one workspace. With the path of a file, git is asked in the repository that holds the file: a submodule
    is a repository in the workspace.
    """

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore, path: str = "") -> None:
        self.workspace, self.index, self.names = workspace, index, IntentNames(index)
        self.attributor = LineAttributor(workspace, index, store, find_nested_repository(workspace, path))
        self.git = self.attributor.git
        self.disputed: set[FileVersion] = set()
        """Versions of which git and the records tell lines apart differently: their answers hold for one question."""
        self.external: ExternalAuthors | None = None
        self.disowned: set[int] = set()
        """Lines of the file asked about that git takes for an equal line elsewhere."""

    def blame(
        self, path: str, arguments: Sequence[str] = (), given: Sequence[GitLine] | None = None
    ) -> list[BlamedLine]:
        """Return each line of `path` with its origin. `arguments` are the arguments of git blame, and `given` the
        lines, if git ran already. Raises GitError.
        """
        lines = self.read_git_lines(path, arguments) if given is None else given
        return self.describe_lines(lines, self.attribute_lines(path, arguments, lines))

    def describe_lines(self, lines: Sequence[GitLine], attributions: Mapping[int, Attribution]) -> list[BlamedLine]:
        """Return the lines with their origins by the attributions, or by notes and imported records."""
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

        documents = add_computed_classes(list(self.load_records(names).values()), self.attributor.store)
        bodies = {str(document["id"]): body_of(document) for document in documents}
        classes = {name: body.get("mutation_class", {}).get("computed") for name, body in bodies.items()}
        return [
            replace(line, mutation_class=classes.get(line.record or "")) if lacks_class(line) else line
            for line in lines
        ]

    def find_external_authors(self, lines: Sequence[GitLine]) -> dict[int, BlamedLine]:
        workspace = self.workspace
        imported = (workspace.log_folder / FOREIGN_FOLDER).is_dir() or workspace.tracked_logs.is_dir()
        if not lines or not (imported or may_have_ref(workspace.common_dir, NOTES_REF)):
            return {}
        if self.external is None:
            # Imported here for start-up speed: few repositories have notes or imported records.
            from remit.provenance.blame.claimed_authors import ExternalAuthors

            self.external = ExternalAuthors(self.attributor)
        return self.external.describe_lines(lines)

    def find_kept_attributions(self, lines: Sequence[GitLine]) -> dict[int, Attribution] | None:
        """Return the attributions of a whole file by the kept answers; None if a line's is missing."""
        if not self.attributor.has_records:
            return {}
        known = KeptAttributions(self.attributor).find(line.version for line in lines)
        if any(line.number not in known[line.version] for line in lines):
            return None
        return {n.line: attribution for n in lines if (attribution := known[n.version][n.number])}

    def attribute_lines(self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """Return the attributions by line number of the file asked about. Results of earlier questions are read; of a
        version with a line new to the question, every line is attributed.
        """
        if not self.attributor.has_records:
            return {}
        self.disowned.clear()
        kept = KeptAttributions(self.attributor)
        known = kept.find(line.version for line in lines)
        incomplete = {line.version for line in lines if line.number not in known[line.version]}
        found = {n.line: a for n in lines if n.version not in incomplete and (a := known[n.version][n.number])}
        remaining = [line for line in lines if line.version in incomplete]
        if not remaining:
            return found
        attributed = self.attribute_unkept_lines(path, arguments, remaining)
        if not any(argument.startswith("-") for argument in arguments):
            kept.keep([line for line in remaining if line.version not in self.disputed], attributed)
        return {line: origin for line, origin in (found | attributed).items() if line not in self.disowned}

    def attribute_unkept_lines(
        self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]
    ) -> dict[int, Attribution]:
        result = self.attribute_given_lines(path, arguments, lines)
        missing = [n.line for n in lines if n.line not in result and self.attributor.may_hold_recorded_lines(n.version)]
        if not missing or not any(argument.startswith("-L") for argument in arguments):
            return result
        spans = merge_spans((max(1, number - CONTEXT_LINES), number + CONTEXT_LINES) for number in missing)
        ranges = [f"-L{first},{last}" for first, last in spans[:MAX_RUNS]]
        try:
            surrounding = self.read_git_lines(path, [*drop_range_options(arguments), *ranges])
        except GitError:
            return result
        attributed = self.attribute_given_lines(path, arguments, surrounding) if len(surrounding) > len(missing) else {}
        return {**{line: attributed[line] for line in missing if line in attributed}, **result}

    def attribute_given_lines(
        self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]
    ) -> dict[int, Attribution]:
        # 1. By the version that git names for each line.
        attributor = self.attributor
        by_version = attributor.attribute_lines(lines)
        direct = {n.line: found for n in lines if (found := attribution_at(by_version[n.version], n.number))}
        observed = [n for n in lines if n.line in direct and attributor.is_found_by_comparison(direct[n.line])]

        # 2. Through calls that are proved to have only laid lines out anew.
        search = UnattributedLines(attributor)
        laid_out = search.attribute_laid_out(observed) if observed else {}
        direct |= laid_out
        observed = [line for line in observed if line.line not in laid_out]
        suspects = [*(line for line in lines if line.line not in direct), *observed]

        # 3. By a search for the source of the rest: moved, reformatted, recorded in another file.
        searched = search.attribute_lines(path, arguments, suspects)
        swapped = {line for of_version in search.swapped_lines.values() for line in of_version}
        self.disputed |= {*search.swapped_lines, *(line.version for line in lines if line.line in swapped)}
        dropped = search.added_beside_existing(observed, direct, searched) if searched else set[int]()
        dropped |= self.lines_copied_later(searched, {line.line: direct[line.line] for line in observed})
        dropped |= {n.line for n in observed if not direct[n.line].proved and not is_distinctive_line(n.content)}
        searched = {line: found for line, found in searched.items() if line not in dropped}

        # 4. Lines that a call had written before git brought them back.
        remaining = [line for line in suspects if line.line not in searched]
        if any(line.content in search.lines_by_calls for line in remaining):
            recent = {v for v in {line.version for line in remaining} if attributor.may_hold_recorded_lines(v)}
            routes = {version: attributor.certain_routes(version) for version in recent}
            uncertain = {v for v in recent if any(s.inferred or s.unproved for route in routes[v] for s in route)}
            returned = [line for line in remaining if line.version in uncertain]
            if any(is_distinctive_line(line.content) for line in returned):
                searched |= ReappliedLines(attributor).attribute_lines(returned)

        # 5. A person's edit proves nothing about lines that an agent wrote before.
        edited = [line for line in observed if line.line not in searched and direct[line.line].proved]
        doubtful = RecordedBlocks(attributor).lines_written_before(edited) if edited else set[int]()
        result = {**{line: found for line, found in direct.items() if line not in doubtful}, **searched}
        self.disowned |= search.disowned_lines
        removed = search.removed_by_own_record(lines, result)
        return {line: found for line, found in result.items() if line not in removed}

    def lines_copied_later(self, sources: Mapping[int, Attribution], observed: Mapping[int, Attribution]) -> set[int]:
        pairs = {line: (sources[line].record, observed[line].record) for line in sources.keys() & observed.keys()}
        records = self.load_records(record for pair in pairs.values() for record in pair)
        seq = {name: body_of(record).get("chain", {}).get("seq", 0) for name, record in records.items()}
        return {line for line, (source, edit) in pairs.items() if seq.get(source, 0) > seq.get(edit, 0)}

    def read_git_lines(self, path: str, arguments: Sequence[str]) -> list[GitLine]:
        """Return the lines by git, or the lines of a file without commits. Raises GitError."""
        try:
            output = self.git.run("blame", "--porcelain", *arguments, "--", self.attributor.prefix.path_for_git(path))
        except GitError:
            uncommitted = self.read_uncommitted_file(path, arguments)
            if uncommitted is None:
                raise
            return uncommitted
        return read_git_lines(output, self.attributor.prefix)

    def read_uncommitted_file(self, path: str, arguments: Sequence[str]) -> list[GitLine] | None:
        """Return the lines of a file that no commit has; None if a commit has the file, or for other arguments than
        ranges. Raises GitError, in git's words, for lines beyond the end.
        """
        ranges = [LINE_RANGE.fullmatch(argument) for argument in arguments]
        file = self.workspace.root / path
        is_file = os.path.isfile(file) and not os.path.islink(file)  # noqa: PTH113, PTH114  no path is too long
        if None in ranges or not is_file:
            return None
        # A path inside `.git`, or in another repository inside, is not this repository's.
        nested = self.attributor.nested
        if ".git" in Path(path).parts[:-1] or find_nested_repository(self.workspace, path) != nested:
            return None
        git_path = self.attributor.prefix.path_for_git(path)
        if self.git.text("rev-parse", "--verify", "--quiet", f"HEAD:./{git_path}", ok=(0, 1, 128)):
            return None
        texts = file.read_bytes().split(b"\n")
        texts = texts[:-1] if not texts[-1] else texts
        spans = [(int(found[1]), int(found[2])) for found in ranges if found] or [(1, len(texts))]
        if any(low > len(texts) for low, _ in spans if ranges):
            raise GitError(("blame", *arguments), GIT_FATAL, f"fatal: file {path} has only {len(texts)} lines")
        version = FileVersion("0" * 40, path, None, tree_path=git_path if nested else "")
        numbered = enumerate(texts, 1)
        return [GitLine(version, n, n, text) for n, text in numbered if any(low <= n <= high for low, high in spans)]

    def load_records(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        return self.index.find_by_ids(set(names))

    def describe_record(self, attribution: Attribution, records: dict[str, dict[str, Any]]) -> tuple[Any, ...]:
        """Return the fields of a `BlamedLine` from `origin` on, for lines with that attribution."""
        document = records.get(attribution.record)
        if document is None:
            return ()
        body: dict[str, Any] = body_of(document)
        no_agent = (None, None, None, None, None)
        if body.get("event") == "human_edit" and body.get("origin") == "person":
            return ("human", *no_agent, attribution.grade, attribution.record)
        if body.get("event") == "human_edit" or not (attribution.proved or attribution.likely):
            return ("unknown", *no_agent, None, attribution.record, read_candidates(document, self.names))
        return (
            "ai",
            document.get("tool", {}).get("name"),
            model_of(document),
            body.get("session_id"),
            self.names.find_name(body),
            body.get("mutation_class", {}).get("computed"),
            attribution.grade if attribution.proved else LIKELY,
            attribution.record,
            (),
            body.get("mutation_class", {}).get("declared"),
            self.names.list_candidates(body),
        )


def model_of(document: dict[str, Any]) -> str | None:
    conversations = (talk for file in document.get("files", []) for talk in file.get("conversations", []))
    models = (conversation.get("contributor", {}).get("model_id") for conversation in conversations)
    return next((str(model) for model in models if model), None)


OPTIONS_NOT_REVERSED = ("-L", "--reverse", "--contents", "--ignore-rev", "--since", "--after", "--until", "--before")


def blame_reversed(
    blamer: Blamer, path: str, first: str, options: Sequence[str], lines: Sequence[GitLine]
) -> list[BlamedLine]:
    """Return the lines that `git blame --reverse` traced, with their authors as of version `first`. Raises GitError."""
    forwards = [option for option in options if not option.startswith(OPTIONS_NOT_REVERSED)]
    written = {line.line: line for line in blamer.blame(path, [*forwards, first])}
    return [
        replace(
            written.get(line.line) or BlamedLine(line.line, "", ""),
            content=line.content.decode("utf-8", "replace"),
            commit=line.version.commit,
        )
        for line in lines
    ]
