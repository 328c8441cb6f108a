"""`remit approvals`: list, answer and revoke the approvals that agents need from a person."""

import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from remit.cli.completion import complete_questions
from remit.cli.output import Failure, command_options, emit, governed_gate, repo_option, reports_failures
from remit.cli.person_only import require_person, require_terminal
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
LATE_ANSWER_NOTE = (
    f"\nThe agent no longer waits: the same call passes once, if made within {LATE_ANSWER_S / 60:.0f} minutes"
)


@click.group()
def approvals() -> None:
    """Questions that agents wait on, and the yeses given so far."""


@approvals.command("list")
@command_options
def list_(repo: Path, as_json: bool) -> None:
    """List what waits for an answer, what ended without one, and the grants that hold.

    Equal questions (same agent, intent, rule and folder) are shown as one. An expired question can still be answered:
    the agent's next equal call then passes once.
    """
    gate = governed_gate(repo)
    close_orphans(gate)
    listed, grants = gate.questions.list_unanswered(), active_grants(gate)
    lines = [line for card in group_equal_questions(listed) for line in card_lines(card, gate.workspace.root)]
    lines = [*(lines or ["nothing waits"]), *map(grant_line, grants)]
    questions = [{**msgspec.to_builtins(item.question), "status": item.status} for item in listed]
    emit({"questions": questions, "grants": grants}, as_json, "\n".join(lines))


@approvals.command("allow")
@click.argument("question_id", metavar="ID", shell_complete=complete_questions)
@click.option(
    "--for", "extent", type=click.Choice(EXTENTS), default="once", show_default=True, help="How far the yes goes."
)
@click.option("--rule", "pattern", metavar="RULE", help="What it covers: paths, or a command's first words.")
@click.option("--all-equal", is_flag=True, help="Say yes to every equal question that waits, each for this once.")
@command_options
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
    answered = [chosen.question.id, *(item.question.id for item in equal if allow_once(gate, item.question))]
    text = f"allowed, {extent}: {chosen.question.code} {rule}".rstrip()
    text += f", and {len(answered) - 1} equal to it" if all_equal else ""
    text += LATE_ANSWER_NOTE if late else ""
    data = {"allowed": chosen.question.id, "extent": extent, "rule": rule, "all": answered, "late": late}
    emit(data, as_json, text)


def covered_rule(question: Question, extent: Extent, pattern: str | None) -> str:
    """Return the rule that an approval of this extent covers. Raises Failure."""
    try:
        return make_rule(question.subject, extent, pattern).text
    except GrantRuleError as error:
        message = f"this yes cannot be given: {error}"
        raise Failure("RULE_REFUSED", message, fix="say yes once, or name another rule") from None


def find_equal_questions(questions: QuestionStore, chosen: ListedQuestion) -> list[ListedQuestion]:
    cards = group_equal_questions(questions.list_unanswered())
    return [item for card in cards if chosen in card for item in card if item != chosen]


def allow_once(gate: Gate, question: Question) -> bool:
    """Allow one call; return False if the question was answered before."""
    try:
        record_reply(gate, question, ApprovalReply(True))
    except Failure:
        return False
    return True


@approvals.command("deny")
@click.argument("question_id", metavar="ID", shell_complete=complete_questions)
@click.option("-m", "--message", default="", help="Why; the agent is told.")
@command_options
def deny(question_id: str, message: str, repo: Path, as_json: bool) -> None:
    """Say no."""
    require_person("answering for a person")
    gate = governed_gate(repo)
    question = find_question(gate.questions, question_id).question
    record_reply(gate, question, ApprovalReply(False, words=message))
    emit({"denied": question.id}, as_json, "denied")


@approvals.command("revoke")
@click.argument("grant_id", metavar="ID")
@command_options
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
    """Return the grants in force, including the ones in `remit.toml`."""
    return gate.questions.active_grants(gate.rules.config.grants)


