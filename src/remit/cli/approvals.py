"""`remit approvals`: what agents may not do without a person's yes."""

import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from remit.cli.attempts import attempted
from remit.cli.cards import MOST, cards, choices, granted, help_lines, outcome_line, read_answer, told
from remit.cli.completion import complete_questions
from remit.cli.ids import choose_id
from remit.cli.output import REFUSED, Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.people import only_people
from remit.core.grant import EXTENTS, Extent, Grant
from remit.gate.approvals import LATE_S, Approvals, Asked, Question, Reply
from remit.gate.asking import Asking
from remit.gate.gate import Gate
from remit.gate.project_grants import CannotWrite, ProjectGrants
from remit.policy.grants import RuleRefused, rule_for

WATCH_S = 0.2


@click.group()
def approvals() -> None:
    """Questions that agents wait on, and the yeses given so far."""


def only_a_terminal() -> None:
    """Raise Failure where this is no terminal of a person's."""
    only_people("answering for a person")
    if not sys.stdin.isatty():
        attempted("answering for a person", "standard input is no terminal")
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
    found, grants = gate.approvals.asked(), held(gate)
    lines = [line for card in cards(found) for line in told(card, gate.workspace.root)] or ["nothing waits"]
    lines += [granted(grant) for grant in grants]
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
    only_a_terminal()
    gate = governed_gate(repo)
    chosen = find(gate.approvals, question_id)
    equal = equals(gate.approvals, chosen) if all_equal else []
    rule = rule_of(chosen.question, extent, pattern)
    late = settle(gate, chosen.question, Reply(True, extent=extent, pattern=pattern))
    answered = [chosen.question.id, *(one.question.id for one in equal if said_yes(gate, one.question))]
    more = f", and {len(answered) - 1} equal to it" if all_equal else ""
    data = {"allowed": chosen.question.id, "extent": extent, "rule": rule, "all": answered, "late": late}
    emit(data, as_json, f"allowed, {extent}: {chosen.question.code} {rule}".rstrip() + more + (LATE if late else ""))


LATE = (
    f"\nNobody waits for it any more: the same call passes once, if the agent makes it within {LATE_S / 60:.0f} minutes"
)


def rule_of(question: Question, extent: Extent, pattern: str | None) -> str:
    """What the yes covers. Raises Failure."""
    try:
        return rule_for(question.subject, extent, pattern).shown
    except RuleRefused as refused:
        raise Failure(
            "RULE_REFUSED", f"this yes cannot be so: {refused}", fix="say yes once, or name another rule"
        ) from None


def equals(found: Approvals, chosen: Asked) -> list[Asked]:
    """The other questions that are equal to it."""
    return [one for card in cards(found.asked()) if chosen in card for one in card if one != chosen]


def said_yes(gate: Gate, question: Question) -> bool:
    """Whether our yes, for this once, was the first answer."""
    try:
        settle(gate, question, Reply(True))
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
    only_people("answering for a person")
    gate = governed_gate(repo)
    question = find(gate.approvals, question_id).question
    settle(gate, question, Reply(False, words=message))
    emit({"denied": question.id}, as_json, "denied")


@approvals.command("revoke")
@click.argument("grant_id", metavar="ID")
@repo_option
@json_option
@reports_failures
def revoke(grant_id: str, repo: Path, as_json: bool) -> None:
    """Take a grant back."""
    only_people("revoking a grant")
    gate = governed_gate(repo)
    matching = [grant for grant in held(gate) if grant.id.endswith(grant_id)]
    if len(matching) != 1 or not taken_back(gate, matching[0]):
        many = f"{len(matching)} grants end with" if len(matching) > 1 else "there is no grant"
        raise Failure("NOT_FOUND", f"{many} {grant_id!r}", fix="`remit approvals list` shows them")
    emit({"revoked": matching[0].id}, as_json, f"revoked: {matching[0].code} {matching[0].rule}".rstrip())


def held(gate: Gate) -> tuple[Grant, ...]:
    """The grants that hold now, those of `remit.toml` among them."""
    return gate.approvals.grants(gate.governing.config.grants)


