"""`remit approvals`: list, answer and revoke the approvals that agents need from a person."""

import os
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from remit.cli.completion import complete_questions
from remit.cli.output import Failure, command_options, emit, governed_gate, repo_option, reports_failures, say
from remit.cli.person_only import require_person, require_terminal
from remit.cli.records.query import choose_id
from remit.cli.screen import DIFF_COLOURS, choose_pager, show_in_pager
from remit.core.acts import Act
from remit.core.decision import EXTENTS, Extent, Grant
from remit.core.untrusted_input import sanitise_full_line, sanitise_line
from remit.gate.gate import Gate
from remit.gate.intents.refusals import IntentError, validate_scope
from remit.gate.people import answer
from remit.gate.people.grants import GRANT_WRITE_ERRORS
from remit.gate.people.questions import LATE_ANSWER_S, ApprovalReply, ListedQuestion, Question, ShownProposal
from remit.gate.state.database import StateError
from remit.policy.grants import GrantRuleError, make_rule

MAX_DIFF_LINES = 40  # on a card in the terminal
MAX_SLIP_CHARS = 2
EXTENT_LETTERS: dict[str, Extent] = {"s": "session", "i": "intent", "p": "project"}
POLL_INTERVAL_S = 0.2
SIGN_INTERVAL_S = 1.0
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
    answer.close_orphaned_questions(gate)
    listed, grants = gate.questions.list_unanswered(), active_grants(gate)
    lines = [line for card in answer.group_equal_questions(listed) for line in card_lines(card)]
    questions = [{**msgspec.to_builtins(item.question), "status": item.status} for item in listed]
    data = {"questions": questions, "grants": grants}
    emit(data, as_json, [*(lines or ["nothing waits"]), *map(grant_line, grants)])


@approvals.command("allow")
@click.argument("question_id", metavar="ID", shell_complete=complete_questions)
@click.option(
    "--for", "extent", type=click.Choice(EXTENTS), default="once", show_default=True, help="How far the yes goes."
)
@click.option("--rule", "pattern", metavar="RULE", help="What it covers: paths, or a command's first words.")
@click.option("--all-equal", is_flag=True, help="Say yes to every equal question that waits, each for this once.")
@click.option(
    "--scope", "-s", multiple=True, metavar="GLOB", help="The scope of a proposed intent instead; repeatable."
)
@command_options
def allow(
    question_id: str,
    extent: Extent,
    pattern: str | None,
    all_equal: bool,
    scope: tuple[str, ...],
    repo: Path,
    as_json: bool,
) -> None:
    """Say yes.

    A yes that goes further than this once covers the question's folder, or the first words of its command; `--rule`
    says it otherwise. Above a risk of 60, and for commands whose words do not tell what they do, a yes is for once.
    """
    require_terminal(Act.SAY_YES)
    gate = governed_gate(repo)
    chosen = find_question(gate, question_id)
    cards = answer.group_equal_questions(gate.questions.list_unanswered()) if all_equal else []
    equal = [item for card in cards if chosen in card for item in card if item != chosen]
    if scope and chosen.question.proposal is None:
        raise Failure("USAGE", "the question proposes no intent", target="--scope", fix="leave --scope out")
    validate_scope(scope, required=bool(scope))
    reply = ApprovalReply(True, extent=extent, pattern=pattern, scope=scope)
    rule = covered_rule(reply, chosen.question)
    late = record_or_fail(gate, chosen.question, reply)
    answered = [chosen.question.id]
    for item in equal:
        try:
            answer.record_reply(gate, item.question, ApprovalReply(True))
        except answer.QuestionClosed:
            continue  # answered meanwhile
        answered.append(item.question.id)
    text = f"allowed, {extent}: {chosen.question.code} {rule}".rstrip()
    text += f", and {len(answered) - 1} equal to it" if all_equal else ""
    data = {"allowed": chosen.question.id, "extent": extent, "rule": rule, "all": answered, "late": late}
    emit(data, as_json, text + (LATE_ANSWER_NOTE if late else ""))


@approvals.command("deny")
@click.argument("question_id", metavar="ID", shell_complete=complete_questions)
@click.option("-m", "--message", default="", help="Why; the agent is told.")
@command_options
def deny(question_id: str, message: str, repo: Path, as_json: bool) -> None:
    """Say no."""
    require_person(Act.SAY_NO)
    gate = governed_gate(repo)
    question = find_question(gate, question_id).question
    record_or_fail(gate, question, ApprovalReply(False, words=message))
    emit({"denied": question.id}, as_json, "denied")


