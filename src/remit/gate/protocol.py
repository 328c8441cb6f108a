"""What an agent is told about working under Remit: at session start, and its intent whenever that changed."""

from remit.core.decision import Mode
from remit.core.intent import Intent, IntentsDocument
from remit.core.text import shown

PROTOCOL = """\
<remit_protocol mode="{mode}">
This workspace is governed by Remit. {duty}
1. Before you change anything, select the intent you work under: call the MCP tool `select_active_intent` of the \
server `remit` with its `intent_id` (without MCP, run the shell command `remit intent select ID`). Reading and \
searching need no intent.
2. Stay inside the intent's `owned_scope`, and keep its constraints. A refusal says which rule it was and what to do: \
follow that; do not look for another tool or a shell command that gets round it. What commands \
change is found by comparing and recorded; in enforce, what lies outside the scope does not stay.
3. When the acceptance criteria are met, call `complete_intent` with notes on how you verified them.
</remit_protocol>"""

DUTIES: dict[Mode, str] = {
    "enforce": "Changes without a selected intent, or outside its scope, are refused.",
    "warn": "Changes without a selected intent, or outside its scope, are let through, and told to you and the person.",
    "observe": "Changes are let through and recorded; work under an intent all the same where there is one.",
}

LISTED = 20


def protocol(mode: Mode, document: IntentsDocument | None) -> str:
    """The protocol text, with the intents that may be selected."""
    return f"{PROTOCOL.format(mode=mode, duty=DUTIES[mode])}\n{open_intents(document)}"


def open_intents(document: IntentsDocument | None) -> str:
    """The intents one may select, a line each."""
    found = [i for i in document.intents if i.status in ("DRAFT", "IN_PROGRESS")] if document else []
    if not found:
        return (
            "There is no open intent. If you have to change something, ask the person to make one (`remit intent new`)."
        )
    lines = [line(intent) for intent in found[:LISTED]]
    if len(found) > LISTED:
        lines.append(f"… and {len(found) - LISTED} more: call `list_active_intents`")
    return "Open intents:\n" + "\n".join(lines)


def line(intent: Intent) -> str:
    """One intent on one line."""
    scope = ", ".join(shown(pattern, 80) for pattern in intent.owned_scope[:5])
    return f"- {intent.id} [{intent.status}] {shown(intent.title, 100)} (scope: {scope})"
