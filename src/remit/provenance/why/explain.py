"""`remit why`: the intent, the conversation and the edit behind lines, and what surrounded that edit.

What happened to a file after an edit, and which of it changed the very lines that the edit had put there.

The lines are followed from version to version by the recorded differences; where a version in between was recorded by
nobody, by comparing its neighbours.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from remit.core.diff.contents import Hunk
from remit.core.diff.line_spans import Span, expand_spans, make_spans, merge_spans
from remit.core.display_text import quote_path
from remit.core.intent import IntentsDocument
from remit.ledger.file_changes import RecordedChange
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine, filter_by_grade
from remit.provenance.map.change_classes import add_computed_classes
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.evidence import GRADES, LIKELY
from remit.provenance.why.causes import CauseBuilder, body_of, recorded_path
from remit.provenance.why.commit_details import describe_commits
from remit.provenance.why.conversations import AgentSession, Conversations
from remit.provenance.why.explanation import Explanation, LaterEdit, Passage
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import GitError

MAX_LATER_EDITS = 20


def find_later_edits(attributor: LineAttributor, paths: Iterable[str], asked: dict[str, str]) -> tuple[LaterEdit, ...]:
    """What changed the file after the newest record in `asked`, the newest first.

    `paths` are the names that it had. `asked` is by record the text of the line that the question is about. What
    changed lines of those edits is marked.
    """
    newest = max(asked, default=None)
    if newest is None:
        return ()
    changes = sorted((c for path in paths for c in attributor.index.list_changes(path)), key=lambda c: c.id)
    again = {
        change.id
        for record, text in asked.items()
        for change in changes_of_same_lines(attributor, changes, record, text)
    }
    after = [c for c in changes if c.id > newest and not c.came_from_git]
    chosen = [c for c in after[:-MAX_LATER_EDITS] if c.id in again] + after[-MAX_LATER_EDITS:]
    return tuple(LaterEdit(c.id, c.at, c.intent_id, c.session_id, c.id in again) for c in reversed(chosen))


def changes_of_same_lines(
    attributor: LineAttributor, changes: Sequence[RecordedChange], record: str, text: str
) -> Iterator[RecordedChange]:
    """The later changes of lines that `record` put there around the line `text`."""
    place = next((n for n, change in enumerate(changes) if change.id == record), None)
    if place is None:
        return
    spans = lines_put_there(attributor, changes[place], text)
    blob = changes[place].after_blob
    for change in changes[place + 1 :]:
        between = () if change.before_blob == blob else hunks_between(attributor, blob, change.before_blob)
        own = (
            change.hunks
            if change.hunks is not None
            else hunks_between(attributor, change.before_blob, change.after_blob)
        )
        if between is None or own is None or not spans:
            return
        spans = carry_spans(spans, between)
        if any(hunk_touches(hunk, spans) for hunk in own) and not change.came_from_git:
            yield change
        spans, blob = carry_spans(spans, own), change.after_blob


def lines_put_there(attributor: LineAttributor, change: RecordedChange, text: str) -> tuple[Span, ...]:
    """The lines that a change put into the file: those around the line `text`, else all."""
    hunks = hunks_of_change(attributor, change)
    spans = [(hunk.new, hunk.new + hunk.new_lines - 1) for hunk in hunks or () if hunk.new_lines]
    attributor.load_contents({change.after_blob} if change.after_blob else set())
    lines = attributor.lines_of(change.after_blob) or ()
    holding = [s for s in spans if any(line.decode("utf-8", "replace") == text for line in lines[s[0] - 1 : s[1]])]
    return merge_spans(holding or spans)


def hunks_of_change(attributor: LineAttributor, change: RecordedChange) -> tuple[Hunk, ...] | None:
    """What a change did to the file."""
    if change.hunks is not None:
        return change.hunks
    return hunks_between(attributor, change.before_blob, change.after_blob)


def hunks_between(attributor: LineAttributor, before: str | None, after: str | None) -> tuple[Hunk, ...] | None:
    """How two contents differ; None where one is gone."""
    if after is None:
        return None
    attributor.load_hunks([(before, after)])
    return attributor.hunks_by_pair.get((before, after))


def hunk_touches(hunk: Hunk, spans: Iterable[Span]) -> bool:
    """Whether a difference takes some of these lines out, or puts others between them."""
    if hunk.old_lines:
        return any(first < hunk.old + hunk.old_lines and hunk.old <= last for first, last in spans)
    return any(first <= hunk.old < last for first, last in spans)


def carry_spans(spans: Iterable[Span], hunks: Sequence[Hunk]) -> tuple[Span, ...]:
    """Where those of the lines are afterwards that stay."""
    return make_spans(moved for number in expand_spans(spans) if (moved := line_after(number, hunks)) is not None)


def line_after(number: int, hunks: Sequence[Hunk]) -> int | None:
    """Where a line is after those differences; None where it was taken out."""
    shift = 0
    for hunk in hunks:
        if hunk.old_lines and hunk.old <= number < hunk.old + hunk.old_lines:
            return None
        if number > hunk.old if hunk.old_lines == 0 else number >= hunk.old + hunk.old_lines:
            shift += hunk.new_lines - hunk.old_lines
    return number + shift


GIT_FATAL = 128
MAX_CAUSES = 50
MAX_LINE_CHARS = 1000


class NoSuchLines(ValueError):
    """The file is not in the repository, or has no such lines. The message is git's."""


