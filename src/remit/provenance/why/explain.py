"""Explanation of lines for `remit why`: intent, conversation, edit, and later edits of the file.

Lines are followed from version to version by the recorded differences; across an unrecorded version the neighbouring
contents are compared.
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

GIT_FATAL = 128
MAX_CAUSES = 50
MAX_LINE_CHARS = 1000
MAX_LATER_EDITS = 20


class NoSuchLines(ValueError):
    """The file is not in the repository, or has no such lines. The message is git's."""


OpenConversations: TypeAlias = Callable[[Sequence[AgentSession]], Conversations]
"""Open the conversations of these sessions."""


class Explainer:
    """Explainer of lines in one workspace. `document` is the intents file in force.

    Lines with evidence outside `grades` are unknown.
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
        """Return the explanation of lines `lines` (from 1, inclusive) of `path`; None is the whole file. Raises
        NoSuchLines, GitError.
        """
        blamed = [filter_by_grade(line, self.grades) for line in blame_lines(self.blamer, path, lines)]
        if self.open_conversations is None:
            return self.explain_lines(path, blamed, None)
        with self.open_conversations(sessions_of_lines(blamed)) as conversations:
            return self.explain_lines(path, blamed, conversations)

    def explain_lines(
        self, path: str, blamed: Iterable[BlamedLine], conversations: Conversations | None
    ) -> Explanation:
        index, passages = self.blamer.index, group_passages(blamed)
        text_by_record = {p.record: p.text for p in reversed(passages) if p.record}
        records = sorted(text_by_record, reverse=True)
        recorded = quote_path(path)
        builder = CauseBuilder(self.blamer, self.store, recorded, conversations, self.document)
        documents = [document for name in records[:MAX_CAUSES] for document in index.find_by_id_prefix(name)]
        classified = tuple(add_computed_classes(documents, self.store))
        proved = {p.record for p in passages if p.origin != "unknown" and p.grade != LIKELY}
        causes = tuple(
            builder.build_cause(d, text_by_record[str(d["id"])], proved=str(d["id"]) in proved) for d in classified
        )
        names = self.file_names(recorded, classified)
        return Explanation(
            path=recorded,
            passages=passages,
            causes=causes,
            commits=describe_commits(self.blamer.git, (p.commit for p in passages)),
            later=find_later_edits(self.blamer.attributor, names, {c.record: text_by_record[c.record] for c in causes}),
            left_out=max(0, len(records) - MAX_CAUSES),
            remarks=tuple(sorted({*builder.remarks, *filter(None, [conversations and conversations.problem])})),
        )

    def file_names(self, path: str, documents: Iterable[dict[str, Any]]) -> tuple[str, ...]:
        """Return the file's current and former names, without names that other files have now."""
        root = self.blamer.workspace.root
        former = dict.fromkeys(recorded_path(body_of(document), path) for document in documents)
        return (path, *(name for name in former if name != path and not (root / name).exists()))


def blame_lines(blamer: Blamer, path: str, lines: tuple[int, int] | None) -> list[BlamedLine]:
    """Blame those lines. Raises NoSuchLines, GitError."""
    try:
        return blamer.blame(path, [f"-L{lines[0]},{lines[1]}"] if lines else [])
    except GitError as error:
        if error.code != GIT_FATAL:
            raise
        raise NoSuchLines(error.message.strip().removeprefix("fatal: ")) from error


def sessions_of_lines(blamed: Iterable[BlamedLine]) -> list[AgentSession]:
    """Return the sessions that wrote these lines, or ran when they came."""
    sessions = [(writer.agent, writer.session_id) for line in blamed for writer in (line, *line.candidates)]
    return [AgentSession(agent or "", session) for agent, session in dict.fromkeys(sessions) if session]


def group_passages(lines: Iterable[BlamedLine]) -> tuple[Passage, ...]:
    """Group consecutive lines with the same origin, commit and record."""
    passages: list[Passage] = []
    for line in lines:
        last = passages[-1] if passages else None
        if last and passage_key(last) == passage_key(line) and last.end == line.line - 1:
            passages[-1] = replace(last, end=line.line)
        else:
            facts = (line.origin, line.commit, line.record, line.content[:MAX_LINE_CHARS], line.candidates)
            passages.append(Passage(line.line, line.line, *facts, line.agent, line.intent_id, line.grade))
    return tuple(passages)


