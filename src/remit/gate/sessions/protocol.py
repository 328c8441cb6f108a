"""Instructions for an agent about working under Remit."""

from remit.core.decision import Mode
from remit.core.display_text import sanitise_line
from remit.core.intent import Intent, IntentsDocument

PROTOCOL_TEMPLATE = """\
<remit_protocol mode="{mode}">
This workspace is governed by Remit. {duty}
1. Before you change anything, select the intent you work under: call the MCP tool `select_active_intent` of the \
server `remit` with its `intent_id` (without MCP, run the shell command `remit intent select ID`). Reading and \
searching need no intent.
2. Stay inside the intent's `owned_scope`, and keep its constraints. A refusal says which rule it was and what to do: \
follow that; do not look for another tool or a shell command that gets round it. What commands \
change is found by comparing and recorded; in enforce, what lies outside the scope does not stay.
3. When the acceptance criteria are met, call `complete_intent` with the `intent_id`, and in `verification_notes` \
how you verified them.
</remit_protocol>"""

MCP_INSTRUCTIONS = (
    "This workspace is governed by Remit: select the intent you work under before you change anything, "
    "stay inside its owned_scope, and complete it when its acceptance criteria are met."
)
"""Short form of the protocol for the MCP server."""

DUTY_BY_MODE: dict[Mode, str] = {
    "enforce": "Changes without a selected intent, or outside its scope, are refused.",
    "warn": "Changes without a selected intent, or outside its scope, are let through, and told to you and the person.",
}

MAX_LISTED_INTENTS = 20


def must_select_intent(mode: Mode, document: IntentsDocument | None) -> bool:
    """Return True if agents must know of intents: in enforce, and in warn with a selectable intent."""
    return mode == "enforce" or (mode == "warn" and bool(selectable_intents(document)))


def format_protocol(mode: Mode, document: IntentsDocument | None) -> str:
    """Return the protocol with the selectable intents; "" if no duty applies to the agent."""
    if not must_select_intent(mode, document):
        return ""
    return f"{PROTOCOL_TEMPLATE.format(mode=mode, duty=DUTY_BY_MODE[mode])}\n{format_open_intents(document)}"


def format_mcp_instructions(mode: Mode, document: IntentsDocument | None) -> str:
    """Return the MCP server's instructions; "" if no duty applies to the agent."""
    return MCP_INSTRUCTIONS if must_select_intent(mode, document) else ""


def selectable_intents(document: IntentsDocument | None) -> list[Intent]:
    return [i for i in document.intents if i.status in ("DRAFT", "IN_PROGRESS")] if document else []


def format_open_intents(document: IntentsDocument | None) -> str:
    found = selectable_intents(document)
    if not found:
        return (
            "There is no open intent. If you have to change something, ask the person to make one (`remit intent new`)."
        )
    lines = [format_intent_line(intent) for intent in found[:MAX_LISTED_INTENTS]]
    if len(found) > MAX_LISTED_INTENTS:
        lines.append(f"… and {len(found) - MAX_LISTED_INTENTS} more: call `list_active_intents`")
    return "Open intents:\n" + "\n".join(lines)


def format_intent_line(intent: Intent) -> str:
    scope = ", ".join(sanitise_line(pattern, 80) for pattern in intent.owned_scope[:5])
    return f"- {intent.id} [{intent.status}] {sanitise_line(intent.title, 100)} (scope: {scope})"
