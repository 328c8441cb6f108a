"""The table of agent-facing tools (contracts §4). A tool is one Struct of arguments and one function."""

import re
import shlex
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs, to_builtins
from msgspec.structs import replace

from remit.core.intent import Intent
from remit.core.python_runtime import prepare_type
from remit.core.record import KEY
from remit.core.scope.path_patterns import RepoPath, glob_error, is_absolute_pattern
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import Attempts
from remit.gate.effects.replays import run_replays
from remit.gate.gate import Gate
from remit.gate.governing.rules import Rules
from remit.gate.intents.lessons import LessonsWriter, TodoItem
from remit.gate.intents.refusals import IntentRefused, dependency_warnings, make_refusal, validate_scope
from remit.gate.session_lifecycle import selectable_intents
from remit.ledger.index.index import Index, open_index
from remit.ledger.index.search import search_documents
from remit.ledger.parse_time import parse_time
from remit.provenance.blame.blame import Blamer
from remit.provenance.why.explain import Explainer, blame_lines
from remit.provenance.why.explanation import Cause, Explanation, render_explanation
from remit.tools.agent_tool import AgentTool, Caller, ToolAnswer, ToolText
from remit.tools.asking import ask_person, can_reach_person, make_question, select_for_agent
from remit.tools.conversations import conversations
from remit.tools.coordination import COORDINATION_TOOLS, refuse_held_paths
from remit.tools.proposals import ProposeIntent, propose_intent
from remit.workspace.agents.marked_blocks import BrainEntry, Kind

LINE_RANGE = re.compile(r"(\d{1,9})(?:\s*[-,]\s*(\d{1,9}))?")

MAX_CAUSES, MAX_TALK_ENTRIES = 5, 3
MAX_TEXT_CHARS, MAX_DIFF_CHARS = 1000, 4000
"""Limits of an explanation for a model."""


class QueryTraces(Struct, frozen=True, forbid_unknown_fields=True):
    """Search the ledger of what agents did in this repository; the newest records first."""

    intent_id: ToolText | None = None
    path: ToolText | None = None
    line: Annotated[int, Meta(ge=1)] | None = None
    content_hash: ToolText | None = None
    text: ToolText | None = None
    since: ToolText | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 20


class ExplainLines(Struct, frozen=True, forbid_unknown_fields=True):
    """Tell why lines are there: the intent, session and edit behind them. `line` is 42, or a range such as 42-50."""

    path: ToolText
    line: int | ToolText | None = None


def query_traces(gate: Gate, caller: Caller, given: QueryTraces) -> ToolAnswer:
    with Attempts():
        run_replays(gate.workspace, gate.environment)
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        documents = find_matching_records(gate, index, given)[: given.limit]
    text = "\n".join(map(record_line, documents)) or "No such record."
    return ToolAnswer(text, {"success": True, "records": documents})


def find_matching_records(gate: Gate, index: Index, given: QueryTraces) -> list[dict[str, Any]]:
    """Return the records that match the query, newest first. Raises ValueError."""
    words = [given.text] if given.text else []
    since = parse_time(given.since, datetime.now(UTC)) if given.since else None
    path = str(RepoPath.parse(given.path, str(gate.workspace.root))) if given.path else None
    if given.line is not None:
        if path is None:
            raise ValueError("line needs a path; expected for example path 'src/app.py' and line 42")
        lines = blame_lines(Blamer(gate.workspace, index, gate.contents, path), path, (given.line, given.line))
        found = [document for line in lines if line.record for document in index.find_by_id_prefix(line.record)]
        path = None  # a line may come from another file
    elif given.content_hash is not None:
        found = index.find(content_hash=given.content_hash, limit=1000)
    else:
        return index.find(intent_id=given.intent_id, path=path, words=words, since=since, limit=given.limit)
    if given.intent_id is not None:
        found = [d for d in found if d["metadata"][KEY].get("intent_id") == given.intent_id]
    if path is not None:
        found = [d for d in found if any(f.get("path") == path for f in d["metadata"][KEY].get("files", ()))]
    if since is not None:
        found = [d for d in found if str(d["timestamp"]) >= since]
    return search_documents(found, words) if words else found


def record_line(document: dict[str, Any]) -> str:
    body: dict[str, Any] = document["metadata"][KEY]
    call: dict[str, Any] = body.get("call", {})
    targets = [str(f.get("path")) for f in body.get("files", ())]
    targets = targets or [str(call.get("command") or " ".join(call.get("paths", [])))]
    action = sanitise_line(f"{call.get('name', '')} {', '.join(targets)}".strip(), 160)
    at = str(document["timestamp"])[:19]
    return f"{document['id']} {at} {body.get('event')} {body.get('intent_id') or '-'} {action}".rstrip()


