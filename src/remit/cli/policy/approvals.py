"""`remit approvals`: what agents may not do without a person's yes."""

import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from remit.cli.completion import complete_questions
from remit.cli.output import REFUSED, Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.person_only import record_attempt, require_person
from remit.cli.policy.approval_view import (
    MAX_EQUAL_QUESTIONS,
    card_lines,
    grant_line,
    group_equal_questions,
    help_lines,
    outcome_line,
    parse_answer,
    prompt_text,
)
from remit.cli.records.lookup import choose_id
from remit.core.grant import EXTENTS, Extent, Grant
from remit.gate.approvals.ask import ApprovalRequests
from remit.gate.approvals.project_grants import GRANT_WRITE_ERRORS, ProjectGrants
from remit.gate.gate import Gate
from remit.gate.state.questions import LATE_ANSWER_S, ApprovalReply, ListedQuestion, Question, QuestionStore
from remit.policy.approval.grants import GrantRuleError, make_rule

POLL_INTERVAL_S = 0.2


@click.group()
def approvals() -> None:
    """Questions that agents wait on, and the yeses given so far."""


def require_terminal() -> None:
    """Raise Failure where this is no terminal of a person's."""
    require_person("answering for a person")
    if not sys.stdin.isatty():
        record_attempt("answering for a person", "standard input is no terminal")
        raise Failure(
            "NOT_A_TERMINAL",
            "a yes has to come from a terminal, and standard input is none",
            fix="run it yourself in a terminal",
            exit_code=REFUSED,
        )


@approvals.command("list")
@repo_option
@json_option
@reports_failures
def list_(repo: Path, as_json: bool) -> None:
    """List what waits for an answer, what ended without one, and the grants that hold.

    Equal questions (same agent, intent, rule and folder) are shown as one. An expired question can still be answered:
    the agent's next equal call then passes once.
    """
    gate = governed_gate(repo)
    close_orphans(gate)
    found, grants = gate.questions.list_unanswered(), active_grants(gate)
    lines = [line for card in group_equal_questions(found) for line in card_lines(card, gate.workspace.root)] or [
        "nothing waits"
    ]
    lines += [grant_line(grant) for grant in grants]
    questions = [{**msgspec.to_builtins(one.question), "status": one.status} for one in found]
    emit({"questions": questions, "grants": msgspec.to_builtins(grants)}, as_json, "\n".join(lines))


@approvals.command("allow")
@click.argument("question_id", metavar="ID", shell_complete=complete_questions)
@click.option(
    "--for", "extent", type=click.Choice(EXTENTS), default="once", show_default=True, help="How far the yes goes."
)
@click.option("--rule", "pattern", metavar="RULE", help="What it covers: paths, or a command's first words.")
@click.option("--all-equal", is_flag=True, help="Say yes to every equal question that waits, each for this once.")
@repo_option
@json_option
@reports_failures
def allow(question_id: str, extent: Extent, pattern: str | None, all_equal: bool, repo: Path, as_json: bool) -> None:
    """Say yes.

    A yes that goes further than this once covers the question's folder, or the first words of its command; `--rule`
    says it otherwise. Above a risk of 60, and for commands whose words do not tell what they do, a yes is for once.
    """
    require_terminal()
    gate = governed_gate(repo)
    chosen = find_question(gate.questions, question_id)
    equal = find_equal_questions(gate.questions, chosen) if all_equal else []
    rule = covered_rule(chosen.question, extent, pattern)
    late = record_reply(gate, chosen.question, ApprovalReply(True, extent=extent, pattern=pattern))
    answered = [chosen.question.id, *(one.question.id for one in equal if allow_once(gate, one.question))]
    more = f", and {len(answered) - 1} equal to it" if all_equal else ""
    data = {"allowed": chosen.question.id, "extent": extent, "rule": rule, "all": answered, "late": late}
    emit(
        data,
        as_json,
        f"allowed, {extent}: {chosen.question.code} {rule}".rstrip() + more + (LATE_ANSWER_NOTE if late else ""),
    )


LATE_ANSWER_NOTE = f"\nNobody waits for it any more: the same call passes once, if the agent makes it within {LATE_ANSWER_S / 60:.0f} minutes"  # noqa: E501


def covered_rule(question: Question, extent: Extent, pattern: str | None) -> str:
    """What the yes covers. Raises Failure."""
    try:
        return make_rule(question.subject, extent, pattern).text
    except GrantRuleError as refused:
        raise Failure(
            "RULE_REFUSED", f"this yes cannot be so: {refused}", fix="say yes once, or name another rule"
        ) from None


def find_equal_questions(approvals: QuestionStore, chosen: ListedQuestion) -> list[ListedQuestion]:
    """The other questions that are equal to it."""
    return [
        one
        for card in group_equal_questions(approvals.list_unanswered())
        if chosen in card
        for one in card
        if one != chosen
    ]


def allow_once(gate: Gate, question: Question) -> bool:
    """Whether our yes, for this once, was the first answer."""
    try:
        record_reply(gate, question, ApprovalReply(True))
    except Failure:
        return False
    return True


@approvals.command("deny")
@click.argument("question_id", metavar="ID", shell_complete=complete_questions)
@click.option("-m", "--message", default="", help="Why; the agent is told.")
@repo_option
@json_option
@reports_failures
def deny(question_id: str, message: str, repo: Path, as_json: bool) -> None:
    """Say no."""
    require_person("answering for a person")
    gate = governed_gate(repo)
    question = find_question(gate.questions, question_id).question
    record_reply(gate, question, ApprovalReply(False, words=message))
    emit({"denied": question.id}, as_json, "denied")


