"""Explanation of lines for `remit why`: the edits behind them, their intents and conversations, and later edits.

Records name the intents file by its hash. Lines are followed from version to version by the recorded differences;
across an unrecorded version the neighbouring contents are compared.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from remit.core.diff.contents import Hunk, Span, expand_spans, make_spans, merge_spans, sha256
from remit.core.intent import INTENTS_FOLDER, LIST_FILE, Intent, IntentsDocument, identify, split_id
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.ledger.file_changes import RecordedChange
from remit.ledger.index.index import Filters, Index
from remit.provenance.blame.blame import Blamer, model_of
from remit.provenance.blame.blamed_line import BlamedLine, body_of, filter_by_grade
from remit.provenance.map.change_classes import add_computed_classes
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.evidence_grades import GRADES, LIKELY
from remit.provenance.origins.intent_names import UNSURE_MARK
from remit.provenance.why import explanation
from remit.provenance.why.commit_summary import describe_commits
from remit.provenance.why.conversation_store import AgentSession, Conversations, OpenConversations, find_talk
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import parse_batch_output
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

INTENTS_PLACES = (f"{ORCHESTRATION_FOLDER}/{LIST_FILE}", f"{ORCHESTRATION_FOLDER}/{INTENTS_FOLDER}/")
MAX_VERSIONS = 300
MAX_DENIALS = 5
MAX_CHECKS = 5
MAX_ANSWERS = 1000
ONCE_GRANT = "once"  # grant of a call that a person approved once
MAX_DIFFS = 20
MAX_DIFF_CHARS = 256 * 1024


class PastIntents:
    """Available versions of the intents file. `current` is the one in force."""

    def __init__(self, git: Git, index: Index, store: ContentStore, current: IntentsDocument | None) -> None:
        self.git, self.index, self.store, self.current = git, index, store, current
        known = (current.sha256, *current.digests.values()) if current else ()
        self.versions: dict[str, IntentsDocument | None] = dict.fromkeys(known, current)
        self.committed: dict[str, bytes] | None = None

    def find_intent(self, intent_id: str, digest: str, uid: str | None) -> Intent | None:
        """Return the intent in the version with that SHA-256, from recorded changes or commits; None if unavailable."""
        if digest and digest not in self.versions:
            changes = self.index.list_changes_to_content(digest)
            blobs = (c.after_blob for c in changes if c.path.startswith(INTENTS_PLACES) and c.after_blob)
            content = next((content for blob in blobs if (content := self.store.load(blob)) is not None), None)
            if content is None:
                if self.committed is None:
                    self.committed = {sha256(committed): committed for committed in self.read_committed_versions()}
                content = self.committed.get(digest)
            self.versions[digest] = parse_intents(content) if content is not None else None
        return find_own_intent(self.versions.get(digest), intent_id, uid)

    def read_committed_versions(self) -> list[bytes]:
        """Return the versions of the files in the newest 300 commits that changed them."""
        try:
            words = ("--raw", "--format=", "--no-abbrev", "--no-renames", "-n", str(MAX_VERSIONS), "--")
            rows = self.git.text("log", *words, *INTENTS_PLACES).splitlines()
            blobs = [row.split()[3] for row in rows if row.startswith(":") and row.split()[3].strip("0")]
            stdin = "".join(f"{blob}\n" for blob in blobs)
            output = self.git.run("cat-file", "--batch", stdin=stdin.encode()) if blobs else b""
        except GitError:
            return []
        return [content for content in parse_batch_output(output) if content is not None]


def find_own_intent(document: IntentsDocument | None, label: str, uid: str | None) -> Intent | None:
    intents = document.intents if document else ()
    found = [i for i in intents if (identify(i) == uid if uid else split_id(i.id)[0] == label)]
    return found[0] if len(found) == 1 else None


class CauseBuilder:
    """Builder of the causes of one file's lines. `remarks` collects failures to report."""

    def __init__(
        self,
        blamer: Blamer,
        store: ContentStore,
        path: str,
        conversations: Conversations | None,
        document: IntentsDocument | None,
    ) -> None:
        self.index, self.store, self.path, self.conversations = blamer.index, store, path, conversations
        self.names = blamer.names
        self.intents = PastIntents(blamer.git, blamer.index, store, document)
        self.diff_count = 0
        self.remarks: set[str] = set()

    def build_cause(self, document: dict[str, Any], line: str, *, proved: bool = True) -> explanation.Cause:
        index, body = self.index, body_of(document)
        call: dict[str, Any] = body.get("call", {})
        at, session, intent = str(document["timestamp"]), body.get("session_id"), body.get("intent_id")
        digest = str(body.get("decision", {}).get("intent_sha256") or "")
        uid, name = body.get("intent_uid"), self.names.find_name(body)
        intent_then = self.intents.find_intent(intent, digest, uid) if intent else None
        intent_now = find_own_intent(self.intents.current, name, uid) if name else None

        def newest_value(event: str, name: str, session: str | None = None) -> str:
            by: Filters = {"event": event, "session_id": session, "until": at}
            own: Filters = {**by, "intent_uid": uid}
            label: Filters = {**by, "intent_id": intent}
            documents = (index.find(limit=1, **own) if uid else []) or index.find(limit=1, **label)
            return str(body_of(documents[0]).get(name) or "") if documents else ""

        by: Literal["agent", "person", "unknown"] = "agent" if proved else "unknown"
        if body.get("event") == "human_edit":
            by = "person" if body.get("origin") == "person" else "unknown"
        diff = self.make_diff(body)
        lines = (diff or "").split("\n")
        added = (n for n, found in enumerate(lines) if found.startswith("+"))
        return explanation.Cause(
            record=str(document["id"]),
            at=at,
            by=by,
            tool=str(call.get("name") or ""),
            command=sanitise_line(str(call.get("command") or ""), 500),
            agent=document.get("tool", {}).get("name"),
            model=model_of(document),
            session_id=session,
            agent_id=body.get("agent_id"),
            intent_id=name,
            intent_then=intent if name not in (intent, f"{intent}{UNSURE_MARK}") else None,
            intent_name=(intent_then.title if intent_then else newest_value("intent_changed", "name") or None)
            if intent
            else None,
            intent_status=intent_now.status if intent_now else None,
            criteria=criteria_texts(intent_then),
            criteria_now=criteria_texts(intent_now),
            scope=intent_then.owned_scope if intent_then else None,
            mutation_class=body.get("mutation_class", {}).get("computed"),
            in_scope=body.get("in_scope"),
            reasoning=newest_value("intent_selected", "reasoning", session) if session and intent else "",
            talk=self.find_talk(body, at),
            diff=diff,
            focus=lines.index(f"+{line}") if f"+{line}" in lines else next(added, 0),
            denials=find_denials(index, session, recorded_path(body, self.path), at),
            approvals=find_approvals(index, session, call.get("id"), at),
            checks=find_verifications(index, intent, at),
        )

    def find_talk(self, body: dict[str, Any], at: str) -> explanation.Talk | None:
        session: str | None = body.get("session_id")
        if self.conversations is None or session is None:
            return None
        call: dict[str, Any] = body.get("call", {})
        ids = (str(call.get("id") or ""), str(call.get("arguments_sha256") or ""))
        try:
            return find_talk(self.conversations, session, str(body.get("agent_id") or ""), *ids, at)
        except sqlite3.Error as error:
            self.remarks.add(f"the kept conversations cannot be read: {error}")
            return None

    def make_diff(self, body: dict[str, Any]) -> str | None:
        """Return the diff of the edit; None if its contents are gone or the limit of diffs is reached."""
        file = find_changed_file(body, self.path)
        if file is None or self.diff_count >= MAX_DIFFS:
            return None
        self.diff_count += 1
        contents: list[bytes] = []
        for side in (file.get("before"), file.get("after")):
            blob = side.get("git_blob") if side else None
            content = b"" if side is None else self.store.load(blob) if isinstance(blob, str) else None
            if content is None:
                return None
            contents.append(content)
        try:
            return self.store.unified_diff(*contents)[:MAX_DIFF_CHARS]
        except (GitError, OSError) as error:
            self.remarks.add(f"a diff could not be made: {error}")
            return None


