"""Answers of a person to questions that agents wait on: the terminal and the console give them through here."""

import os
import pwd
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.decision import HIGH_RISK, Extent
from remit.core.formats.record_summary import EXTENT_NAMES, RecordSummary, summarize_record
from remit.core.intent import MAX_VALUE_CHARS
from remit.core.plurals import count_things
from remit.core.record import KEY, Person
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_full_line, sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.people.ask import ApprovalRequests
from remit.gate.people.grants import remove_project_grant
from remit.gate.people.questions import ApprovalReply, ListedQuestion, Question, ShownProposal
from remit.ledger.index.index import Index
from remit.policy.grants import GrantRule, GrantRuleError, covers_command, make_rule
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import list_tracked, prefix_in_repository

MAX_EQUAL_QUESTIONS = 20  # equal questions on one card: an approval of the card covers only questions that were shown

MAX_PREVIEWED_CALLS = 20
MAX_EXAMPLES = 5
LOW_RISK = 30  # below it, equal questions may be answered together
CALL_EVENTS = ("tool_use", "denied", "verification")
TYPED_CHARS = 4
DIALOG_ROWS, DIALOG_COLUMNS, DIALOG_CHARS = 10, 74, 1500
"""What an agent's permission dialog shows of a hook's reason: Claude Code 2.1.332 shows ten lines of it."""


class QuestionClosed(Exception):
    """An answer to a question that has an answer already, or ended too long ago; `closing` says who closed it."""

    def __init__(self, closing: str) -> None:
        super().__init__(f"the question is closed: {closing or 'it has an answer, or its time is over'}")


class EarlierCall(Struct, frozen=True):
    """A call that was judged before, in words. `meaning` tells how it ended."""

    at: str
    meaning: str
    verb: str
    about: str


class RulePreview(Struct, frozen=True):
    """What a wider yes would cover: tracked files, and some of the `looked_at` newest calls of the session or
    repository. `fault` is why this yes cannot be given. `ends_at` is None where it ends with its session, or never.
    """

    extent: Extent
    rule: str
    fault: str = ""
    is_for_paths: bool = False
    files: int = 0
    example_files: list[str] = []
    calls: list[EarlierCall] = []
    covered_calls: int = 0
    looked_at: int = 0
    hours: float | None = None


def group_equal_questions(listed: Sequence[ListedQuestion]) -> list[list[ListedQuestion]]:
    """Return the questions as cards: questions with the same status, agent, intent, rule and folder share one."""
    cards: dict[tuple[str, ...], list[ListedQuestion]] = {}
    for item in listed:
        cards.setdefault((item.status, *item.question.group_key), []).append(item)
    return list(cards.values())


def find_wider_rule(question: Question) -> str | None:
    """Return the rule that an approval for the session or the intent would cover; None if only `once` is possible."""
    if question.proposal is not None or question.code == "INTENT_SWITCH_NEEDS_PERSON":
        return None
    try:
        return sanitise_line(make_rule(question.subject, "intent").text, 200) or None
    except GrantRuleError:
        return None


def find_covered_rule(reply: ApprovalReply, question: Question) -> str:
    """Return the rule covered by a reply. Raises GrantRuleError for a rule not allowed by the question."""
    return make_rule(question.subject, reply.extent, reply.pattern).text


def record_reply(context: WorkspaceContext, question: Question, reply: ApprovalReply) -> bool:
    """Record the answer; return True if the agent no longer waits for it. Raises QuestionClosed."""
    reply = replace(reply, who=identify_person(context))
    answered = ApprovalRequests(context).questions.answer_question(question.id, reply)
    if answered is None:
        raise QuestionClosed(describe_closing(context, question.id))
    is_late = answered.status == "expired"
    if is_late:  # the agent's hook, which would record the answer, is gone
        ApprovalRequests(context).record_answer(question, reply, context.rules)
    return is_late


