"""`remit approvals`: what agents may not do without a person's yes."""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from remit.cli.output import REFUSED, Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.people import only_people
from remit.core.grant import EXTENTS, Extent, proposed_pattern
from remit.core.text import shown
from remit.gate.approvals import Approvals, Question, Reply
from remit.gate.gate import Gate

WATCH_S = 0.2


@click.group()
def approvals() -> None:
    """Questions that agents wait on, and the yeses given so far."""


def only_a_terminal() -> None:
    """Raise Failure where this is no terminal of a person's."""
    only_people("answering for a person")
    if not sys.stdin.isatty():
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
    """List what waits for an answer, and the grants that hold."""
    found = governed_gate(repo).approvals
    questions, grants = found.open_questions(), found.grants()
    lines = [line for q in questions for line in told(q)] or ["nothing waits"]
    lines += [
        f"grant {g.id[-8:]}  {g.extent}: {g.code} {g.pattern or ''}  {g.intent_id or g.session_id or ''}"
        for g in grants
    ]
    data = {"questions": msgspec.to_builtins(questions), "grants": msgspec.to_builtins(grants)}
    emit(data, as_json, "\n".join(lines))


def told(question: Question) -> list[str]:
    """A question for people."""
    left = max(0, int(question.expires_at - time.time()))
    reasons = "; ".join(question.reasons)
    return [
        click.style(
            f"{question.id[-8:]}  {question.agent}  {question.intent_id or 'no intent'}  ({left} s left)", bold=True
        ),
        f"    {shown(question.action, 500)}",
        f"    {question.code}: {shown(question.message, 300)}",
        f"    risk {question.risk}/100{f': {reasons}' if reasons else ''}",
    ]


@approvals.command("allow")
@click.argument("question_id", metavar="ID")
@click.option(
    "--for", "extent", type=click.Choice(EXTENTS), default="once", show_default=True, help="How far the yes goes."
)
@click.option("--rule", "pattern", metavar="GLOB", help="The paths it covers; its folder by default.")
@repo_option
@json_option
@reports_failures
def allow(question_id: str, extent: Extent, pattern: str | None, repo: Path, as_json: bool) -> None:
    """Say yes."""
    only_a_terminal()
    gate = governed_gate(repo)
    question = find(gate.approvals, question_id)
    covered = pattern or proposed_pattern(question.path, extent)
    settle(gate, question, Reply(True, extent=extent, pattern=covered))
    rule = f"{extent}: {question.code} {covered or ''}".rstrip()
    emit({"allowed": question.id, "extent": extent, "pattern": covered}, as_json, f"allowed, {rule}")


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
    question = find(gate.approvals, question_id)
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
    """Ask the person about each question as it comes."""
    found = gate.approvals
    found.watch()
    gone = threading.Event()
    threading.Thread(target=say_so, args=(gate.workspace.root, gone), daemon=True).start()
    try:
        while True:
            for question in found.open_questions()[:1]:
                click.echo("\n".join(told(question)))
                settle(
                    gate,
                    question,
                    reply_of(prompt("  [y]es once, [s]ession, [i]ntent, or the reason why not", default="no")),
                )
            time.sleep(WATCH_S)
    except (KeyboardInterrupt, click.Abort):
        gone.set()
        found.leave()


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


def settle(gate: Gate, question: Question, reply: Reply) -> None:
    """Give the answer. Raises Failure where the question is not open any more."""
    if gate.approvals.answer(question.id, reply) is None:
        raise Failure("NOT_OPEN", "the question is not open any more: its time was over", fix="`remit approvals list`")


def find(found: Approvals, question_id: str) -> Question:
    """The open question of that id, or of its last digits. Raises Failure."""
    matching = [q for q in found.open_questions() if q.id.endswith(question_id)]
    if len(matching) != 1:
        raise Failure("NOT_FOUND", f"no open question {question_id!r}", fix="`remit approvals list` shows what waits")
    return matching[0]