def explain_lines(gate: Gate, caller: Caller, given: ExplainLines) -> ToolAnswer:
    path = str(RepoPath.parse(given.path, str(gate.workspace.root)))
    with Attempts():
        run_replays(gate.workspace, gate.environment)
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        blamer = Blamer(gate.workspace, index, gate.contents, path)
        explainer = Explainer(blamer, gate.contents, partial(conversations, gate), gate.rules.document)
        explanation = explainer.explain(path, parse_line_range(given.line))
    data = {"success": True, "why": to_builtins(shorten_explanation(explanation))}
    return ToolAnswer(render_explanation(explanation), data)


def shorten_explanation(explanation: Explanation) -> Explanation:
    causes: list[Cause] = []
    for cause in explanation.causes[:MAX_CAUSES]:
        talk = cause.talk
        if talk is not None:
            said = tuple(replace(entry, text=entry.text[:MAX_TEXT_CHARS]) for entry in talk.said[-MAX_TALK_ENTRIES:])
            texts = {name: getattr(talk, name)[:MAX_TEXT_CHARS] for name in ("prompt", "task", "answer")}
            talk = replace(talk, said=said, **texts)
        causes.append(replace(cause, diff=cause.diff and cause.diff[:MAX_DIFF_CHARS], talk=talk))
    left_out = explanation.left_out + len(explanation.causes) - len(causes)
    return replace(explanation, causes=tuple(causes), left_out=left_out)


def parse_line_range(line: int | str | None) -> tuple[int, int] | None:
    """Return first and last line of `42` or `42-50`; None for the whole file. Raises ValueError."""
    if line is None:
        return None
    match = LINE_RANGE.fullmatch(str(line).strip())
    start, end = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= start <= end:
        expected = "the first one, from 1, before the last" if match else "42 or 42-50"
        raise ValueError(f"{str(line)[:60]!r} names no lines; expected {expected}")
    return start, end


class RequestScopeExpansion(Struct, frozen=True, forbid_unknown_fields=True):
    """Ask the person to add files to the active intent's owned_scope. Nothing changes unless they say yes."""

    paths: list[ToolText]
    reason: ToolText


def request_scope_expansion(gate: Gate, caller: Caller, given: RequestScopeExpansion) -> ToolAnswer:
    tool = "request_scope_expansion"
    intent = gate.intents.find_intent(gate.state.active_session(caller.session).intent_id)
    if intent is None:
        raise make_refusal("MISSING_OR_INVALID_INTENT", "No intent is active: select one first.", tool, None)
    exclusion = next((path for path in given.paths if path.startswith("!")), None)
    if exclusion is not None:
        raise ValueError(f"{exclusion!r} takes away from the scope; expected paths to add")
    validate_scope(given.paths)
    refuse_held_paths(gate, tool, given.paths, given.reason)
    action = f"{tool}: add {', '.join(given.paths)} to the scope of {intent.id}"
    added = " ".join(f"--add-scope {shlex.quote(p)}" for p in given.paths)
    question = make_question(gate, caller, "SCOPE_VIOLATION", action, given.reason, given.paths)
    reply = ask_person(gate, caller, question, tool, f"remit intent edit {intent.id} {added}")
    patterns = [reply.pattern] if reply.pattern else given.paths
    validate_scope(patterns)
    owned = gate.intents.get(intent.id).owned_scope  # may have changed while the person thought
    gate.intents.edit(intent.id, {"owned_scope": tuple(dict.fromkeys((*owned, *patterns)))}, by=reply.by)
    block = gate.intents.deliver_block(caller.session)
    text = f"The person said yes: {intent.id} now also owns {', '.join(patterns)}.\n{block}"
    return ToolAnswer(text, {"success": True, "added": list(patterns), "context": block})