def find_changed_file(body: dict[str, Any], path: str) -> dict[str, Any] | None:
    files: list[dict[str, Any]] = body.get("files", [])
    entry = next((file for file in files if file.get("path") == path), None)
    return entry or (files[0] if len(files) == 1 else None)


def criteria_texts(intent: Intent | None) -> tuple[str, ...] | None:
    return None if intent is None else tuple(criterion.text for criterion in intent.acceptance_criteria)


def recorded_path(body: dict[str, Any], path: str) -> str:
    file = find_changed_file(body, path)
    return str(file["path"]) if file else path


def find_denials(index: Index, session: str | None, path: str, at: str) -> tuple[explanation.Denial, ...]:
    """Return the session's denials before the edit, newest first: of the file, and any since its last change."""
    if session is None:
        return ()
    last_change = index.find(event="mutation", session_id=session, until=at, limit=1)
    since = str(last_change[0]["timestamp"]) if last_change else None
    documents = [
        *index.find(event="denied", session_id=session, path=path, until=at, limit=MAX_DENIALS),
        *index.find(event="denied", session_id=session, since=since, until=at, limit=MAX_DENIALS),
    ]
    newest = sorted({str(document["id"]): document for document in documents}.items(), reverse=True)[:MAX_DENIALS]
    violations = [(str(found["timestamp"]), body_of(found).get("violation", {})) for _, found in newest]
    return tuple(
        explanation.Denial(time, str(violation.get("error_type")), sanitise_line(str(violation.get("error", "")), 300))
        for time, violation in violations
    )


