"""The agent-facing tools of contracts §4: one Struct of arguments and one function each."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from remit.core.decision import Violation
from remit.core.intent import Intent
from remit.gate.gate import Gate
from remit.gate.governing import Governing
from remit.gate.intent_refusals import Refused, refusal
from remit.gate.protocol import selectable_intents
from remit.tools.notes import RecordLesson, UpdateTodoList, record_lesson, update_todo_list
from remit.tools.proposals import (
    ProposeIntent,
    RequestScopeExpansion,
    propose_intent,
    request_scope_expansion,
    vouched,
)
from remit.tools.reading import QueryTraces, Why, query_traces, why
from remit.tools.result import Caller, ToolResult, Words


class SelectActiveIntent(Struct, frozen=True, forbid_unknown_fields=True):
    """Select the intent you work under. Do this before you change anything; the answer is what binds you."""

    intent_id: Words
    reasoning: Words = ""
    expected_mutations: list[Words] = []


class ListActiveIntents(Struct, frozen=True, forbid_unknown_fields=True):
    """List the intents of this workspace: id, name, status and the files each owns."""

    status_filter: Words | None = None


class GetIntentContext(Struct, frozen=True, forbid_unknown_fields=True):
    """Read an intent's context (scope, constraints, acceptance criteria) without selecting it."""

    intent_id: Words


class ClearActiveIntent(Struct, frozen=True, forbid_unknown_fields=True):
    """Release the active intent, for example to select another."""


class CompleteIntent(Struct, frozen=True, forbid_unknown_fields=True):
    """Say that the active intent's acceptance criteria are met, and how you verified them."""

    intent_id: Words
    verification_notes: Words


def select_active_intent(gate: Gate, caller: Caller, given: SelectActiveIntent) -> ToolResult:
    """The intent's context block; warnings first."""
    selection = gate.intents.select(
        caller.session,
        caller.agent,
        given.intent_id,
        reasoning=given.reasoning,
        expected=given.expected_mutations,
    )
    text = "\n".join((*(f"Warning: {w}" for w in selection.warnings), selection.block))
    data = {"success": True, "context": selection.block, "intent": summary(selection.intent)}
    return ToolResult(text, {**data, **({"warnings": list(selection.warnings)} if selection.warnings else {})})


def list_active_intents(gate: Gate, caller: Caller, given: ListActiveIntents) -> ToolResult:
    """The intents, one a line."""
    wanted = given.status_filter
    found = [i for i in gate.intents.document.intents if wanted is None or i.status == wanted.upper()]
    lines = [f"{i.id} [{i.status}] {i.title} (scope: {', '.join(i.owned_scope)})" for i in found]
    active = gate.state.active(caller.session).intent_id
    text = "\n".join([*lines, f"Active in this session: {active or 'none'}"] if lines else ["There is no such intent."])
    return ToolResult(text, {"success": True, "intents": [summary(i) for i in found], "active": active})


def get_intent_context(gate: Gate, caller: Caller, given: GetIntentContext) -> ToolResult:
    """The context block, nothing selected."""
    intent = gate.intents.known(given.intent_id)
    if intent is None:
        known = [i.id for i in gate.intents.document.intents]
        raise refusal(
            "INTENT_NOT_FOUND",
            f"There is no intent {given.intent_id[:60]!r} (known: {', '.join(known) or 'none'}).",
            "get_intent_context",
            gate.state.active(caller.session).intent_id,
            known,
        )
    block = gate.intents.block(intent)
    return ToolResult(block, {"success": True, "context": block, "intent": summary(intent)})


def clear_active_intent(gate: Gate, caller: Caller, given: ClearActiveIntent) -> ToolResult:
    """What was released."""
    released = gate.intents.clear(caller.session, caller.agent)
    text = f"{released} is released." if released else "No intent was active."
    return ToolResult(text, {"success": True, "released": released})


def complete_intent(gate: Gate, caller: Caller, given: CompleteIntent) -> ToolResult:
    """DONE, or what failed."""
    yes = vouched(gate, caller, given.intent_id)
    notes = given.verification_notes
    done = gate.completing.complete(caller.session, caller.agent, given.intent_id, notes, vouched=yes)
    return ToolResult(f"{done.id} is DONE.", {"success": True, "intent": summary(done)})


def summary(intent: Intent) -> dict[str, Any]:
    """An intent in short."""
    return {
        "id": intent.id,
        "name": intent.title,
        "status": intent.status,
        "owned_scope": list(intent.owned_scope),
    }


class Tool(Struct, frozen=True):
    """One tool as doors offer it. Its description and JSON Schema come from its Struct of arguments."""

    arguments: type[Struct]
    run: Callable[[Gate, Caller, Any], ToolResult]
    writes: bool = False
    """Whether it acts for a session: then it has to be known for which."""

    @property
    def description(self) -> str:
        """What the model is told the tool is for."""
        return (self.arguments.__doc__ or "").strip()

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments; strict."""
        (_, components) = msgspec.json.schema_components([self.arguments], ref_template="#/$defs/{name}")
        own = components.pop(self.arguments.__name__)
        plain = {k: v for k, v in own.items() if k not in ("title", "description")}
        return {**plain, **({"$defs": components} if components else {})}


TOOLS: dict[str, Tool] = {
    "select_active_intent": Tool(SelectActiveIntent, select_active_intent, writes=True),
    "list_active_intents": Tool(ListActiveIntents, list_active_intents),
    "get_intent_context": Tool(GetIntentContext, get_intent_context),
    "clear_active_intent": Tool(ClearActiveIntent, clear_active_intent, writes=True),
    "complete_intent": Tool(CompleteIntent, complete_intent, writes=True),
    "propose_intent": Tool(ProposeIntent, propose_intent, writes=True),
    "request_scope_expansion": Tool(RequestScopeExpansion, request_scope_expansion, writes=True),
    "record_lesson": Tool(RecordLesson, record_lesson, writes=True),
    "update_todo_list": Tool(UpdateTodoList, update_todo_list, writes=True),
    "query_traces": Tool(QueryTraces, query_traces),
    "why": Tool(Why, why),
}


WITHOUT_INTENTS = ("record_lesson", "query_traces", "why")
"""The tools that help where nothing is enforced and no intent is open."""


def offered_tools(rules: Governing | None) -> tuple[str, ...]:
    """The names of the tools to offer an agent: none where Remit does not govern (no rules), and in observe without an
    open intent only those that help there. Each description takes room in a model's context.

    A tool that is not offered can be called all the same.
    """
    if rules is None:
        return ()
    if rules.mode == "observe" and not selectable_intents(rules.document):
        return WITHOUT_INTENTS
    return tuple(TOOLS)


def run_tool(gate: Gate, caller: Caller, name: str, arguments: object) -> ToolResult:
    """Run one tool. Arguments that do not fit, and refusals, are results that the model can act on."""
    tool = TOOLS[name]
    try:
        given = msgspec.convert(arguments or {}, type=tool.arguments)
        return tool.run(gate, caller, given)
    except Refused as refused:
        return failed(refused.violation)
    except ValueError as error:
        said = str(error).rstrip(".")
        names = ", ".join(f"`{name}`" for name in tool.arguments.__struct_fields__) or "no arguments"
        return failed(
            refusal(
                "INVALID_ARGUMENTS", f"The arguments of {name} do not fit: {said}. It takes {names}.", name, None
            ).violation
        )


def failed(violation: Violation) -> ToolResult:
    """A violation as a result."""
    document = msgspec.to_builtins(violation)
    return ToolResult(msgspec.json.format(msgspec.json.encode(document), indent=1).decode(), document, ok=False)