def revoke_grant(gate: Gate, grant: Grant) -> bool:
    """Revoke the grant; return False if no such grant is in force. Raises Failure if `remit.toml` cannot be changed."""
    try:
        return gate.questions.revoke_grant(grant.id) or ProjectGrants(gate.workspace, gate.state).remove_grant(grant.id)
    except GRANT_WRITE_ERRORS as error:
        message = f"remit.toml was not changed: {error}"
        raise Failure("CONFIG_INVALID", message, fix="take the grant out by hand") from error


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
    """Show each card as it arrives, ring the terminal bell, and record the person's answer, until Ctrl-C."""
    gate.questions.mark_watcher_present()
    stopped = threading.Event()
    threading.Thread(target=announce_watcher, args=(gate.workspace.root, stopped), daemon=True).start()
    try:
        while True:
            close_orphans(gate)
            waiting = [item for item in gate.questions.list_unanswered() if item.status == "open"]
            if waiting:
                card = group_equal_questions(waiting)[0][:MAX_EQUAL_QUESTIONS]
                discard_typed_input()
                click.echo("\n".join(card_lines(card, gate.workspace.root)) + ("\a" if sys.stdout.isatty() else ""))
                answer_card(gate, card, ask_until_answered(card, prompt))
            time.sleep(POLL_INTERVAL_S)
    except (KeyboardInterrupt, click.Abort):
        stopped.set()
        gate.questions.mark_watcher_gone()


def ask_until_answered(card: Sequence[ListedQuestion], prompt: Callable[..., str]) -> tuple[ApprovalReply, str]:
    """Prompt until the person types an answer that the card offers; return the answer and the typed text."""
    while True:
        word = prompt(prompt_text(card), default="no")
        reply = parse_answer(word, card)
        if reply is not None and is_rule_allowed(reply, card[0].question):
            return reply, word
        if reply is None:
            click.echo("\n".join(help_lines(card)))


def is_rule_allowed(reply: ApprovalReply, question: Question) -> bool:
    """Return whether the approval may reach as far as typed; print the reason if not."""
    try:
        covered_rule(question, reply.extent, reply.pattern)
    except Failure as failure:
        click.echo(f"  {failure}")
        return False
    return True


def discard_typed_input() -> None:
    """Discard input typed before the card was shown, so that no stray key answers a question."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def answer_card(gate: Gate, card: Sequence[ListedQuestion], answer: tuple[ApprovalReply, str]) -> None:
    """Record the answer for the first question of the card, or for each with `all`, and print a confirmation.

    A question that was answered elsewhere meanwhile keeps its answer; the reason is printed.
    """
    reply, word = answer
    chosen = card if word.strip().lower() in ("a", "all") else card[:1]
    recorded = 0
    for item in chosen:
        try:
            record_reply(gate, item.question, reply)
            recorded += 1
        except Failure as failure:
            click.echo(f"  {failure}")
    if recorded:
        click.echo(outcome_line(reply, card, recorded))


def announce_watcher(root: Path, stopped: threading.Event) -> None:
    """Record once a second that a person is watching. Uses its own connection, because it runs in a thread."""
    questions = governed_gate(root).questions
    while not stopped.wait(1.0):
        questions.mark_watcher_present()


def record_reply(gate: Gate, question: Question, reply: ApprovalReply) -> bool:
    """Record the answer; return True if the agent no longer waits for it. Raises Failure if the question is closed."""
    answered = gate.questions.answer_question(question.id, reply)
    if answered is None:
        raise Failure("NOT_OPEN", "the question is closed: its time is over", fix="`remit approvals list`")
    is_late = answered.status == "expired"
    if is_late:  # the agent's hook, which would record the answer, is gone
        ApprovalRequests(gate.questions, gate.recorder, gate.environment).record_answer(question, reply, gate.rules)
    return is_late


def close_orphans(gate: Gate) -> None:
    """Close the questions whose hooks ended without an answer."""
    ApprovalRequests(gate.questions, gate.recorder, gate.environment).close_orphaned_questions(gate.rules)


def find_question(questions: QuestionStore, question_id: str) -> ListedQuestion:
    """Return the unanswered question with this id or part of an id. Raises Failure."""
    listed = {item.question.id: item for item in questions.list_unanswered()}
    return listed[choose_id("open question", question_id, listed, "`remit approvals list`")]