def taken_back(gate: Gate, grant: Grant) -> bool:
    """Whether the grant is gone now. Raises Failure where `remit.toml` cannot be changed."""
    try:
        return gate.approvals.revoke(grant.id) or ProjectGrants(gate.workspace, gate.state).drop(grant.id)
    except CannotWrite as error:
        raise Failure(
            "CONFIG_INVALID", f"remit.toml was not changed: {error}", fix="take the grant out by hand"
        ) from error


@approvals.command("watch")
@repo_option
@reports_failures
def watch(repo: Path) -> None:
    """Stay here and be asked: agents wait for your answer as long as this runs."""
    only_a_terminal()
    gate = governed_gate(repo)
    click.echo(f"Watching {gate.workspace.root}. Ctrl-C leaves; then what needs a yes is refused at once.")
    attend(gate, click.prompt)


def attend(gate: Gate, prompt: Callable[..., str]) -> None:
    """Ask the person about each card as it comes, and ring the terminal's bell for it."""
    gate.approvals.watch()
    gone = threading.Event()
    threading.Thread(target=say_so, args=(gate.workspace.root, gone), daemon=True).start()
    try:
        while True:
            close_orphans(gate)
            waiting = [one for one in gate.approvals.asked() if one.status == "open"]
            for card in (card[:MOST] for card in cards(waiting)[:1]):
                forget_typed()
                click.echo("\n".join(told(card, gate.workspace.root)) + ("\a" if sys.stdout.isatty() else ""))
                conclude(gate, card, ask_until_answered(card, prompt))
            time.sleep(WATCH_S)
    except (KeyboardInterrupt, click.Abort):
        gone.set()
        gate.approvals.leave()


def ask_until_answered(card: Sequence[Asked], prompt: Callable[..., str]) -> tuple[Reply, str]:
    """Ask until the person types an answer that this card offers; the answer, and the text as typed."""
    while True:
        word = prompt(choices(card), default="no")
        reply = read_answer(word, card)
        if reply is not None and is_possible(reply, card[0].question):
            return reply, word
        if reply is None:
            click.echo("\n".join(help_lines(card)))


def is_possible(reply: Reply, question: Question) -> bool:
    """Whether the yes can go as far as it was typed; where it cannot, the reason is printed."""
    try:
        rule_of(question, reply.extent, reply.pattern)
    except Failure as failure:
        click.echo(f"  {failure}")
        return False
    return True


def forget_typed() -> None:
    """What was typed before the card stood there answers nothing."""
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def conclude(gate: Gate, card: Sequence[Asked], answer: tuple[Reply, str]) -> None:
    """Give the answer to the first of the card, or to all of it, and confirm it in one line.

    A question that was answered elsewhere meanwhile keeps that answer, which is said.
    """
    reply, word = answer
    chosen = card if word.strip().lower() in ("a", "all") else card[:1]
    settled = 0
    for one in chosen:
        try:
            settle(gate, one.question, reply)
            settled += 1
        except Failure as failure:
            click.echo(f"  {failure}")
    if settled:
        click.echo(outcome_line(reply, card, settled))


def say_so(root: Path, gone: threading.Event) -> None:
    """Tell every second that somebody is there, also while they think. A connection of its own: it is a thread."""
    found = governed_gate(root).approvals
    while not gone.wait(1.0):
        found.watch()


def settle(gate: Gate, question: Question, reply: Reply) -> bool:
    """Give the answer; whether it came when nobody waited any more. Raises Failure where it can take no answer."""
    asked = gate.approvals.answer(question.id, reply)
    if asked is None:
        raise Failure("NOT_OPEN", "the question is not open any more: its time was over", fix="`remit approvals list`")
    if asked.status == "expired":
        asking(gate).answered(question, reply, gate.governing)
    return asked.status == "expired"


def close_orphans(gate: Gate) -> None:
    """Close what nobody waits for any more."""
    asking(gate).close_orphans(gate.governing)


def asking(gate: Gate) -> Asking:
    """Who records questions and answers."""
    return Asking(gate.approvals, gate.recorder, gate.environment)


def find(found: Approvals, question_id: str) -> Asked:
    """Return the question without an answer of that id, or of a part of it. Raises Failure."""
    asked = {one.question.id: one for one in found.asked()}
    return asked[choose_id("open question", question_id, asked, "`remit approvals list`")]
