"""Changes need a selected intent that is open."""

from remit.core.call import ToolCall
from remit.core.decision import ErrorType, Finding
from remit.core.facts import Facts
from remit.core.intent import FINAL_STATUSES, Intent


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find MISSING_OR_INVALID_INTENT, or the reason why the selected intent is no longer open."""
    wanted = facts.session.intent_id
    if wanted is None:
        return no_intent_selected(facts)
    intent = facts.active
    if intent is None:
        return intent_removed(wanted, facts)
    if wanted in facts.ignored_intents:
        return make_finding("INTENT_IGNORED", f"{wanted} is barred by .intentignore. Select another intent.", facts)
    return check_status(intent, facts)


def check_status(intent: Intent, facts: Facts) -> Finding | None:
    """Return a finding if the intent was blocked, finished or given up after it was selected."""
    if intent.status == "BLOCKED":
        why = f": {intent.blocked_reason}" if intent.blocked_reason else ""
        return make_finding("INTENT_BLOCKED", f"{intent.id} is BLOCKED{why}. Clear it and select another.", facts)
    if intent.status in FINAL_STATUSES:
        return make_finding("INTENT_CLOSED", f"{intent.id} is {intent.status}. Clear it and select another.", facts)
    return None


def no_intent_selected(facts: Facts) -> Finding:
    open_ids = selectable_intents(facts)
    if open_ids:
        say = f"Select one first (open: {', '.join(open_ids[:10])})."
    else:
        say = "There is no open intent: ask the person for one (`remit intent new`)."
    return make_finding("MISSING_OR_INVALID_INTENT", f"You must cite a valid active Intent ID. {say}", facts)


def intent_removed(intent_id: str, facts: Facts) -> Finding:
    known = ", ".join(list(facts.intents.ids)[:20]) or "none"
    return make_finding("INTENT_NOT_FOUND", f"{intent_id} is no longer in active_intents.yaml (known: {known}).", facts)


def make_finding(code: ErrorType, message: str, facts: Facts) -> Finding:
    return Finding(
        rule="active_intent", code=code, message=message, context={"available_intents": selectable_intents(facts)}
    )


def selectable_intents(facts: Facts) -> list[str]:
    return facts.intents.list_open_ids(facts.ignored_intents)