def find_approvals(index: Index, session: str | None, call_id: str | None, at: str) -> tuple[explanation.Approval, ...]:
    if session is None or not call_id:
        return ()
    uses = index.find(event="tool_use", session_id=session, until=at, limit=50)
    use = next((d for d in uses if body_of(d).get("call", {}).get("id") == call_id), None)
    decision: dict[str, Any] = body_of(use).get("decision", {}) if use else {}
    if use is None or not decision.get("approved_by"):
        return ()
    grants = str(decision.get("grant") or "").split(", ")
    own_session = session if ONCE_GRANT in grants else None
    until = str(use["timestamp"])
    answers = index.find(event="approval_answered", session_id=own_session, until=until, limit=MAX_ANSWERS)
    approvals = (body_of(document).get("approval", {}) for document in answers)
    allowed = (a for a in approvals if a.get("answer") == "allow" and (own_session or a.get("id") in grants))
    words = next((str(approval.get("words") or "") for approval in allowed), "")
    return (explanation.Approval(str(decision["approved_by"]), words, decision.get("grant")),)


def find_verifications(index: Index, intent_id: str | None, at: str) -> tuple[explanation.VerificationRun, ...]:
    documents = index.find(event="verification", intent_id=intent_id, since=at, limit=200) if intent_id else []
    runs = ((str(document["timestamp"]), body_of(document)) for document in documents[::-1][:MAX_CHECKS])
    return tuple(
        explanation.VerificationRun(time, sanitise_line(str(body.get("command") or ""), 200), body.get("exit_code"))
        for time, body in runs
    )


GIT_FATAL = 128
MAX_CAUSES = 50
MAX_LINE_CHARS = 1000
MAX_LATER_EDITS = 20


class NoSuchLines(ValueError):
    """The file is not in the repository, or has no such lines. The message is git's."""


class Explainer:
    """Explainer of lines in one workspace. `document` is the intents file in force. Lines with evidence outside
    `grades` are unknown.
    """

    def __init__(
        self,
        blamer: Blamer,
        store: ContentStore,
        open_conversations: OpenConversations | None = None,
        document: IntentsDocument | None = None,
        grades: Collection[str] = GRADES,
    ) -> None:
        self.blamer, self.store, self.grades = blamer, store, grades
        self.open_conversations, self.document = open_conversations, document

    def explain(self, path: str, lines: tuple[int, int] | None = None) -> explanation.Explanation:
        """Explain lines of `path` (from 1, inclusive), or all for None. Raises NoSuchLines, GitError."""
        blamed = [filter_by_grade(line, self.grades) for line in blame_lines(self.blamer, path, lines)]
        if self.open_conversations is None:
            return self.explain_lines(path, blamed, None)
        # The sessions that wrote these lines, or ran when they came.
        sessions = dict.fromkeys((w.agent or "", w.session_id) for line in blamed for w in (line, *line.candidates))
        wanted = [AgentSession(agent, session) for agent, session in sessions if session]
        with self.open_conversations(wanted) as conversations:
            return self.explain_lines(path, blamed, conversations)

    def explain_lines(
        self, path: str, blamed: Iterable[BlamedLine], conversations: Conversations | None
    ) -> explanation.Explanation:
        blamer, passages, recorded = self.blamer, group_passages(blamed), quote_path(path)
        text_by_record = {p.record: p.text for p in reversed(passages) if p.record}
        records = sorted(text_by_record, reverse=True)
        builder = CauseBuilder(blamer, self.store, recorded, conversations, self.document)
        documents = [document for name in records[:MAX_CAUSES] for document in blamer.index.find_by_id_prefix(name)]
        classified = add_computed_classes(documents, self.store)
        proved = {p.record for p in passages if p.origin != "unknown" and p.grade != LIKELY}
        causes = tuple(
            builder.build_cause(d, text_by_record[str(d["id"])], proved=str(d["id"]) in proved) for d in classified
        )
        # The file's current and former names, without names that other files have now.
        former = dict.fromkeys(recorded_path(body_of(document), recorded) for document in classified)
        names = [recorded, *(n for n in former if n != recorded and not (blamer.workspace.root / n).exists())]
        problems = {conversations.problem} if conversations and conversations.problem else set[str]()
        return explanation.Explanation(
            path=recorded,
            passages=passages,
            causes=causes,
            commits=describe_commits(blamer.git, (p.commit for p in passages)),
            later=find_later_edits(blamer.attributor, names, {c.record: text_by_record[c.record] for c in causes}),
            left_out=max(0, len(records) - MAX_CAUSES),
            remarks=tuple(sorted(builder.remarks | problems)),
        )