def identify_person(context: WorkspaceContext) -> Person:
    """Return who answers here: who logged in, or else the system's user, by the name that git knows."""
    if context.environment.person is not None:
        return context.environment.person
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run a user that has no name
        user = str(os.getuid())
    name = email = ""
    with suppress(GitError, OSError):
        git = Git(context.workspace.root)
        name, email = (git.text("config", "--get", key, ok=(0, 1)) for key in ("user.name", "user.email"))
    known = sanitise_line(f"{name} <{email}>" if email else name, 200)
    return Person("git" if known.strip() else "system", sanitise_line(user, 80), known.strip() or user)


def revoke_grant(context: WorkspaceContext, grant_id: str) -> bool:
    """Take a grant back; return False if there is none of that id. Raises the errors in GRANT_WRITE_ERRORS."""
    return context.state.revoke_grant(grant_id) or remove_project_grant(context, grant_id)


def close_orphaned_questions(context: WorkspaceContext) -> None:
    ApprovalRequests(context).close_orphaned_questions(context.rules)


# What an answer needs, and what it would cover


def choose_typed_word(question: Question) -> str:
    """Return the word to type before a yes: for a high risk, a wide scope, and what is too long to be shown whole."""
    is_wide = question.proposal is not None and question.proposal.is_wide
    return question.id[-TYPED_CHARS:] if question.risk > HIGH_RISK or question.is_cut or is_wide else ""


def is_edited_scope(scope: Sequence[str], question: Question) -> bool:
    """Return whether a person wrote another scope than the proposed one: that is as deliberate as the typed word."""
    return bool(scope) and question.proposal is not None and set(scope) != set(question.proposal.scope)


def describe_subject(question: Question) -> list[str]:
    """Return the lines that say what a yes is to: a proposed intent as a card, or the call."""
    if question.proposal is None:
        return [sanitise_full_line(question.action)]
    return ["a new intent", *describe_proposal(question.proposal)]


def describe_proposal(shown: ShownProposal) -> list[str]:
    line = sanitise_line
    counted = f"{count_things(shown.files, 'file')} of {shown.total:,} now" if shown.total else "files not counted"
    lines = [f'your request: "{line(shown.request, 200)}"'] if shown.request else []
    lines.append(f"{line(shown.name, 200)}     may change ({counted}):")
    lines += [f"  {line(pattern, 200)}{' (new)' if pattern in shown.new else ''}" for pattern in shown.scope]
    lines += [f"often changes along: {', '.join(line(path, 120) for path in shown.hints)}"] if shown.hints else []
    for command in shown.commands:
        note = "  (new here: a yes also lets it run)" if command in shown.untrusted else ""
        lines.append(f"done when  {line(command, MAX_VALUE_CHARS)}{note}")
    lines += [f"done when  {line(text, 200)}" for text in shown.criteria]
    lines += [f"keeping to  {line(text, 200)}" for text in shown.constraints]
    lines += [f"! {line(remark, 300)}" for remark in shown.remarks]
    if shown.is_wide:
        share = f"{100 * shown.files // shown.total} % of the files" if shown.total else "the whole repository"
        lines.append(f"! this is wide: {share}. Edit it, or type the word")
    return lines


def format_question(question: Question) -> str:
    """Return a question as the text of an agent's dialog."""
    reasons = f" ({'; '.join(question.reasons)})" if question.reasons else ""
    typed = choose_typed_word(question)
    subject = "\n".join(describe_subject(question))
    return (
        f"Remit asks for the agent {sanitise_line(question.agent, 60)}: {subject}\n"
        f"Its reason: {sanitise_line(question.message, 500)}\nRisk {question.risk} of 100{reasons}."
        + (f"\nFor a yes, type {typed} into the field for words as well." if typed else "")
    )