OpenConversations: TypeAlias = Callable[[Sequence[AgentSession]], Conversations]
"""Gives the conversations of these sessions."""


class Explainer:
    """Explanations in one workspace. `document` is the intents file in force; `listen` opens conversations.

    Lines with other evidence than `grades` are unknown.
    """

    def __init__(
        self,
        blamer: Blamer,
        store: ContentStore,
        open_conversations: OpenConversations | None = None,
        document: IntentsDocument | None = None,
        grades: Collection[str] = GRADES,
    ) -> None:
        self.blamer = blamer
        self.store = store
        self.open_conversations = open_conversations
        self.document = document
        self.grades = grades

    def explain(self, path: str, lines: tuple[int, int] | None = None) -> Explanation:
        """What is behind lines `lines` (1-based, both included) of `path`; None is the whole file.

        Raises NoSuchLines, GitError.
        """
        blamed = [filter_by_grade(line, self.grades) for line in blame_lines(self.blamer, path, lines)]
        if self.open_conversations is None:
            return self.explain_lines(path, blamed, None)
        with self.open_conversations(sessions_of_lines(blamed)) as conversations:
            return self.explain_lines(path, blamed, conversations)

    def explain_lines(
        self, path: str, blamed: Iterable[BlamedLine], conversations: Conversations | None
    ) -> Explanation:
        """What is behind these lines."""
        index, found = self.blamer.index, group_passages(blamed)
        asked = {p.record: p.text for p in reversed(found) if p.record}
        records = sorted(asked, reverse=True)
        recorded = quote_path(path)
        telling = CauseBuilder(self.blamer, self.store, recorded, conversations, self.document)
        documents = [document for name in records[:MAX_CAUSES] for document in index.find_by_id_prefix(name)]
        known = tuple(add_computed_classes(documents, self.store))
        proved = {p.record for p in found if p.origin != "unknown" and p.grade != LIKELY}
        causes = tuple(telling.build_cause(d, asked[str(d["id"])], proved=str(d["id"]) in proved) for d in known)
        names = self.file_names(recorded, known)
        return Explanation(
            path=recorded,
            passages=found,
            causes=causes,
            commits=describe_commits(self.blamer.git, (p.commit for p in found)),
            later=find_later_edits(self.blamer.attributor, names, {c.record: asked[c.record] for c in causes}),
            left_out=max(0, len(records) - MAX_CAUSES),
            remarks=tuple(sorted({*telling.remarks, *filter(None, [conversations and conversations.problem])})),
        )

    def file_names(self, path: str, documents: Iterable[dict[str, Any]]) -> tuple[str, ...]:
        """What the file is called, and was called when these records were made; not what another file is called now."""
        root = self.blamer.workspace.root
        before = dict.fromkeys(recorded_path(body_of(document), path) for document in documents)
        return (path, *(name for name in before if name != path and not (root / name).exists()))


def blame_lines(blamer: Blamer, path: str, lines: tuple[int, int] | None) -> list[BlamedLine]:
    """Those lines with their origin. Raises NoSuchLines, GitError."""
    try:
        return blamer.blame(path, [f"-L{lines[0]},{lines[1]}"] if lines else [])
    except GitError as error:
        if error.code != GIT_FATAL:
            raise
        raise NoSuchLines(error.message.strip().removeprefix("fatal: ")) from error


def sessions_of_lines(blamed: Iterable[BlamedLine]) -> list[AgentSession]:
    """The sessions that wrote these lines, or were at work when they came."""
    at_work = [(who.agent, who.session_id) for line in blamed for who in (line, *line.candidates)]
    return [AgentSession(agent or "", session) for agent, session in dict.fromkeys(at_work) if session]


def group_passages(lines: Iterable[BlamedLine]) -> tuple[Passage, ...]:
    """Lines in a row that share origin, commit and record, as one."""
    found: list[Passage] = []
    for line in lines:
        last = found[-1] if found else None
        if last and passage_key(last) == passage_key(line) and last.end == line.line - 1:
            found[-1] = replace(last, end=line.line)
        else:
            about = (line.origin, line.commit, line.record, line.content[:MAX_LINE_CHARS], line.candidates)
            found.append(Passage(line.line, line.line, *about, line.agent, line.intent_id, line.grade))
    return tuple(found)


def passage_key(one: BlamedLine | Passage) -> tuple[str | None, ...]:
    """What neighbouring lines have to share; where no record tells of them, whose they are said to be, too."""
    likely = LIKELY if one.grade == LIKELY else None
    return (one.origin, one.commit, one.record, likely, *(() if one.record else (one.agent, one.intent_id)))
