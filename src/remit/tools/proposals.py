"""The tool for an agent's proposal of an intent: a person's key creates and selects the intent, and trusts the
commands.
"""

import shlex
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from remit.core.intent import MAX_VALUE_CHARS, Constraint, Criterion, Intent
from remit.core.redaction import redact
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.intents.bindings import end_request, find_request, name_request
from remit.gate.intents.proposals import make_agreed_intent, show_proposal
from remit.gate.intents.refusals import validate_scope
from remit.tools.agent_tool import Caller, ToolAnswer, ToolText
from remit.tools.asking import ask_person, make_question


class ProposedCriterion(Struct, frozen=True, forbid_unknown_fields=True):
    """A criterion with the command that exits 0 once it is met."""

    verify: ToolText
    text: ToolText = ""


class ProposeIntent(Struct, frozen=True, forbid_unknown_fields=True):
    """Propose a new intent to the person, where no open one covers the work. Read first, so that owned_scope names the
    files that you will change. If they say yes it is made and selected for you; the answer is what binds you. A
    criterion may be text, or {text, verify} with a command.
    """

    name: ToolText
    owned_scope: list[ToolText]
    reason: ToolText
    criteria: list[ToolText | ProposedCriterion] = []
    constraints: list[ToolText] = []
    expected_paths: list[ToolText] = []


def propose_intent(gate: Gate, caller: Caller, given: ProposeIntent) -> ToolAnswer:
    validate_scope(given.owned_scope)
    name = sanitise_line(given.name, 200)
    if not name.strip():
        raise ValueError("the name is empty; expected what you are about to do, in a few words")
    wanted = Intent(
        id="",
        owned_scope=tuple(dict.fromkeys(given.owned_scope)),
        name=name,
        constraints=tuple(Constraint(text) for text in given.constraints),
        acceptance_criteria=read_criteria(given.criteria),
    )
    request = find_request(gate, caller.session)
    if request is not None:
        references = (sanitise_line(request.url, 300),) if request.url else ()
        wanted = replace(wanted, description=sanitise_line(redact(request.request), 500), references=references)
    asked_for = name_request(request.request) if request is not None else ""
    action = f"propose_intent: {name} (owns {', '.join(given.owned_scope)})"
    question = make_question(gate, caller, "MISSING_OR_INVALID_INTENT", action, given.reason, given.owned_scope)
    question = replace(question, path=None, proposal=show_proposal(gate, wanted, given.expected_paths, asked_for))
    reply = ask_person(gate, caller, question, "propose_intent", describe_command(wanted))
    if reply.scope:
        validate_scope(reply.scope)
        wanted = replace(wanted, owned_scope=reply.scope)
    agreed = make_agreed_intent(gate, caller.session, caller.agent, wanted, question, reply.by)
    if request is not None:
        end_request(gate.state, request)
    made = {"id": agreed.intent.id, "status": agreed.intent.status, "owned_scope": list(agreed.intent.owned_scope)}
    if agreed.selected is None:
        text = f"The person said yes: {made['id']} is there. It is not selected: {agreed.why_unselected}"
        return ToolAnswer(text, {"success": True, "intent": made})
    said = f"The person said yes: {made['id']} is made and selected for you."
    if reply.scope:
        said += f" They changed its scope: it owns {', '.join(reply.scope)}."
    block = agreed.selected.block
    return ToolAnswer(f"{said}\n{block}", {"success": True, "intent": made, "context": block})


def read_criteria(given: Sequence[str | ProposedCriterion]) -> tuple[Criterion, ...]:
    """Return the criteria. Raises ValueError for a command that a person could not be shown whole."""
    made: list[Criterion] = []
    for one in given:
        if isinstance(one, str):
            made.append(Criterion(one))
            continue
        command = one.verify.strip()
        if not command or sanitise_line(command, MAX_VALUE_CHARS) != command:
            raise ValueError(
                f"the command {sanitise_line(command, 60)!r} cannot be shown to a person: expected one plain line of "
                f"at most {MAX_VALUE_CHARS} characters"
            )
        made.append(Criterion(one.text or command, command))
    return tuple(made)


def describe_command(wanted: Intent) -> str:
    scope = " ".join(f"--scope {shlex.quote(pattern)}" for pattern in wanted.owned_scope)
    return f"remit intent new {shlex.quote(wanted.name)} {scope}"