def find_dialog_limit(question: Question) -> str:
    """Return why an agent's own permission dialog cannot take a yes to the question; empty where it can."""
    if choose_typed_word(question):
        return "a yes to this takes a typed word"
    text = format_question(question)
    rows = sum(max(1, -(-len(line) // DIALOG_COLUMNS)) for line in text.splitlines())
    return "it would not show the whole question" if rows > DIALOG_ROWS or len(text) > DIALOG_CHARS else ""


def list_extents(question: Question) -> list[Extent]:
    """Return how far a yes to the question may go, the narrowest first."""
    if choose_typed_word(question) or find_wider_rule(question) is None:
        return ["once"]
    return ["once", "session", *(["intent"] if question.intent_id else []), "project"]  # pyright: ignore[reportReturnType]


def list_earlier_calls(index: Index, question: Question, limit: int) -> list[EarlierCall]:
    """Return the calls that the session made just before, the newest last."""
    found = islice(iterate_calls(index, session_id=question.session_id), limit)
    return [describe_earlier(document) for document in found][::-1]


def iterate_calls(index: Index, **by: Any) -> Iterator[dict[str, Any]]:
    documents = index.find(limit=4 * MAX_PREVIEWED_CALLS, **by)
    return (document for document in documents if document["metadata"][KEY].get("event") in CALL_EVENTS)


def describe_earlier(document: dict[str, Any]) -> EarlierCall:
    summary: RecordSummary = summarize_record(document["metadata"][KEY])
    return EarlierCall(str(document["timestamp"]), summary.meaning, summary.verb, summary.about)


def preview_rule(context: WorkspaceContext, question: Question, extent: Extent, pattern: str | None) -> RulePreview:
    """Return what a yes of this extent would cover. The newest calls are the session's for a yes for the session, and
    those of the repository for any other.
    """
    try:
        rule = make_rule(question.subject, extent, pattern)
    except GrantRuleError as error:
        return RulePreview(extent, pattern or "", str(error))
    by = {"session_id": question.session_id} if extent == "session" else {}
    with context.index() as index:
        looked_at = [*islice(iterate_calls(index, **by), MAX_PREVIEWED_CALLS)]
    covered = [
        document for document in looked_at if covers_recorded_call(rule, document["metadata"][KEY].get("call") or {})
    ]
    files = list_covered_files(context, rule)
    return RulePreview(
        extent,
        rule.text,
        is_for_paths=rule.pattern is not None,
        files=len(files),
        example_files=files[:MAX_EXAMPLES],
        calls=[describe_earlier(document) for document in covered[:MAX_EXAMPLES]],
        covered_calls=len(covered),
        looked_at=len(looked_at),
        hours=None if extent == "project" else context.rules.config.approvals.grant_hours,
    )


def covers_recorded_call(rule: GrantRule, call: dict[str, Any]) -> bool:
    if rule.pattern is not None:
        scope, paths = Scope((rule.pattern,)), call.get("paths") or ()
        return bool(paths) and all(scope.matches(str(path)) for path in paths)
    if rule.command:
        return covers_command(rule.command, str(call.get("command") or ""))
    return rule.tool == call.get("name")


def list_covered_files(context: WorkspaceContext, rule: GrantRule) -> list[str]:
    """Return the tracked files that a rule for paths covers, in order; none where git does not tell."""
    workspace = context.workspace
    if rule.pattern is None or workspace.common_dir is None:
        return []
    try:
        prefix = prefix_in_repository(workspace)
        tracked = list_tracked(workspace, [prefix])
    except (GitError, OSError):
        return []
    scope = Scope((rule.pattern,))
    names = (path.removeprefix(prefix) for path in tracked if path)
    return sorted(path for path in names if scope.matches(path))


def describe_closing(context: WorkspaceContext, question_id: str) -> str:
    """Return who closed a question, how and when; "" if it is open or unknown here."""
    closed = ApprovalRequests(context).questions.find_closed(question_id)
    if closed is None:
        return ""
    at = time.strftime("%H:%M:%S", time.localtime(closed.at))
    reply = closed.reply
    if reply is None:
        return f"denied at {at}: nobody answered in time"
    answer = f"allowed {EXTENT_NAMES[reply.extent]}" if reply.allow else "denied"
    by = sanitise_line(reply.who.name, 80) if reply.who else f"a {reply.by}"
    return f"{answer} by {by} in {f'the {reply.through}' if reply.through else 'a terminal'} at {at}"