def ask_to_vouch(gate: Gate, caller: Caller, intent_id: str) -> bool:
    """Return whether a person confirms the criteria whose commands may not run here.

    False without such criteria or without a person: completion then gives its reason. Raises IntentRefused on a no.
    """
    intent = gate.intents.find_intent(intent_id)
    if intent is None or gate.state.active_session(caller.session).intent_id != intent_id:
        return False
    criteria = gate.completion.find_unrun_criteria(intent)
    if not criteria or gate.completion.find_obstacles(intent, vouched=True):
        return False
    if not can_reach_person(gate, caller):
        return False
    action = f"complete_intent: {intent_id} is done, and these criteria are met: {'; '.join(criteria)}"
    reason = "their commands were not run, because no person has trusted them on this machine"
    question = make_question(gate, caller, "MISSING_OR_INVALID_INTENT", action, reason, ())
    command = f"remit intent set-status {intent_id} DONE"
    return ask_person(gate, caller, question, "complete_intent", command).allow


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
    lesson = msgspec.convert({**structs.asdict(given), "paths": tuple(given.paths)}, prepare_type(BrainEntry))
    writer = LessonsWriter(gate)
    entry = writer.record_lesson(caller.session, caller.agent, lesson)
    return ToolAnswer(f"Written down: {entry.summary}", {"success": True, "lesson": to_builtins(entry)})


def update_todo_list(gate: Gate, caller: Caller, given: UpdateTodoList) -> ToolAnswer:
    writer = LessonsWriter(gate)
    text = writer.write_todo(caller.session, caller.agent, given.items)
    return ToolAnswer(text or "The list is empty.", {"success": True, "items": len(given.items)})


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
    why, expected = given.reasoning, given.expected_mutations
    selection = select_for_agent(gate, caller, given.intent_id, "select_active_intent", why, expected)
    text = "\n".join((*(f"Warning: {w}" for w in selection.warnings), selection.block))
    data = {"success": True, "context": selection.block, "intent": intent_summary(selection.intent)}
    return ToolAnswer(text, {**data, **({"warnings": list(selection.warnings)} if selection.warnings else {})})


def list_active_intents(gate: Gate, caller: Caller, given: ListActiveIntents) -> ToolAnswer:
    status = given.status_filter and given.status_filter.upper()
    rules = gate.rules
    intents = [i for i in rules.intents.intents if status is None or i.status == status]
    notes = {i.id: f"; {state}" for i in intents if (state := rules.describe_intent(i).state)}
    lines = [f"{i.id} [{i.status}{notes.get(i.id, '')}] {i.title} (scope: {', '.join(i.owned_scope)})" for i in intents]
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
    warnings = dependency_warnings(intent, gate.intents.document.intents)
    text = "\n".join((f"{intent.id} is DONE.", *(f"Warning: {warning}" for warning in warnings)))
    return ToolAnswer(text, {"success": True, "intent": intent_summary(intent)})


def intent_summary(intent: Intent) -> dict[str, Any]:
    return {"id": intent.id, "name": intent.title, "status": intent.status, "owned_scope": list(intent.owned_scope)}


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
    **COORDINATION_TOOLS,
}


TOOLS_WITHOUT_INTENTS = ("record_lesson", "query_traces", "why")
"""The tools to offer in observe mode without an open intent."""


def offered_tools(rules: Rules | None, *, is_assigned: bool = False) -> tuple[str, ...]:
    """Return the names of the tools to offer an agent; each description takes room in a model's context.

    `rules` is None in an ungoverned repository; the tools of plans are only for worktrees with an assignment. An agent
    can call a tool that is not offered.
    """
    if rules is None:
        return ()
    if rules.mode == "observe" and not is_assigned and not selectable_intents(rules.offered):
        return TOOLS_WITHOUT_INTENTS
    return tuple(name for name in TOOLS if is_assigned or name not in COORDINATION_TOOLS)


def run_for_shell(gate: Gate, caller: Caller, name: str, arguments: object) -> str:
    """Run a tool for a command of an agent's shell, and return its words. Raises IntentRefused, ValueError."""
    tool = TOOLS[name]
    return tool.run(gate, caller, msgspec.convert(arguments, type=prepare_type(tool.arguments))).text


def run_tool(gate: Gate, caller: Caller, name: str, arguments: object) -> ToolAnswer:
    """Run one tool. Invalid arguments and refusals are results that the model can act on."""
    tool = TOOLS[name]
    try:
        given = msgspec.convert(arguments or {}, type=prepare_type(tool.arguments))
        return tool.run(gate, caller, given)
    except IntentRefused as refused:
        document = to_builtins(refused.violation)
    except ValueError as error:
        fields = ", ".join(f"`{field}`" for field in tool.arguments.__struct_fields__) or "no arguments"
        message = f"The arguments of {name} do not fit: {str(error).rstrip('.')}. It takes {fields}."
        document = to_builtins(make_refusal("INVALID_ARGUMENTS", message, name, None).violation)
    return ToolAnswer(msgspec.json.format(msgspec.json.encode(document), indent=1).decode(), document, ok=False)
