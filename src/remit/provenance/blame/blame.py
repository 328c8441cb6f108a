"""`remit blame`: git says which version a line came with, Remit says who wrote what that version added."""

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
"""git's exit code where it cannot do what it is asked."""

LINE_RANGE = re.compile(r"-L(\d+),(\d+)")

CONTEXT_LINES = 40
"""Lines before and after those of a range, that may tell what they are a part of."""


class Blamer:
    """Blame in one workspace."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        self.workspace = workspace
        self.index = index
        self.git = Git(workspace.root)
        self.attributor = LineAttributor(workspace, index, store)

    def blame(self, path: str, arguments: Sequence[str] = ()) -> list[BlamedLine]:
        """Each line of `path` with its origin. `arguments` are git blame's own. Raises GitError."""
        found = self.read_git_lines(path, arguments)
        labels = self.attribute_lines(path, arguments, found)
        records = self.load_records(label.record for label in labels.values())
        told = self.find_external_authors([line for line in found if line.line not in labels])
        known = {label: self.describe_record(label, records) for label in {*labels.values()}}
        return [
            told.get(line.line) or make_blamed_line(line, known[label] if (label := labels.get(line.line)) else ())
            for line in found
        ]

    def add_classes(self, lines: Sequence[BlamedLine]) -> list[BlamedLine]:
        """The lines, with the class of each change worked out from its contents where the record has none."""
        names = {line.record for line in lines if line.record and lacks_class(line)}
        if not names:
            return list(lines)
        from remit.provenance.map.change_classes import (
            add_computed_classes,  # for start-up speed: not every answer tells classes
        )

        found = {
            str(document["id"]): document["metadata"][KEY].get("mutation_class", {}).get("computed")
            for document in add_computed_classes(list(self.load_records(names).values()), self.attributor.store)
        }
        return [
            replace(line, mutation_class=found.get(line.record or "")) if lacks_class(line) else line for line in lines
        ]

    @property
    def has_imported_records(self) -> bool:
        """Whether records of other machines lie here: taken in, or as tracked files."""
        if (self.workspace.log_folder / FOREIGN_FOLDER).is_dir():
            return True
        if not self.workspace.tracked_logs.is_dir():
            return False
        from remit.workspace.sharing.tracked_logs import list_other_logs  # few repositories have them

        return bool(list_other_logs(self.workspace.tracked_logs, self.workspace.state))

    def find_external_authors(self, lines: Sequence[GitLine]) -> dict[int, BlamedLine]:
        """Lines that no record of ours explains, as others tell of them: notes, else what was imported."""
        imported = bool(lines) and self.has_imported_records
        if not lines or not (imported or may_have_ref(self.workspace.common_dir, NOTES_REF)):
            return {}
        from remit.provenance.blame.external_authors import (
            find_external_authors,  # for start-up speed: few have such words
        )

        return find_external_authors(self.attributor, lines, imported=imported)

    def attribute_lines(self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """The label of each line that has one, by its number in the file asked about. Of lines in ranges, those around
        them tell, too: a plain one is a part of the block that it stands in.
        """
        found = self.attribute_given_lines(path, arguments, lines)
        if not any(argument.startswith("-L") for argument in arguments):
            return found
        left = [n.line for n in lines if n.line not in found and self.attributor.may_hold_recorded_lines(n.version)]
        wide = self.lines_with_context(path, arguments, left) if left else []
        more = self.attribute_given_lines(path, arguments, wide) if len(wide) > len(left) else {}
        return {**{line: more[line] for line in left if line in more}, **found}

    def lines_with_context(self, path: str, arguments: Sequence[str], numbers: Iterable[int]) -> list[GitLine]:
        """These lines, with some before and after them; none where git says no."""
        spans = merge_spans((max(1, number - CONTEXT_LINES), number + CONTEXT_LINES) for number in numbers)
        ranges = [f"-L{first},{last}" for first, last in spans[:MAX_RUNS]]
        try:
            return Blamer.read_git_lines(self, path, [*drop_range_options(arguments), *ranges])
        except GitError:
            return []

    def attribute_given_lines(
        self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]
    ) -> dict[int, Attribution]:
        """The labels of lines, as far as these lines tell them."""
        own = self.attributor.attribute_lines(lines)
        found = {line.line: label for line in lines if (label := attribution_at(own[line.version], line.number))}
        observed = [
            line for line in lines if line.line in found and self.attributor.is_found_by_comparison(found[line.line])
        ]
        rest = [line for line in lines if line.line not in found]
        elsewhere = UnattributedLines(self.git, self.attributor)
        behind = elsewhere.attribute_lines(path, arguments, [*rest, *observed])
        beside = elsewhere.added_beside_existing(observed, found, behind) if behind else set[int]()
        late = self.lines_copied_later(behind, {line.line: found[line.line] for line in observed})
        anybodys = {n.line for n in observed if not found[n.line].proved and not is_distinctive_line(n.content)}
        behind = {line: label for line, label in behind.items() if line not in late | anybodys | beside}
        behind |= self.find_reapplied_lines(
            [n for n in [*rest, *observed] if n.line not in behind], elsewhere.lines_by_calls
        )
        left = [line for line in observed if line.line not in behind and found[line.line].proved]
        doubtful = RecordedBlocks(self.git, self.attributor).lines_written_before(left) if left else set[int]()
        known = {**{line: label for line, label in found.items() if line not in doubtful}, **behind}
        back = elsewhere.removed_by_own_record(lines, known)
        return {line: label for line, label in known.items() if line not in back} if back else known

    def find_reapplied_lines(self, lines: Sequence[GitLine], called: Collection[bytes]) -> dict[int, Attribution]:
        """The labels of those of the lines that a call had put there before they came, as git's own commands bring.
        `called` are texts that a call may have put into some file.
        """
        if not called or not any(line.content in called for line in lines):
            return {}
        young = {line.version for line in lines if self.attributor.may_hold_recorded_lines(line.version)}
        steps = {place: [step for way in self.attributor.certain_routes(place) for step in way] for place in young}
        brought = {place for place, way in steps.items() if any(step.inferred or step.unproved for step in way)}
        asked = [line for line in lines if line.version in brought]
        if not any(is_distinctive_line(line.content) for line in asked):
            return {}
        from remit.provenance.origins.reapplied_lines import (
            ReappliedLines,  # for start-up speed: few files hold such lines
        )

        return ReappliedLines(self.attributor).attribute_lines(asked)

    def lines_copied_later(self, sources: dict[int, Attribution], observed: dict[int, Attribution]) -> set[int]:
        """The lines that a person's edit had before the call that wrote them elsewhere: that call copied them."""
        both = sources.keys() & observed.keys()
        records = self.load_records(label.record for line in both for label in (sources[line], observed[line]))
        seq = {name: record["metadata"][KEY].get("chain", {}).get("seq", 0) for name, record in records.items()}
        return {line for line in both if seq.get(sources[line].record, 0) > seq.get(observed[line].record, 0)}

    def read_git_lines(self, path: str, arguments: Sequence[str]) -> list[GitLine]:
        """The lines by git, or those of a file that no commit has. Raises GitError."""
        try:
            out = self.git.run("blame", "--porcelain", *arguments, "--", path)
        except GitError:
            fresh = self.read_uncommitted_file(path, arguments)
            if fresh is None:
                raise
            return fresh
        return read_git_lines(out, self.attributor.prefix)

    def read_uncommitted_file(self, path: str, arguments: Sequence[str]) -> list[GitLine] | None:
        """The lines of a file that is in no commit yet; None where that is not so, or other than lines was asked.

        Raises GitError, in git's words, where it has no such lines.
        """
        wanted = [LINE_RANGE.fullmatch(argument) for argument in arguments]
        file = self.workspace.root / path
        known = os.path.islink(file) or not os.path.isfile(file) or self.exists_in_head(path)  # noqa: PTH113, PTH114  no path is too long for these
        if known or None in wanted or self.is_in_other_repository(path):
            return None
        texts = file.read_bytes().split(b"\n")
        texts = texts[:-1] if not texts[-1] else texts
        spans = [(int(w[1]), int(w[2])) for w in wanted if w] or [(1, len(texts))]
        if any(low > len(texts) for low, _ in spans if wanted):
            raise GitError(("blame", *arguments), GIT_FATAL, f"fatal: file {path} has only {len(texts)} lines")
        place = FileVersion("0" * 40, path, None)
        numbered = enumerate(texts, 1)
        return [GitLine(place, n, n, text) for n, text in numbered if any(low <= n <= high for low, high in spans)]

    def is_in_other_repository(self, path: str) -> bool:
        """Whether a path is git's own, or lies in a repository of its own below this one, such as a submodule."""
        *folders, _ = Path(path).parts
        below = (Path(*folders[: n + 1]) for n in range(len(folders)))
        return ".git" in folders or any((self.workspace.root / folder / ".git").exists() for folder in below)

    def exists_in_head(self, path: str) -> bool:
        """Whether HEAD has that path."""
        return bool(self.git.text("rev-parse", "--verify", "--quiet", f"HEAD:./{path}", ok=(0, 1, 128)))

    def load_records(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The records of those ids."""
        return {name: documents[0] for name in set(names) if (documents := self.index.find_by_id_prefix(name))}

    def describe_record(self, attribution: Attribution, records: dict[str, dict[str, Any]]) -> tuple[Any, ...]:
        """What is known of every line with that label: the fields of a `BlamedLine` from `origin` on."""
        document = records.get(attribution.record)
        if document is None:
            return ()
        body: dict[str, Any] = document["metadata"][KEY]
        nobody = (None, None, None, None, None)
        if body.get("event") == "human_edit" and body.get("origin") == "person":
            return ("human", *nobody, attribution.grade, attribution.record)
        if body.get("event") == "human_edit" or not (attribution.proved or attribution.likely):
            return ("unknown", *nobody, None, attribution.record, read_candidates(document))
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
    """The model that a mutation record names."""
    files: list[dict[str, Any]] = document.get("files", [])
    for file in files:
        for conversation in file.get("conversations", []):
            model = conversation.get("contributor", {}).get("model_id")
            if model:
                return str(model)
    return None
