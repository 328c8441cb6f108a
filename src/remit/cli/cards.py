"""Questions and grants, as people see them in a terminal."""

import time
from collections.abc import Sequence

import click

from remit.core.grant import Grant
from remit.core.text import all_shown, shown
from remit.gate.approvals import Asked, Question
from remit.policy.grants import RuleRefused, rule_for

MOST = 20
"""Equal questions put at once: a yes to all of them is a yes to those that were shown."""

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


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
    reasons = shown("; ".join(question.reasons), 300)
    return [
        click.style(f"{question.id[-8:]}  {question.agent}  {question.intent_id or 'no intent'}  ({left})", bold=True),
        f"    {all_shown(question.action)}",
        *(click.style(f"      {line}", fg=COLOURS.get(line[:1])) for line in question.diff.splitlines()),
        *(f"    {one.question.id[-8:]}  {all_shown(one.question.action)}" for one in card[1:]),
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


def granted(grant: Grant) -> str:
    """A grant for people."""
    whose = "remit.toml" if grant.extent == "project" else grant.intent_id or grant.session_id or ""
    end = f"  until {time.strftime('%d %b %H:%M', time.localtime(grant.until))}" if grant.until is not None else ""
    return f"grant {grant.id[-8:]}  {grant.extent}: {grant.code} {shown(grant.rule, 200)}  {whose}{end}"


def choices(card: Sequence[Asked]) -> str:
    """What one may say to a card."""
    every = f"[a]ll {len(card)} once, " if len(card) > 1 else ""
    wider = "[s]ession, [i]ntent, [p]roject (i=RULE for another rule), " if offered(card[0].question) else ""
    return f"  [y]es once, {every}{wider}or the reason why not"