@approvals.command("revoke")
@click.argument("grant_id", metavar="ID")
@command_options
def revoke(grant_id: str, repo: Path, as_json: bool) -> None:
    """Take a grant back."""
    require_person(Act.REVOKE_GRANT)
    gate = governed_gate(repo)
    matching = [grant for grant in active_grants(gate) if grant.id.endswith(grant_id)]
    is_revoked = False
    if len(matching) == 1:
        name = matching[0].id
        try:
            is_revoked = answer.revoke_grant(gate, name)
        except GRANT_WRITE_ERRORS as error:
            message = f"remit.toml was not changed: {error}"
            raise Failure("CONFIG_INVALID", message, fix="take the grant out by hand") from error
    if not is_revoked:
        many = f"{len(matching)} grants end with" if len(matching) > 1 else "there is no grant"
        raise Failure("NOT_FOUND", f"{many} {grant_id!r}", fix="`remit approvals list` shows them")
    emit({"revoked": matching[0].id}, as_json, f"revoked: {matching[0].code} {matching[0].rule}".rstrip())


@approvals.command("watch")
@repo_option
@reports_failures
def watch(repo: Path) -> None:
    """Stay here and be asked: agents wait for your answer as long as this runs."""
    require_terminal(Act.ANSWER)
    gate = governed_gate(repo)
    say(f"Watching {gate.workspace.root}. Ctrl-C leaves; then what needs a yes is refused at once.")
    answer_questions(gate, click.prompt)


# --- answering ---------------------------------------------------------------------------------------------


def answer_questions(gate: Gate, prompt: Callable[..., str]) -> None:
    gate.questions.mark_watcher_present()
    clock, stopped = gate.environment.clock, threading.Event()
    threading.Thread(target=announce_watcher, args=(gate, stopped), daemon=True).start()
    try:
        while True:
            answer.close_orphaned_questions(gate)
            waiting = [item for item in gate.questions.list_unanswered() if item.status == "open"]
            if waiting:
                card = answer.group_equal_questions(waiting)[0][: answer.MAX_EQUAL_QUESTIONS]
                if sys.stdin.isatty():  # no key typed before the card was shown answers a question
                    termios.tcflush(sys.stdin, termios.TCIFLUSH)
                say("\n".join(card_lines(card)))
                click.echo("\a" if sys.stdout.isatty() else "", nl=False)
                answer_card(gate, card, prompt)
            clock.wait(stopped, POLL_INTERVAL_S)
    except (KeyboardInterrupt, click.Abort):
        stopped.set()
        gate.questions.mark_watcher_gone()


def announce_watcher(gate: Gate, stopped: threading.Event) -> None:
    """Record again and again that a person is watching. Uses its own connection, because it runs in a thread. A busy
    state is tried again: who is not announced is asked nothing any more.
    """
    questions = Gate(gate.workspace, gate.environment).questions
    while not gate.environment.clock.wait(stopped, SIGN_INTERVAL_S):
        with suppress(StateError):
            questions.mark_watcher_present()


def answer_card(gate: Gate, card: Sequence[ListedQuestion], prompt: Callable[..., str]) -> None:
    while True:
        word = prompt(prompt_text(card), default="no")
        if word.strip().lower() in ("d", "diff") and is_diff_cut(card[0].question):
            show_whole_diff(card[0].question)
            continue
        shown = card[0].question.proposal
        if shown is not None and word.strip().lower() in ("e", "edit"):
            word = f"e {prompt('  scope, patterns apart by spaces', default=' '.join(shown.scope))}"
        reply = parse_answer(word, card)
        if reply is None:
            say("\n".join(help_lines(card)))
            continue
        try:
            covered_rule(reply, card[0].question)
            validate_scope(reply.scope, required=bool(reply.scope))
            break
        except IntentError as error:
            say(f"  {error}")
        except Failure as failure:
            say(f"  {failure}")
    recorded = 0
    for item in card if word.strip().lower() in ("a", "all") else card[:1]:
        try:
            answer.record_reply(gate, item.question, reply)
            recorded += 1
        except answer.QuestionClosed as closed:
            say(f"  {closed}")
    if recorded:
        say(outcome_line(reply, card, recorded))


def is_diff_cut(question: Question) -> bool:
    return len(question.diff.splitlines()) > MAX_DIFF_LINES


