"""`remit blame`: git says which version a line came with, Remit says who wrote what that version added."""

import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from remit.core.own_words import is_strong
from remit.core.record import KEY
from remit.core.spans import joined
from remit.ledger.index import Index
from remit.ledger.segments import FOREIGN
from remit.provenance.blame.blamed_line import BlamedLine, blamed, is_unclassed
from remit.provenance.blame.candidates import candidates
from remit.provenance.origins.attribution import Attribution
from remit.provenance.origins.elsewhere import Elsewhere
from remit.provenance.origins.evidence import LIKELY, Label, at
from remit.provenance.origins.moved import MOST_RUNS, without_ranges
from remit.provenance.origins.porcelain import GitLine, Place, read_porcelain
from remit.provenance.origins.recorded_blocks import RecordedBlocks
from remit.workspace.contents import ContentStore
from remit.workspace.git import Git, GitError
from remit.workspace.place import Workspace
from remit.workspace.refs import AUTHORSHIP, may_be_there

NO = 128
"""git's exit code where it cannot do what it is asked."""

LINES = re.compile(r"-L(\d+),(\d+)")

AROUND = 40
"""Lines before and after those of a range, that may tell what they are a part of."""


class Blamer:
    """Blame in one workspace."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        self.workspace = workspace
        self.index = index
        self.git = Git(workspace.root)
        self.attribution = Attribution(workspace, index, store)

    def blame(self, path: str, arguments: Sequence[str] = ()) -> list[BlamedLine]:
        """Each line of `path` with its origin. `arguments` are git blame's own. Raises GitError."""
        found = self.git_lines(path, arguments)
        labels = self.labels(path, arguments, found)
        records = self.records(label.record for label in labels.values())
        told = self.told([line for line in found if line.line not in labels])
        known = {label: self.known(label, records) for label in {*labels.values()}}
        return [
            told.get(line.line) or blamed(line, known[label] if (label := labels.get(line.line)) else ())
            for line in found
        ]

    def classed(self, lines: Sequence[BlamedLine]) -> list[BlamedLine]:
        """The lines, with the class of each change worked out from its contents where the record has none."""
        names = {line.record for line in lines if line.record and is_unclassed(line)}
        if not names:
            return list(lines)
        from remit.provenance.map.syntax import classed  # for start-up speed: not every answer tells classes

        found = {
            str(document["id"]): document["metadata"][KEY].get("mutation_class", {}).get("computed")
            for document in classed(list(self.records(names).values()), self.attribution.store)
        }
        return [
            replace(line, mutation_class=found.get(line.record or "")) if is_unclassed(line) else line for line in lines
        ]

    @property
    def others_are_here(self) -> bool:
        """Whether records of other machines lie here: taken in, or as tracked files."""
        if (self.workspace.log_folder / FOREIGN).is_dir():
            return True
        if not self.workspace.tracked_logs.is_dir():
            return False
        from remit.workspace.tracked import others  # few repositories have them

        return bool(others(self.workspace.tracked_logs, self.workspace.state))

    def told(self, lines: Sequence[GitLine]) -> dict[int, BlamedLine]:
        """Lines that no record of ours explains, as others tell of them: notes, else what was imported."""
        imported = bool(lines) and self.others_are_here
        if not lines or not (imported or may_be_there(self.workspace.common_dir, AUTHORSHIP)):
            return {}
        from remit.provenance.blame.by_others import told_by_others  # for start-up speed: few have such words

        return told_by_others(self.attribution, lines, imported=imported)

    def labels(self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]) -> dict[int, Label]:
        """The label of each line that has one, by its number in the file asked about. Of lines in ranges, those around
        them tell, too: a plain one is a part of the block that it stands in.
        """
        found = self.labels_among(path, arguments, lines)
        if not any(argument.startswith("-L") for argument in arguments):
            return found
        left = [n.line for n in lines if n.line not in found and self.attribution.may_be_recorded(n.place)]
        wide = self.around(path, arguments, left) if left else []
        more = self.labels_among(path, arguments, wide) if len(wide) > len(left) else {}
        return {**{line: more[line] for line in left if line in more}, **found}

    def around(self, path: str, arguments: Sequence[str], numbers: Iterable[int]) -> list[GitLine]:
        """These lines, with some before and after them; none where git says no."""
        spans = joined((max(1, number - AROUND), number + AROUND) for number in numbers)
        ranges = [f"-L{first},{last}" for first, last in spans[:MOST_RUNS]]
        try:
            return Blamer.git_lines(self, path, [*without_ranges(arguments), *ranges])
        except GitError:
            return []

    def labels_among(self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]) -> dict[int, Label]:
        """The labels of lines, as far as these lines tell them."""
        own = self.attribution.labels_of(lines)
        found = {line.line: label for line in lines if (label := at(own[line.place], line.number))}
        observed = [line for line in lines if line.line in found and self.attribution.was_observed(found[line.line])]
        rest = [line for line in lines if line.line not in found]
        elsewhere = Elsewhere(self.git, self.attribution)
        behind = elsewhere.labels(path, arguments, [*rest, *observed])
        beside = elsewhere.put_beside(observed, found, behind) if behind else set[int]()
        late = self.later(behind, {line.line: found[line.line] for line in observed})
        anybodys = {n.line for n in observed if not found[n.line].proved and not is_strong(n.content)}
        behind = {line: label for line, label in behind.items() if line not in late | anybodys | beside}
        behind |= self.brought_back([n for n in [*rest, *observed] if n.line not in behind], elsewhere.called)
        left = [line for line in observed if line.line not in behind and found[line.line].proved]
        doubtful = RecordedBlocks(self.git, self.attribution).doubtful(left) if left else set[int]()
        known = {**{line: label for line, label in found.items() if line not in doubtful}, **behind}
        back = elsewhere.taken_back(lines, known)
        return {line: label for line, label in known.items() if line not in back} if back else known

    def brought_back(self, lines: Sequence[GitLine], called: Collection[bytes]) -> dict[int, Label]:
        """The labels of those of the lines that a call had put there before they came, as git's own commands bring.
        `called` are texts that a call may have put into some file.
        """
        if not called or not any(line.content in called for line in lines):
            return {}
        young = {line.place for line in lines if self.attribution.may_be_recorded(line.place)}
        steps = {place: [step for way in self.attribution.sure_ways(place) for step in way] for place in young}
        brought = {place for place, way in steps.items() if any(step.loose or step.unproved for step in way)}
        asked = [line for line in lines if line.place in brought]
        if not any(is_strong(line.content) for line in asked):
            return {}
        from remit.provenance.origins.brought_back import BroughtBack  # for start-up speed: few files hold such lines

        return BroughtBack(self.attribution).labels(asked)

    def later(self, behind: dict[int, Label], observed: dict[int, Label]) -> set[int]:
        """The lines that a person's edit had before the call that wrote them elsewhere: that call copied them."""
        both = behind.keys() & observed.keys()
        records = self.records(label.record for line in both for label in (behind[line], observed[line]))
        seq = {name: record["metadata"][KEY].get("chain", {}).get("seq", 0) for name, record in records.items()}
        return {line for line in both if seq.get(behind[line].record, 0) > seq.get(observed[line].record, 0)}

    def git_lines(self, path: str, arguments: Sequence[str]) -> list[GitLine]:
        """The lines by git, or those of a file that no commit has. Raises GitError."""
        try:
            out = self.git.run("blame", "--porcelain", *arguments, "--", path)
        except GitError:
            fresh = self.fresh_lines(path, arguments)
            if fresh is None:
                raise
            return fresh
        return read_porcelain(out, self.attribution.prefix)

    def fresh_lines(self, path: str, arguments: Sequence[str]) -> list[GitLine] | None:
        """The lines of a file that is in no commit yet; None where that is not so, or other than lines was asked.

        Raises GitError, in git's words, where it has no such lines.
        """
        wanted = [LINES.fullmatch(argument) for argument in arguments]
        file = self.workspace.root / path
        known = os.path.islink(file) or not os.path.isfile(file) or self.committed(path)  # noqa: PTH113, PTH114  no path is too long for these
        if known or None in wanted or self.of_another(path):
            return None
        texts = file.read_bytes().split(b"\n")
        texts = texts[:-1] if not texts[-1] else texts
        spans = [(int(w[1]), int(w[2])) for w in wanted if w] or [(1, len(texts))]
        if any(low > len(texts) for low, _ in spans if wanted):
            raise GitError(("blame", *arguments), NO, f"fatal: file {path} has only {len(texts)} lines")
        place = Place("0" * 40, path, None)
        numbered = enumerate(texts, 1)
        return [GitLine(place, n, n, text) for n, text in numbered if any(low <= n <= high for low, high in spans)]

    def of_another(self, path: str) -> bool:
        """Whether a path is git's own, or lies in a repository of its own below this one, such as a submodule."""
        *folders, _ = Path(path).parts
        below = (Path(*folders[: n + 1]) for n in range(len(folders)))
        return ".git" in folders or any((self.workspace.root / folder / ".git").exists() for folder in below)

    def committed(self, path: str) -> bool:
        """Whether HEAD has that path."""
        return bool(self.git.text("rev-parse", "--verify", "--quiet", f"HEAD:./{path}", ok=(0, 1, 128)))

    def records(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The records of those ids."""
        return {name: documents[0] for name in set(names) if (documents := self.index.by_id(name))}

    def known(self, label: Label, records: dict[str, dict[str, Any]]) -> tuple[Any, ...]:
        """What is known of every line with that label: the fields of a `BlamedLine` from `origin` on."""
        document = records.get(label.record)
        if document is None:
            return ()
        body: dict[str, Any] = document["metadata"][KEY]
        nobody = (None, None, None, None, None)
        if body.get("event") == "human_edit" and body.get("origin") == "person":
            return ("human", *nobody, label.grade, label.record)
        if body.get("event") == "human_edit" or not (label.proved or label.likely):
            return ("unknown", *nobody, None, label.record, candidates(document))
        return (
            "ai",
            document.get("tool", {}).get("name"),
            model_of(document),
            body.get("session_id"),
            body.get("intent_id"),
            body.get("mutation_class", {}).get("computed"),
            label.grade if label.proved else LIKELY,
            label.record,
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
