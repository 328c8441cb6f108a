"""`remit why`: the intent, the conversation and the edit behind lines, and what surrounded that edit."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from remit.core.intent import IntentsDocument
from remit.core.text import quoted_path
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine, believed
from remit.provenance.map.syntax import classed
from remit.provenance.origins.evidence import GRADES, LIKELY
from remit.provenance.why.causes import Causes, body_of, path_then
from remit.provenance.why.commits import commits
from remit.provenance.why.conversations import Conversations
from remit.provenance.why.explanation import Explanation, Passage
from remit.provenance.why.later import later
from remit.provenance.why.talk import Session
from remit.workspace.contents import ContentStore
from remit.workspace.git import GitError

GIT_FATAL = 128
MOST_CAUSES = 50
TEXT_CHARS = 1000


class NoSuchLines(ValueError):
    """The file is not in the repository, or has no such lines. The message is git's."""


Opening: TypeAlias = Callable[[Sequence[Session]], Conversations]
"""Gives the conversations of these sessions."""


class Why:
    """Explanations in one workspace. `document` is the intents file in force; `listen` opens conversations.

    Lines with other evidence than `grades` are unknown.
    """

    def __init__(
        self,
        blamer: Blamer,
        store: ContentStore,
        listen: Opening | None = None,
        document: IntentsDocument | None = None,
        grades: Collection[str] = GRADES,
    ) -> None:
        self.blamer = blamer
        self.store = store
        self.listen = listen
        self.document = document
        self.grades = grades

    def explain(self, path: str, lines: tuple[int, int] | None = None) -> Explanation:
        """What is behind lines `lines` (1-based, both included) of `path`; None is the whole file.

        Raises NoSuchLines, GitError.
        """
        blamed = [believed(line, self.grades) for line in blame_lines(self.blamer, path, lines)]
        if self.listen is None:
            return self.told(path, blamed, None)
        with self.listen(sessions(blamed)) as conversations:
            return self.told(path, blamed, conversations)

    def told(self, path: str, blamed: Iterable[BlamedLine], conversations: Conversations | None) -> Explanation:
        """What is behind these lines."""
        index, found = self.blamer.index, passages(blamed)
        asked = {p.record: p.text for p in reversed(found) if p.record}
        records = sorted(asked, reverse=True)
        recorded = quoted_path(path)
        telling = Causes(self.blamer, self.store, recorded, conversations, self.document)
        documents = [document for name in records[:MOST_CAUSES] for document in index.by_id(name)]
        known = tuple(classed(documents, self.store))
        proved = {p.record for p in found if p.origin != "unknown" and p.grade != LIKELY}
        causes = tuple(telling.cause(d, asked[str(d["id"])], proved=str(d["id"]) in proved) for d in known)
        names = self.names(recorded, known)
        return Explanation(
            path=recorded,
            passages=found,
            causes=causes,
            commits=commits(self.blamer.git, (p.commit for p in found)),
            later=later(self.blamer.attribution, names, {c.record: asked[c.record] for c in causes}),
            left_out=max(0, len(records) - MOST_CAUSES),
            remarks=tuple(sorted({*telling.remarks, *filter(None, [conversations and conversations.trouble])})),
        )

    def names(self, path: str, documents: Iterable[dict[str, Any]]) -> tuple[str, ...]:
        """What the file is called, and was called when these records were made; not what another file is called now."""
        root = self.blamer.workspace.root
        before = dict.fromkeys(path_then(body_of(document), path) for document in documents)
        return (path, *(name for name in before if name != path and not (root / name).exists()))


def blame_lines(blamer: Blamer, path: str, lines: tuple[int, int] | None) -> list[BlamedLine]:
    """Those lines with their origin. Raises NoSuchLines, GitError."""
    try:
        return blamer.blame(path, [f"-L{lines[0]},{lines[1]}"] if lines else [])
    except GitError as error:
        if error.code != GIT_FATAL:
            raise
        raise NoSuchLines(error.message.strip().removeprefix("fatal: ")) from error


def sessions(blamed: Iterable[BlamedLine]) -> list[Session]:
    """The sessions that wrote these lines, or were at work when they came."""
    at_work = [(who.agent, who.session_id) for line in blamed for who in (line, *line.candidates)]
    return [Session(agent or "", session) for agent, session in dict.fromkeys(at_work) if session]


def passages(lines: Iterable[BlamedLine]) -> tuple[Passage, ...]:
    """Lines in a row that share origin, commit and record, as one."""
    found: list[Passage] = []
    for line in lines:
        last = found[-1] if found else None
        if last and told_by(last) == told_by(line) and last.end == line.line - 1:
            found[-1] = replace(last, end=line.line)
        else:
            about = (line.origin, line.commit, line.record, line.content[:TEXT_CHARS], line.candidates)
            found.append(Passage(line.line, line.line, *about, line.agent, line.intent_id, line.grade))
    return tuple(found)


def told_by(one: BlamedLine | Passage) -> tuple[str | None, ...]:
    """What neighbouring lines have to share; where no record tells of them, whose they are said to be, too."""
    likely = LIKELY if one.grade == LIKELY else None
    return (one.origin, one.commit, one.record, likely, *(() if one.record else (one.agent, one.intent_id)))