def show_whole_diff(question: Question) -> None:
    """Show a question's diff in the person's pager, or below the card where there is none."""
    lines = colour_diff(question.diff.splitlines())
    pager = choose_pager({}, os.environ) if sys.stdout.isatty() else ""
    if pager:
        show_in_pager("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"), pager)
    else:
        say("\n".join(f"      {line}" for line in lines))


def colour_diff(lines: Sequence[str]) -> list[str]:
    return [click.style(line, fg=DIFF_COLOURS.get(line[:1])) for line in lines]


def covered_rule(reply: ApprovalReply, question: Question) -> str:
    try:
        return answer.find_covered_rule(reply, question)
    except GrantRuleError as error:
        message = f"this yes cannot be given: {error}"
        raise Failure("RULE_REFUSED", message, fix="say yes once, or name another rule") from None


def record_or_fail(gate: Gate, question: Question, reply: ApprovalReply) -> bool:
    """Record the answer; return True if the agent no longer waits for it. Raises Failure if the question is closed."""
    try:
        return answer.record_reply(gate, question, reply)
    except answer.QuestionClosed as closed:
        raise Failure("NOT_OPEN", str(closed), fix="`remit approvals list`") from None


def active_grants(gate: Gate) -> tuple[Grant, ...]:
    return gate.active_grants(gate.rules)


def find_question(gate: Gate, question_id: str) -> ListedQuestion:
    listed = {item.question.id: item for item in gate.questions.list_unanswered()}
    return listed[choose_id("open question", question_id, listed, "`remit approvals list`")]


# --- cards -------------------------------------------------------------------------------------------------


def card_lines(card: Sequence[ListedQuestion]) -> list[str]:
    """Return the lines of a card: the first question in full, and the calls of the equal ones."""
    question, *equals = (item.question for item in card)
    left = "expired" if card[0].status == "expired" else f"{max(0, int(question.expires_at - time.time()))} s left"
    reasons = sanitise_line("; ".join(question.reasons), 300)
    offer = answer.find_wider_rule(question)
    return [
        click.style(f"{question.id[-8:]}  {question.agent}  {question.intent_id or 'no intent'}  ({left})", bold=True),
        *(f"    {line}" for line in answer.describe_subject(question)),
        *(f"      {line}" for line in colour_diff(shorten_diff(question.diff))),
        *(["    this is not the whole of it: it is too long to be shown"] if question.is_cut else []),
        *(f"    {equal.id[-8:]}  {sanitise_full_line(equal.action)}" for equal in equals),
        f"    {question.code}: {sanitise_line(question.message, 300)}",
        f"    risk {question.risk}/100{f': {reasons}' if reasons else ''}",
        *([f"    a wider yes would cover: {offer}"] if offer is not None else []),
    ]


def shorten_diff(diff: str) -> list[str]:
    lines = diff.splitlines()
    left = len(lines) - MAX_DIFF_LINES
    return [*lines[:MAX_DIFF_LINES], *([f"… and {left} lines more"] if left > 0 else [])]


def grant_line(grant: Grant) -> str:
    owner = "remit.toml" if grant.extent == "project" else grant.intent_id or grant.session_id or ""
    end = f"  until {time.strftime('%d %b %H:%M', time.localtime(grant.until))}" if grant.until is not None else ""
    return f"grant {grant.id[-8:]}  {grant.extent}: {grant.code} {sanitise_line(grant.rule, 200)}  {owner}{end}"


def prompt_text(card: Sequence[ListedQuestion]) -> str:
    whole = "[d]iff whole, " if is_diff_cut(card[0].question) else ""
    edit = describe_edits(card[0].question)
    if typed := answer.choose_typed_word(card[0].question):
        return f"  {typed} typed: yes once, {edit}{whole}[?] help, or the reason why not"
    if edit:
        return f"  [y]es, {edit}[n]o, [?] help, or the reason why not"
    every = f"[a]ll {len(card)} once, " if len(card) > 1 else ""
    wider = (
        "[s]ession, [i]ntent, [p]roject (i=RULE for another rule), " if answer.find_wider_rule(card[0].question) else ""
    )
    return f"  [y]es once, {every}{wider}{whole}[?] help, or the reason why not"


def describe_edits(question: Question) -> str:
    shown = question.proposal
    if shown is None:
        return ""
    hints, folders = (" ".join(sanitise_line(path, 80) for path in paths) for paths in (shown.hints, shown.folders))
    with_hints = f"[w]ith {hints}, " if hints and not shown.is_wide else ""
    return f"{with_hints}{f'[f]olders {folders}, ' if folders and not shown.is_wide else ''}[e]dit, "