def blame_lines(blamer: Blamer, path: str, lines: tuple[int, int] | None) -> list[BlamedLine]:
    """Blame those lines. Raises NoSuchLines, GitError."""
    try:
        return blamer.blame(path, [f"-L{lines[0]},{lines[1]}"] if lines else [])
    except GitError as error:
        if error.code != GIT_FATAL:
            raise
        raise NoSuchLines(error.message.strip().removeprefix("fatal: ")) from error


def group_passages(lines: Iterable[BlamedLine]) -> tuple[explanation.Passage, ...]:
    passages: list[explanation.Passage] = []
    for line in lines:
        last = passages[-1] if passages else None
        if last and passage_key(last) == passage_key(line) and last.end == line.line - 1:
            passages[-1] = replace(last, end=line.line)
        else:
            facts = (line.origin, line.commit, line.record, line.content[:MAX_LINE_CHARS], line.candidates)
            passages.append(explanation.Passage(line.line, line.line, *facts, line.agent, line.intent_id, line.grade))
    return tuple(passages)


def passage_key(line: BlamedLine | explanation.Passage) -> tuple[str | None, ...]:
    likely = LIKELY if line.grade == LIKELY else None
    return (line.origin, line.commit, line.record, likely, *(() if line.record else (line.agent, line.intent_id)))


def find_later_edits(
    attributor: LineAttributor, paths: Iterable[str], asked: dict[str, str]
) -> tuple[explanation.LaterEdit, ...]:
    newest = max(asked, default=None)
    if newest is None:
        return ()
    changes = sorted((c for path in paths for c in attributor.index.list_changes(path)), key=lambda c: c.id)
    positions = {change.id: position for position, change in reversed(list(enumerate(changes)))}
    same_lines = {
        change.id
        for record, text in asked.items()
        if record in positions
        for change in changes_of_same_lines(attributor, changes[positions[record] :], text)
    }
    later = [c for c in changes if c.id > newest and not c.came_from_git]
    chosen = [c for c in later[:-MAX_LATER_EDITS] if c.id in same_lines] + later[-MAX_LATER_EDITS:]
    return tuple(
        explanation.LaterEdit(c.id, c.at, c.intent_id, c.session_id, c.id in same_lines) for c in reversed(chosen)
    )


def changes_of_same_lines(
    attributor: LineAttributor, changes: Sequence[RecordedChange], text: str
) -> Iterator[RecordedChange]:
    def hunks_between(before: str | None, after: str | None) -> tuple[Hunk, ...] | None:
        if after is None:
            return None
        attributor.load_hunks([(before, after)])
        return attributor.hunks_by_pair.get((before, after))

    first, *later = changes
    hunks = first.hunks if first.hunks is not None else hunks_between(first.before_blob, first.after_blob)
    inserted = [(hunk.new, hunk.new + hunk.new_lines - 1) for hunk in hunks or () if hunk.new_lines]
    attributor.load_contents([first.after_blob])
    lines = attributor.lines_of(first.after_blob) or ()
    matching = [s for s in inserted if any(line.decode("utf-8", "replace") == text for line in lines[s[0] - 1 : s[1]])]
    spans, blob = merge_spans(matching or inserted), first.after_blob
    for change in later:
        gap_hunks = () if change.before_blob == blob else hunks_between(blob, change.before_blob)
        own_hunks = change.hunks
        if own_hunks is None:
            own_hunks = hunks_between(change.before_blob, change.after_blob)
        if gap_hunks is None or own_hunks is None or not spans:
            return
        spans = carry_spans(spans, gap_hunks)
        if any(hunk_touches(hunk, spans) for hunk in own_hunks) and not change.came_from_git:
            yield change
        spans, blob = carry_spans(spans, own_hunks), change.after_blob


def hunk_touches(hunk: Hunk, spans: Iterable[Span]) -> bool:
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
