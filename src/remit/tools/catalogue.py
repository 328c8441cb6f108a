"""The table of agent-facing tools (contracts §4), with the tools for intents, lessons and the todo list.

A tool is one Struct of arguments and one function.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct, to_builtins

from remit.core.decision import Violation
from remit.core.intent import Intent
from remit.core.scope.globs import glob_error, is_absolute_pattern
from remit.gate.gate import Gate
from remit.gate.intents.lessons import LessonsWriter, TodoItem
from remit.gate.intents.refusals import IntentRefused, make_refusal
from remit.gate.rules.load import Rules
from remit.gate.sessions.protocol import selectable_intents
from remit.tools.ledger_queries import ExplainLines, QueryTraces, explain_lines, query_traces
from remit.tools.proposals import (
    ProposeIntent,
    RequestScopeExpansion,
    ask_to_vouch,
    propose_intent,
    request_scope_expansion,
)
from remit.tools.result import Caller, ToolAnswer, ToolText
from remit.workspace.agents.lesson_blocks import BrainEntry, Kind


class RecordLesson(Struct, frozen=True, forbid_unknown_fields=True):
    """Write down what the next session should know: a lesson from a failure, a decision, or a constraint."""

    kind: Kind
    lesson: ToolText
    problem: ToolText = ""
    resolution: ToolText = ""
    pattern: ToolText = ""
    paths: list[ToolText] = []


class UpdateTodoList(Struct, frozen=True, forbid_unknown_fields=True):
    """Replace this session's todo list in TODO.md, so that another session can go on where you stopped."""

    items: list[TodoItem]


def record_lesson(gate: Gate, caller: Caller, given: RecordLesson) -> ToolAnswer:
    unusable = next((path for path in given.paths if is_absolute_pattern(path) or glob_error(path)), None)
    if unusable is not None:
        raise ValueError(f"the path {unusable[:200]!r} cannot be used; expected one from the workspace's root")
    lesson = BrainEntry(
        kind=given.kind,
        lesson=given.lesson,
        problem=given.problem,
        resolution=given.resolution,
        pattern=given.pattern,
        paths=tuple(given.paths),
    )
    entry = open_lessons(gate).record_lesson(caller.session, caller.agent, lesson)
    return ToolAnswer(f"Written down: {entry.summary}", {"success": True, "lesson": to_builtins(entry)})


def update_todo_list(gate: Gate, caller: Caller, given: UpdateTodoList) -> ToolAnswer:
    text = open_lessons(gate).write_todo(caller.session, caller.agent, given.items)
    return ToolAnswer(text or "The list is empty.", {"success": True, "items": len(given.items)})


def open_lessons(gate: Gate) -> LessonsWriter:
    return LessonsWriter(gate.workspace, gate.state, gate.recorder)


class SelectActiveIntent(Struct, frozen=True, forbid_unknown_fields=True):
    """Select the intent you work under. Do this before you change anything; the answer is what binds you."""

    intent_id: ToolText
    reasoning: ToolText = ""
    expected_mutations: list[ToolText] = []


class ListActiveIntents(Struct, frozen=True, forbid_unknown_fields=True):
    """List the intents of this workspace: id, name, status and the files each owns."""

    status_filter: ToolText | None = None


class GetIntentContext(Struct, frozen=True, forbid_unknown_fields=True):
    """Read an intent's context (scope, constraints, acceptance criteria) without selecting it."""

    intent_id: ToolText


class ClearActiveIntent(Struct, frozen=True, forbid_unknown_fields=True):
    """Release the active intent, for example to select another."""


class CompleteIntent(Struct, frozen=True, forbid_unknown_fields=True):
    """Say that the active intent's acceptance criteria are met, and how you verified them."""

    intent_id: ToolText
    verification_notes: ToolText


def select_active_intent(gate: Gate, caller: Caller, given: SelectActiveIntent) -> ToolAnswer:
    selection = gate.intents.select(
        caller.session,
        caller.agent,
        given.intent_id,
        reasoning=given.reasoning,
        expected=given.expected_mutations,
    )
    text = "\n".join((*(f"Warning: {w}" for w in selection.warnings), selection.block))
    data = {"success": True, "context": selection.block, "intent": intent_summary(selection.intent)}
    return ToolAnswer(text, {**data, **({"warnings": list(selection.warnings)} if selection.warnings else {})})


def list_active_intents(gate: Gate, caller: Caller, given: ListActiveIntents) -> ToolAnswer:
    status = given.status_filter and given.status_filter.upper()
    intents = [i for i in gate.intents.document.intents if status is None or i.status == status]
    lines = [f"{i.id} [{i.status}] {i.title} (scope: {', '.join(i.owned_scope)})" for i in intents]
    active = gate.state.active_session(caller.session).intent_id
    text = "\n".join([*lines, f"Active in this session: {active or 'none'}"] if lines else ["There is no such intent."])
    return ToolAnswer(text, {"success": True, "intents": [intent_summary(i) for i in intents], "active": active})