def passage_key(line: BlamedLine | Passage) -> tuple[str | None, ...]:
    """Return the key that neighbouring lines share; without a record also the claimed agent and intent."""
    likely = LIKELY if line.grade == LIKELY else None
    return (line.origin, line.commit, line.record, likely, *(() if line.record else (line.agent, line.intent_id)))


def find_later_edits(attributor: LineAttributor, paths: Iterable[str], asked: dict[str, str]) -> tuple[LaterEdit, ...]:
    """Return the edits of the file after the newest record in `asked`, newest first.

    `paths` are the file's names over time. `asked` maps records to the text of the line asked about. Edits of the same
    lines are marked.
    """
    newest = max(asked, default=None)
    if newest is None:
        return ()
    changes = sorted((c for path in paths for c in attributor.index.list_changes(path)), key=lambda c: c.id)
    same_lines = {
        change.id
        for record, text in asked.items()
        for change in changes_of_same_lines(attributor, changes, record, text)
    }
    later = [c for c in changes if c.id > newest and not c.came_from_git]
    chosen = [c for c in later[:-MAX_LATER_EDITS] if c.id in same_lines] + later[-MAX_LATER_EDITS:]
    return tuple(LaterEdit(c.id, c.at, c.intent_id, c.session_id, c.id in same_lines) for c in reversed(chosen))


def changes_of_same_lines(
    attributor: LineAttributor, changes: Sequence[RecordedChange], record: str, text: str
) -> Iterator[RecordedChange]:
    """Yield later changes of the lines that `record` put around the line `text`."""
    position = next((n for n, change in enumerate(changes) if change.id == record), None)
    if position is None:
        return
    spans = lines_put_there(attributor, changes[position], text)
    blob = changes[position].after_blob
    for change in changes[position + 1 :]:
        gap_hunks = () if change.before_blob == blob else hunks_between(attributor, blob, change.before_blob)
        own_hunks = hunks_of_change(attributor, change)
        if gap_hunks is None or own_hunks is None or not spans:
            return
        spans = carry_spans(spans, gap_hunks)
        if any(hunk_touches(hunk, spans) for hunk in own_hunks) and not change.came_from_git:
            yield change
        spans, blob = carry_spans(spans, own_hunks), change.after_blob


def lines_put_there(attributor: LineAttributor, change: RecordedChange, text: str) -> tuple[Span, ...]:
    """Return the lines that a change inserted around the line `text`, else every inserted line."""
    hunks = hunks_of_change(attributor, change)
    spans = [(hunk.new, hunk.new + hunk.new_lines - 1) for hunk in hunks or () if hunk.new_lines]
    attributor.load_contents({change.after_blob} if change.after_blob else set())
    lines = attributor.lines_of(change.after_blob) or ()
    matching = [s for s in spans if any(line.decode("utf-8", "replace") == text for line in lines[s[0] - 1 : s[1]])]
    return merge_spans(matching or spans)


def hunks_of_change(attributor: LineAttributor, change: RecordedChange) -> tuple[Hunk, ...] | None:
    if change.hunks is not None:
        return change.hunks
    return hunks_between(attributor, change.before_blob, change.after_blob)


def hunks_between(attributor: LineAttributor, before: str | None, after: str | None) -> tuple[Hunk, ...] | None:
    if after is None:
        return None
    attributor.load_hunks([(before, after)])
    return attributor.hunks_by_pair.get((before, after))


def hunk_touches(hunk: Hunk, spans: Iterable[Span]) -> bool:
    """Return whether a hunk removes some of the lines or inserts others between them."""
    if hunk.old_lines:
        return any(first < hunk.old + hunk.old_lines and hunk.old <= last for first, last in spans)
    return any(first <= hunk.old < last for first, last in spans)


def carry_spans(spans: Iterable[Span], hunks: Sequence[Hunk]) -> tuple[Span, ...]:
    return make_spans(carried for number in expand_spans(spans) if (carried := line_after(number, hunks)) is not None)


def line_after(number: int, hunks: Sequence[Hunk]) -> int | None:
    """Return the number of a line behind the hunks; None if removed."""
    shift = 0
    for hunk in hunks:
        if hunk.old_lines and hunk.old <= number < hunk.old + hunk.old_lines:
            return None
        if number > hunk.old if hunk.old_lines == 0 else number >= hunk.old + hunk.old_lines:
            shift += hunk.new_lines - hunk.old_lines
    return number + shift