@approvals.command("revoke")
@click.argument("grant_id", metavar="ID")
@repo_option
@json_option
@reports_failures
def revoke(grant_id: str, repo: Path, as_json: bool) -> None:
    """Take a grant back."""
    require_person("revoking a grant")
    gate = governed_gate(repo)
    matching = [grant for grant in active_grants(gate) if grant.id.endswith(grant_id)]
    if len(matching) != 1 or not revoke_grant(gate, matching[0]):
        many = f"{len(matching)} grants end with" if len(matching) > 1 else "there is no grant"
        raise Failure("NOT_FOUND", f"{many} {grant_id!r}", fix="`remit approvals list` shows them")
    emit({"revoked": matching[0].id}, as_json, f"revoked: {matching[0].code} {matching[0].rule}".rstrip())


def active_grants(gate: Gate) -> tuple[Grant, ...]:
    """The grants that hold now, those of `remit.toml` among them."""
    return gate.questions.active_grants(gate.rules.config.grants)


def revoke_grant(gate: Gate, grant: Grant) -> bool:
    """Whether the grant is gone now. Raises Failure where `remit.toml` cannot be changed."""
    try:
        return gate.questions.revoke_grant(grant.id) or ProjectGrants(gate.workspace, gate.state).remove_grant(grant.id)
    except GRANT_WRITE_ERRORS as error:
        raise Failure(
            "CONFIG_INVALID", f"remit.toml was not changed: {error}", fix="take the grant out by hand"
        ) from error


@approvals.command("watch")
@repo_option
@reports_failures
def watch(repo: Path) -> None:
    """Stay here and be asked: agents wait for your answer as long as this runs."""
    require_terminal()
    gate = governed_gate(repo)
    click.echo(f"Watching {gate.workspace.root}. Ctrl-C leaves; then what needs a yes is refused at once.")
    answer_questions(gate, click.prompt)


def answer_questions(gate: Gate, prompt: Callable[..., str]) -> None:
    """Ask the person about each card as it comes, and ring the terminal's bell for it."""
    gate.questions.mark_watcher_present()
    gone = threading.Event()
    threading.Thread(target=announce_watcher, args=(gate.workspace.root, gone), daemon=True).start()
    try:
        while True:
            close_orphans(gate)
            waiting = [one for one in gate.questions.list_unanswered() if one.status == "open"]
            for card in (card[:MAX_EQUAL_QUESTIONS] for card in group_equal_questions(waiting)[:1]):
                discard_typed_input()
                click.echo("\n".join(card_lines(card, gate.workspace.root)) + ("\a" if sys.stdout.isatty() else ""))
                answer_card(gate, card, ask_until_answered(card, prompt))
            time.sleep(POLL_INTERVAL_S)
    except (KeyboardInterrupt, click.Abort):
        gone.set()
        gate.questions.mark_watcher_gone()


def ask_until_answered(card: Sequence[ListedQuestion], prompt: Callable[..., str]) -> tuple[ApprovalReply, str]:
    """Ask until the person types an answer that this card offers; the answer, and the text as typed."""
    while True:
        word = prompt(prompt_text(card), default="no")
        reply = parse_answer(word, card)
        if reply is not None and is_rule_allowed(reply, card[0].question):
            return reply, word
        if reply is None:
            click.echo("\n".join(help_lines(card)))


def is_rule_allowed(reply: ApprovalReply, question: Question) -> bool:
    """Whether the yes can go as far as it was typed; where it cannot, the reason is printed."""
    try:
        covered_rule(question, reply.extent, reply.pattern)
    except Failure as failure:
        click.echo(f"  {failure}")
        return False
    return True


def discard_typed_input() -> None:
    """What was typed before the card stood there answers nothing."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def answer_card(gate: Gate, card: Sequence[ListedQuestion], answer: tuple[ApprovalReply, str]) -> None:
    """Give the answer to the first of the card, or to all of it, and confirm it in one line.

    A question that was answered elsewhere meanwhile keeps that answer, which is said.
    """
    reply, word = answer
    chosen = card if word.strip().lower() in ("a", "all") else card[:1]
    settled = 0
    for one in chosen:
        try:
            record_reply(gate, one.question, reply)
            settled += 1
        except Failure as failure:
            click.echo(f"  {failure}")
    if settled:
        click.echo(outcome_line(reply, card, settled))


def announce_watcher(root: Path, stopped: threading.Event) -> None:
    """Tell every second that somebody is there, also while they think. A connection of its own: it is a thread."""
    found = governed_gate(root).questions
    while not stopped.wait(1.0):
        found.mark_watcher_present()


def record_reply(gate: Gate, question: Question, reply: ApprovalReply) -> bool:
    """Give the answer; whether it came when nobody waited any more. Raises Failure where it can take no answer."""
    asked = gate.questions.answer_question(question.id, reply)
    if asked is None:
        raise Failure("NOT_OPEN", "the question is not open any more: its time was over", fix="`remit approvals list`")
    if asked.status == "expired":
        open_asking(gate).record_answer(question, reply, gate.rules)
    return asked.status == "expired"


def close_orphans(gate: Gate) -> None:
    """Close what nobody waits for any more."""
    open_asking(gate).close_orphaned_questions(gate.rules)


def open_asking(gate: Gate) -> ApprovalRequests:
    """Who records questions and answers."""
    return ApprovalRequests(gate.questions, gate.recorder, gate.environment)


def find_question(approvals: QuestionStore, question_id: str) -> ListedQuestion:
    """Return the question without an answer of that id, or of a part of it. Raises Failure."""
    asked = {one.question.id: one for one in approvals.list_unanswered()}
    return asked[choose_id("open question", question_id, asked, "`remit approvals list`")]
