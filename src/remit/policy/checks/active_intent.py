"""Changes need a selected intent that is open."""

from remit.core.call import ToolCall
from remit.core.decision import ErrorType, Facts, Finding
from remit.core.intent import FINAL_STATUSES
from remit.core.untrusted_input import sanitise_line
from remit.policy.commands.dangers import ALONE, find_mixed_act


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find MISSING_OR_INVALID_INTENT, or the reason why the selected intent is no longer open."""
    wanted, intent = facts.session.intent_id, facts.active
    selectable = facts.intents.list_open_ids(facts.ignored_intents)
    code: ErrorType
    if wanted is None:
        say = "There is no open intent: ask the person for one (`remit intent new`)."
        if selectable:
            say = f"Select one first (open: {', '.join(selectable[:10])})."
        if call.command is not None and (act := find_mixed_act(call.command)):
            say = f"`{sanitise_line(act, 120)}` selects only as a command of its own: {ALONE}."
        code, message = "MISSING_OR_INVALID_INTENT", f"You must cite a valid active Intent ID. {say}"
    elif intent is None:
        known = ", ".join(list(facts.intents.ids)[:20]) or "none"
        code, message = "INTENT_NOT_FOUND", f"No file declares {wanted} here any more (known: {known})."
    elif wanted in facts.ignored_intents:
        code, message = "INTENT_IGNORED", f"{wanted} is barred by .intentignore. Select another intent."
    elif intent.status == "BLOCKED" or intent.status in FINAL_STATUSES:
        why = f": {sanitise_line(intent.blocked_reason)}" if intent.blocked_reason else ""
        code = "INTENT_BLOCKED" if intent.status == "BLOCKED" else "INTENT_CLOSED"
        message = f"{intent.id} is {intent.status}{why}. Clear it and select another."
    else:
        return None
    return Finding("active_intent", code, message, context={"available_intents": selectable})
