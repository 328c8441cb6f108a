"""`remit approvals`: what agents may not do without a person's yes."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from remit.cli.attempts import attempted
from remit.cli.output import REFUSED, Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.people import only_people
from remit.core.grant import EXTENTS, HIGH_RISK, Extent, Grant
from remit.core.text import shown
from remit.gate.approvals import LATE_S, Approvals, Asked, Question, Reply
from remit.gate.asking import Asking
from remit.gate.gate import Gate
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
    found, grants = gate.approvals.asked(), gate.approvals.grants()
    lines = [line for card in cards(found) for line in told(card)] or ["nothing waits"]
    lines += [granted(grant) for grant in grants]
    questions = [{**msgspec.to_builtins(one.question), "status": one.status} for one in found]
    emit({"questions": questions, "grants": msgspec.to_builtins(grants)}, as_json, "\n".join(lines))


def granted(grant: Grant) -> str:
    """A grant for people."""
    return (
        f"grant {grant.id[-8:]}  {grant.extent}: {grant.code} {grant.rule}  {grant.intent_id or grant.session_id or ''}"
    )


def cards(found: Sequence[Asked]) -> list[list[Asked]]:
    """The questions, equal ones together; where the first of them stands."""
    folded: dict[tuple[str, ...], list[Asked]] = {}
    for one in found:
        folded.setdefault((one.status, *one.question.card), []).append(one)
    return list(folded.values())


def told(card: Sequence[Asked]) -> list[str]:
    """A card for people: the first of equal questions, and what the others ask for."""
    question, status = card[0].question, card[0].status
    left = "expired" if status == "expired" else f"{max(0, int(question.expires_at - time.time()))} s left"
    reasons = "; ".join(question.reasons)
    return [
        click.style(f"{question.id[-8:]}  {question.agent}  {question.intent_id or 'no intent'}  ({left})", bold=True),
        f"    {shown(question.action, 500)}",
        *(f"    {one.question.id[-8:]}  {shown(one.question.action, 200)}" for one in card[1:]),
        f"    {question.code}: {shown(question.message, 300)}",
        f"    risk {question.risk}/100{f': {reasons}' if reasons else ''}",
        *([] if (offer := offered(question)) is None else [f"    a wider yes would cover: {offer}"]),
    ]


def offered(question: Question) -> str | None:
    """What a yes for the session or the intent would cover; None where it can be for this once only."""
    try:
        return shown(rule_for(question.subject, "intent").shown, 200)
    except RuleRefused:
        return None


@approvals.command("allow")
@click.argument("question_id", metavar="ID")
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
            "RULE_REFUSED", f"this yes cannot go that far: {refused}", fix="leave out --for or --rule"
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
@click.argument("question_id", metavar="ID")
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
    found = governed_gate(repo).approvals
    grant = next((g for g in found.grants() if g.id.endswith(grant_id)), None)
    if grant is None or not found.revoke(grant.id):
        raise Failure("NOT_FOUND", f"there is no grant {grant_id!r}", fix="`remit approvals list` shows them")
    emit({"revoked": grant.id}, as_json, "revoked")


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
    """Ask the person about each card as it comes."""
    gate.approvals.watch()
    gone = threading.Event()
    threading.Thread(target=say_so, args=(gate.workspace.root, gone), daemon=True).start()
    try:
        while True:
            close_orphans(gate)
            waiting = [one for one in gate.approvals.asked() if one.status == "open"]
            for card in cards(waiting)[:1]:
                click.echo("\n".join(told(card)))
                conclude(gate, card, prompt(choices(card), default="no"))
            time.sleep(WATCH_S)
    except (KeyboardInterrupt, click.Abort):
        gone.set()
        gate.approvals.leave()


def choices(card: Sequence[Asked]) -> str:
    """What one may say to a card."""
    every = f"[a]ll {len(card)} once, " if len(card) > 1 else ""
    wider = "[s]ession, [i]ntent, " if offered(card[0].question) is not None else ""
    return f"  [y]es once, {every}{wider}or the reason why not"


def conclude(gate: Gate, card: Sequence[Asked], word: str) -> None:
    """Give the answer to the first of the card, or to all of it; one that is answered by now is let be."""
    everything = word.strip().lower() in ("a", "all") and len(card) > 1
    reply = Reply(True) if everything else reply_of(word)
    if reply.allow and reply.extent != "once" and offered(card[0].question) is None:
        click.echo(f"  above a risk of {HIGH_RISK}, and for words that say too little, a yes is for this once")
        return
    for one in card if everything else card[:1]:
        try:
            settle(gate, one.question, reply)
        except Failure as failure:
            click.echo(f"  {failure}")


def say_so(root: Path, gone: threading.Event) -> None:
    """Tell every second that somebody is there, also while they think. A connection of its own: it is a thread."""
    found = governed_gate(root).approvals
    while not gone.wait(1.0):
        found.watch()


def reply_of(word: str) -> Reply:
    """What a person typed, as an answer."""
    extents: dict[str, Extent] = {"y": "once", "yes": "once", "s": "session", "i": "intent"}
    extent = extents.get(word.strip().lower())
    if extent is None:
        return Reply(False, words="" if word.strip().lower() in ("n", "no") else word)
    return Reply(True, extent=extent)


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
    """The question without an answer of that id, or of its last digits. Raises Failure."""
    matching = [one for one in found.asked() if one.question.id.endswith(question_id)]
    if len(matching) != 1:
        raise Failure("NOT_FOUND", f"no open question {question_id!r}", fix="`remit approvals list` shows what waits")
    return matching[0]