def get_intent_context(gate: Gate, caller: Caller, given: GetIntentContext) -> ToolAnswer:
    intent = gate.intents.find_intent(given.intent_id)
    if intent is None:
        known = [i.id for i in gate.intents.document.intents]
        raise make_refusal(
            "INTENT_NOT_FOUND",
            f"There is no intent {given.intent_id[:60]!r} (known: {', '.join(known) or 'none'}).",
            "get_intent_context",
            gate.state.active_session(caller.session).intent_id,
            known,
        )
    block = gate.intents.format_block(intent)
    return ToolAnswer(block, {"success": True, "context": block, "intent": intent_summary(intent)})


def clear_active_intent(gate: Gate, caller: Caller, given: ClearActiveIntent) -> ToolAnswer:
    released = gate.intents.clear(caller.session, caller.agent)
    text = f"{released} is released." if released else "No intent was active."
    return ToolAnswer(text, {"success": True, "released": released})


def complete_intent(gate: Gate, caller: Caller, given: CompleteIntent) -> ToolAnswer:
    vouched = ask_to_vouch(gate, caller, given.intent_id)
    notes = given.verification_notes
    intent = gate.completion.complete(caller.session, caller.agent, given.intent_id, notes, vouched=vouched)
    return ToolAnswer(f"{intent.id} is DONE.", {"success": True, "intent": intent_summary(intent)})


def intent_summary(intent: Intent) -> dict[str, Any]:
    return {
        "id": intent.id,
        "name": intent.title,
        "status": intent.status,
        "owned_scope": list(intent.owned_scope),
    }


class AgentTool(Struct, frozen=True):
    """One tool. The description and JSON Schema come from its Struct of arguments."""

    arguments: type[Struct]
    run: Callable[[Gate, Caller, Any], ToolAnswer]
    acts_for_session: bool = False
    """True if the tool acts for a session, which must then be known."""

    @property
    def description(self) -> str:
        return (self.arguments.__doc__ or "").strip()

    @property
    def schema(self) -> dict[str, Any]:
        """Return the strict JSON Schema of the arguments."""
        (_, components) = msgspec.json.schema_components([self.arguments], ref_template="#/$defs/{name}")
        own = components.pop(self.arguments.__name__)
        schema = {key: value for key, value in own.items() if key not in ("title", "description")}
        return {**schema, **({"$defs": components} if components else {})}


TOOLS: dict[str, AgentTool] = {
    "select_active_intent": AgentTool(SelectActiveIntent, select_active_intent, acts_for_session=True),
    "list_active_intents": AgentTool(ListActiveIntents, list_active_intents),
    "get_intent_context": AgentTool(GetIntentContext, get_intent_context),
    "clear_active_intent": AgentTool(ClearActiveIntent, clear_active_intent, acts_for_session=True),
    "complete_intent": AgentTool(CompleteIntent, complete_intent, acts_for_session=True),
    "propose_intent": AgentTool(ProposeIntent, propose_intent, acts_for_session=True),
    "request_scope_expansion": AgentTool(RequestScopeExpansion, request_scope_expansion, acts_for_session=True),
    "record_lesson": AgentTool(RecordLesson, record_lesson, acts_for_session=True),
    "update_todo_list": AgentTool(UpdateTodoList, update_todo_list, acts_for_session=True),
    "query_traces": AgentTool(QueryTraces, query_traces),
    "why": AgentTool(ExplainLines, explain_lines),
}


TOOLS_WITHOUT_INTENTS = ("record_lesson", "query_traces", "why")
"""The tools to offer in observe mode without an open intent."""


def offered_tools(rules: Rules | None) -> tuple[str, ...]:
    """Return the names of the tools to offer an agent; each description takes room in a model's context.

    `rules` is None in an ungoverned repository. An agent can call a tool that is not offered.
    """
    if rules is None:
        return ()
    if rules.mode == "observe" and not selectable_intents(rules.document):
        return TOOLS_WITHOUT_INTENTS
    return tuple(TOOLS)


def run_tool(gate: Gate, caller: Caller, name: str, arguments: object) -> ToolAnswer:
    """Run one tool. Invalid arguments and refusals are results that the model can act on."""
    tool = TOOLS[name]
    try:
        given = msgspec.convert(arguments or {}, type=tool.arguments)
        return tool.run(gate, caller, given)
    except IntentRefused as refused:
        return failure_result(refused.violation)
    except ValueError as error:
        fields = ", ".join(f"`{field}`" for field in tool.arguments.__struct_fields__) or "no arguments"
        message = f"The arguments of {name} do not fit: {str(error).rstrip('.')}. It takes {fields}."
        return failure_result(make_refusal("INVALID_ARGUMENTS", message, name, None).violation)


def failure_result(violation: Violation) -> ToolAnswer:
    document = msgspec.to_builtins(violation)
    return ToolAnswer(msgspec.json.format(msgspec.json.encode(document), indent=1).decode(), document, ok=False)