def parse_scope_answer(word: str, shown: ShownProposal) -> ApprovalReply | None:
    """Return the yes that changes a proposed scope: `w`, `f`, or `e` with patterns; None for another answer."""
    letter, *patterns = word.split()
    if letter.lower() in ("e", "edit") and patterns and (not shown.is_wide or set(patterns) != set(shown.scope)):
        return ApprovalReply(True, scope=tuple(dict.fromkeys(patterns)))
    if patterns or shown.is_wide:
        return None
    if letter.lower() in ("w", "with") and shown.hints:
        return ApprovalReply(True, scope=(*shown.scope, *shown.hints))
    if letter.lower() in ("f", "folders") and shown.folders:
        return ApprovalReply(True, scope=shown.folders)
    return None


def help_lines(card: Sequence[ListedQuestion]) -> list[str]:
    rule, typed = answer.find_wider_rule(card[0].question), answer.choose_typed_word(card[0].question)
    shown = card[0].question.proposal
    lines = [f"    {typed or 'y':8}yes, to this call", "    n       no, without a reason"]
    lines += [f"    a       yes, to each of these {len(card)} calls"] if len(card) > 1 and not typed else []
    lines += ["    d       the whole diff"] if is_diff_cut(card[0].question) else []
    if shown is not None:
        lines += [f"    w       yes, and {' '.join(shown.hints)} with it"] if shown.hints and not typed else []
        lines += [f"    f       yes, to the folders {' '.join(shown.folders)}"] if shown.folders and not typed else []
        lines += ["    e       yes, to a scope that you write; also e PATTERN PATTERN"]
    if rule and not typed:
        lines += [
            f"    s       yes, for the rest of the session, to: {rule}",
            f"    i       yes, until the intent ends, to: {rule}",
            f"    p       yes, for everybody in this project, to: {rule}  (an entry in remit.toml)",
            "    i=RULE  the same for another rule, such as i=docs/*.md; s= and p= likewise",
        ]
    return [*lines, "    any other text refuses the call, and the agent is told that text as the reason"]


def parse_answer(word: str, card: Sequence[ListedQuestion]) -> ApprovalReply | None:
    """Return the answer typed to a card; None for a request for help or an unknown answer. One or two letters that the
    card does not offer are treated as a typing slip, and so is a word in place of the one that a high risk needs.
    Longer text denies the call and is the reason.
    """
    choice, equals, rule = word.strip().partition("=")
    letter = choice.strip().lower()
    if not equals and letter in ("", "n", "no"):
        return ApprovalReply(False)
    shown = card[0].question.proposal
    if shown is not None and (changed := parse_scope_answer(word, shown)) is not None:
        return changed
    if typed := answer.choose_typed_word(card[0].question):
        if letter == typed.lower():
            return ApprovalReply(True)
        is_unedited = shown is not None and set(word.split()[1:]) == set(shown.scope)
        return ApprovalReply(False, words=word.strip()) if len(word.split()) > 1 and not is_unedited else None
    if not equals and letter in ("y", "yes", "a", "all"):
        is_offered = letter[0] == "y" or len(card) > 1
        return ApprovalReply(True) if is_offered else None
    if letter in EXTENT_LETTERS:
        if not answer.find_wider_rule(card[0].question):
            return None
        return ApprovalReply(True, extent=EXTENT_LETTERS[letter], pattern=rule.strip() or None)
    return ApprovalReply(False, words=word.strip()) if len(word.strip()) > MAX_SLIP_CHARS else None


def outcome_line(reply: ApprovalReply, card: Sequence[ListedQuestion], count: int) -> str:
    question = card[0].question
    if reply.allow and question.proposal is not None:
        return f"  made and selected; it owns {sanitise_line(' '.join(reply.scope or question.proposal.scope), 500)}"
    if not reply.allow:
        return "  refused" + (f": {sanitise_line(reply.words, 200)}" if reply.words else "")
    if reply.extent == "once":
        return "  allowed, this once" if count == 1 else f"  allowed, these {count} once"
    rule = sanitise_line(make_rule(question.subject, reply.extent, reply.pattern).text, 200)
    until = {"session": "for the session", "intent": f"for {question.intent_id}", "project": "for the project"}
    return f"  allowed, {until[reply.extent]}: {question.code} {rule}"
