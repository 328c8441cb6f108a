"""Terminal views of questions and grants."""

import time
from collections.abc import Sequence
from pathlib import Path

import click

from remit.cli.terminal.colour import DIFF_COLOURS
from remit.core.display_text import sanitise_full_line, sanitise_line
from remit.core.grant import Extent, Grant
from remit.gate.state.questions import ApprovalReply, ListedQuestion, Question
from remit.policy.approval.grants import GrantRuleError, make_rule

MAX_EQUAL_QUESTIONS = 20
"""Equal questions on one card: an approval of the card covers only questions that were shown."""

MAX_SLIP_CHARS = 2
EXTENT_LETTERS: dict[str, Extent] = {"s": "session", "i": "intent", "p": "project"}


def group_equal_questions(listed: Sequence[ListedQuestion]) -> list[list[ListedQuestion]]:
    cards: dict[tuple[str, ...], list[ListedQuestion]] = {}
    for item in listed:
        cards.setdefault((item.status, *item.question.group_key), []).append(item)
    return list(cards.values())


def card_lines(card: Sequence[ListedQuestion], root: Path) -> list[str]:
    """Return the lines of a card: the first question in full, and the calls of the equal ones.

    Paths inside `root` are shown relative to it.
    """
    question, *equals = (item.question for item in card)
    left = "expired" if card[0].status == "expired" else f"{max(0, int(question.expires_at - time.time()))} s left"
    reasons = sanitise_line("; ".join(question.reasons), 300)
    return [
        click.style(f"{question.id[-8:]}  {question.agent}  {question.intent_id or 'no intent'}  ({left})", bold=True),
        f"    {sanitise_full_line(shorten_path(question.action, root))}",
        *(click.style(f"      {line}", fg=DIFF_COLOURS.get(line[:1])) for line in question.diff.splitlines()),
        *(f"    {equal.id[-8:]}  {sanitise_full_line(shorten_path(equal.action, root))}" for equal in equals),
        f"    {question.code}: {sanitise_line(question.message, 300)}",
        f"    risk {question.risk}/100{f': {reasons}' if reasons else ''}",
        *([] if (offer := wider_rule(question)) is None else [f"    a wider yes would cover: {offer}"]),
    ]


def shorten_path(action: str, root: Path) -> str:
    """Return the action of a file tool with its path relative to `root`; return any other action unchanged."""
    tool, separator, path = action.partition(": ")
    is_inside = path.startswith(f"{root}/") and "/../" not in path
    return f"{tool}{separator}{path.removeprefix(f'{root}/')}" if is_inside else action


def wider_rule(question: Question) -> str | None:
    """Return the rule that an approval for the session or the intent would cover; None if only `once` is possible."""
    try:
        return sanitise_line(make_rule(question.subject, "intent").text, 200) or None
    except GrantRuleError:
        return None


def grant_line(grant: Grant) -> str:
    owner = "remit.toml" if grant.extent == "project" else grant.intent_id or grant.session_id or ""
    end = f"  until {time.strftime('%d %b %H:%M', time.localtime(grant.until))}" if grant.until is not None else ""
    return f"grant {grant.id[-8:]}  {grant.extent}: {grant.code} {sanitise_line(grant.rule, 200)}  {owner}{end}"


def prompt_text(card: Sequence[ListedQuestion]) -> str:
    """Return the prompt of a card: exactly the answers that `parse_answer` accepts for it."""
    every = f"[a]ll {len(card)} once, " if len(card) > 1 else ""
    wider = "[s]ession, [i]ntent, [p]roject (i=RULE for another rule), " if wider_rule(card[0].question) else ""
    return f"  [y]es once, {every}{wider}[?] help, or the reason why not"


def parse_answer(word: str, card: Sequence[ListedQuestion]) -> ApprovalReply | None:
    """Return the answer typed to a card; None for a request for help or an unknown answer.

    One or two letters that the card does not offer are treated as a typing slip. Longer text denies the call and is the
    reason.
    """
    choice, equals, rule = word.strip().partition("=")
    letter = choice.strip().lower()
    if not equals and letter in ("", "n", "no"):
        return ApprovalReply(False)
    if not equals and letter in ("y", "yes", "a", "all"):
        is_offered = letter[0] == "y" or len(card) > 1
        return ApprovalReply(True) if is_offered else None
    if letter in EXTENT_LETTERS:
        if not wider_rule(card[0].question):
            return None
        return ApprovalReply(True, extent=EXTENT_LETTERS[letter], pattern=rule.strip() or None)
    return ApprovalReply(False, words=word.strip()) if len(word.strip()) > MAX_SLIP_CHARS else None


def help_lines(card: Sequence[ListedQuestion]) -> list[str]:
    """Return the meaning of each answer that the card offers."""
    rule = wider_rule(card[0].question)
    lines = ["    y       yes, to this call", "    n       no, without a reason"]
    lines += [f"    a       yes, to each of these {len(card)} calls"] if len(card) > 1 else []
    if rule:
        lines += [
            f"    s       yes, for the rest of the session, to: {rule}",
            f"    i       yes, until the intent ends, to: {rule}",
            f"    p       yes, for everybody in this project, to: {rule}  (an entry in remit.toml)",
            "    i=RULE  the same for another rule, such as i=docs/*.md; s= and p= likewise",
        ]
    return [*lines, "    any other text refuses the call, and the agent is told that text as the reason"]


def outcome_line(reply: ApprovalReply, card: Sequence[ListedQuestion], count: int) -> str:
    """Return the line that confirms an answer and states its extent."""
    question = card[0].question
    if not reply.allow:
        return "  refused" + (f": {sanitise_line(reply.words, 200)}" if reply.words else "")
    if reply.extent == "once":
        return "  allowed, this once" if count == 1 else f"  allowed, these {count} once"
    rule = sanitise_line(make_rule(question.subject, reply.extent, reply.pattern).text, 200)
    until = {"session": "for the session", "intent": f"for {question.intent_id}", "project": "for the project"}
    return f"  allowed, {until[reply.extent]}: {question.code} {rule}"
