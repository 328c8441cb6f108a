"""A session as people see it in a terminal: prompts, words, calls, and below each call its approval and effects."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.text import Text

from remit.cli.record_rows import EXTENTS, SIGNS, list_paths
from remit.cli.screen import Screen, seconds_of
from remit.cli.view import GAP, Meaning, Part, Table, heading, line, mark, words
from remit.provenance.why.story import Consent, Kind, Step

CELLS: dict[Kind, tuple[Meaning, str]] = {
    "asked": ("person", "prompt"),
    "said": ("agent", "said"),
    "thought": ("quiet", "thought"),
    "summary": ("quiet", "summary"),
    "intent": ("intent", "intent"),
    "approval": ("asked", "asked"),
}
VERDICTS: dict[str, tuple[Meaning, str]] = {
    "allow": ("allowed", "allowed"),
    "contain": ("contained", "contained"),
    "deny": ("denied", "denied"),
}
Row = tuple[Text, Text, Text]


def session_view(steps: Sequence[Step], screen: Screen, *, full: bool = False, about: str = "") -> Iterator[Part]:
    """Return the steps of a session below what it is `about`; `full`: with every line of every text."""
    if not steps:
        yield "nothing is known of that session"
        return
    if about:
        began = seconds_of(steps[0].at)
        yield heading(about, "" if began is None else f"began {screen.time(began)}")
    yield Table([row for step in steps for row in step_rows(step, screen, full)], is_folded=full)
    yield ""
    yield words(totals(steps), "dim")


def totals(steps: Sequence[Step]) -> str:
    """Return how many calls there were, and what came of them."""
    calls = [step for step in steps if step.kind == "call"]
    verdicts = Counter(VERDICTS.get(step.verdict, ("", "without a verdict"))[1] for step in calls)
    questions = [consent for step in steps for consent in step.consents]
    said = Counter(answer_word(consent) for consent in questions)
    asked = f"; {len(questions)} questions to a person: {counted(said)}" if questions else ""
    changed = {path for step in steps for path in step.changed}
    return f"{len(calls)} calls: {counted(verdicts) or 'none'}{asked}; {len(changed)} files changed"


def counted(found: Counter[str]) -> str:
    """Return counts in words, the most frequent first."""
    return ", ".join(f"{count} {name}" for name, count in found.most_common())


def step_rows(step: Step, screen: Screen, full: bool) -> Iterator[Row]:
    """Return one step as rows: the call or the words, and below it the approval and the effects."""
    texts = [text for text in step.text.split("\n") if text.strip()] or [""]
    tool = f"{step.tool} " if step.tool else ""
    below = words(f"[{step.agent_id[:12]}]", "dim") if step.agent_id else None
    is_whole = full or step.kind == "call"
    first = "\n".join(texts) if step.kind == "call" and not full else texts[0]
    text = line(below, words(f"{tool}{first}{'' if is_whole or len(texts) == 1 else ' …'}"), ending(step))
    if step.kind in ("thought", "summary"):
        text.stylize("dim")
    yield clock(step.at, screen), verdict_mark(step), text
    if full:
        yield from ((words(""), words(""), words(more)) for more in texts[1:])
    for consent in step.consents:
        yield from consent_rows(step, consent)
    yield from effect_rows(step)


def clock(at: str, screen: Screen) -> Text:
    """Return the time of day on a terminal, else the whole time."""
    seconds = seconds_of(at)
    if seconds is None or not screen.has_relative_times:
        return words(screen.time(at), "dim")
    return words(datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S"), "dim")


def verdict_mark(step: Step) -> Text:
    """Return what a step is; of a call, its verdict."""
    if step.kind != "call":
        return mark(*CELLS[step.kind])
    return mark(*VERDICTS.get(step.verdict, ("unknown", step.verdict or "no verdict")))


def ending(step: Step) -> Text | None:
    """Return why a call was refused, or that it failed."""
    if step.verdict == "deny":
        return words(f"→ {step.code}", "red")
    if step.failed or step.exit_code:
        return words(f"→ failed{f' (exit {step.exit_code})' if step.exit_code else ''}", "red")
    return None


def consent_rows(step: Step, consent: Consent) -> Iterator[Row]:
    """Return a question and its answer."""
    if step.kind == "call":
        risk = "" if consent.risk is None else f", risk {consent.risk}"
        yield effect_row(
            "asked", "asked", ": ".join(filter(None, (f"{consent.rule}{risk}", "; ".join(consent.reasons))))
        )
    meaning: Meaning = "allowed" if consent.answer == "allow" else "denied"
    if not consent.answer:
        yield effect_row("unknown", "open", "nobody has answered")
        return
    extent = EXTENTS.get(consent.extent, "") if consent.answer == "allow" else ""
    said = f"“{consent.words}”" if consent.words else ""
    yield effect_row(
        meaning, answer_word(consent), GAP.join(filter(None, (f"{consent.by or 'a person'}", extent, said)))
    )


def answer_word(consent: Consent) -> str:
    """Return an answer in one word."""
    return {"allow": "yes", "deny": "no"}.get(consent.answer, "open")


def effect_rows(step: Step) -> Iterator[Row]:
    """Return what came of a call: files that it changed, that git brought in it, that were put back."""
    if step.grant and not step.consents:
        yield effect_row("allowed", "yes", f"by an earlier answer, grant {step.grant[-8:]}")
    if step.changed:
        pairs = zip(step.operations or ("modify",) * len(step.changed), step.changed, strict=False)
        yield effect_row("changed", "changed", list_paths(f"{SIGNS.get(op, '~')}{path}" for op, path in pairs))
    if step.brought:
        yield effect_row("git", "by git", list_paths(step.brought))
    if step.undone:
        yield effect_row("undone", "undone", list_paths(step.undone))


def effect_row(meaning: Meaning, verb: str, about: str) -> Row:
    """Return a row below a call."""
    return words(""), mark(meaning, verb), words(about)
