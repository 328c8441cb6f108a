"""Life of a session: messages at its start and at each prompt, records at its start and end, the summary of a turn. The
protocol tells an agent how to work under Remit; the summary tells a person what a turn changed.
"""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import OWN_AGENT, SessionEnded, SessionKey, SessionStarted
from remit.core.decision import Mode
from remit.core.intent import Intent, IntentsDocument
from remit.core.record import KEY, Body, format_utc
from remit.core.redaction import redact
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import RECORDING_ERRORS, Attempts, WorkspaceContext, join_lines
from remit.gate.effects.other_writers import ChangesBetweenCalls, remove_session_with_commands
from remit.gate.effects.unfinished_calls import UnfinishedCalls
from remit.gate.governing.lives import forget_committed
from remit.gate.governing.rules import Rules, forget_rules
from remit.gate.intents.bindings import describe_request, find_binding, find_request, keep_request
from remit.gate.intents.intents import Intents
from remit.gate.intents.lessons import describe_open_items
from remit.gate.people import trust
from remit.gate.people.messages import PendingMessages
from remit.gate.state.workspace_state import SessionState, Setbacks
from remit.gate.undo.snapshots import SnapshotTaker
from remit.workspace.agents.transcripts import ReadPosition, find_transcript, read_lines_after
from remit.workspace.place.workspace import put_session_home

PROTOCOL_TEMPLATE = """\
<remit_protocol mode="{mode}">
This workspace is governed by Remit. {duty}
1. Before you change anything, select the intent you work under. Reading and searching need no intent.
{ways}
2. Stay inside the intent's `owned_scope`, and keep its constraints. A refusal says which rule it was and what to do: \
follow that; do not look for another tool or a shell command that gets round it. What commands \
change is found by comparing and recorded; in enforce, what lies outside the scope does not stay.
3. When the acceptance criteria are met, call `complete_intent` with the `intent_id`, and in `verification_notes` \
how you verified them{complete}.
</remit_protocol>"""

OPEN_SECRETS = (
    "Remit: on this machine nothing hides the person's secrets from commands: keys, logins and browsers' profiles can "
    "be read. Read none of them, and let no command do so. The person finds the reason with `remit doctor`."
)
"""To a session in enforce, where commands run with Landlock only or with nothing."""

BY_SHELL = "   - Run alone in your shell: `remit intent select ID`."
BY_MCP = (
    "   - Or call the MCP tool `select_active_intent` of the server `remit`, once you have it, with its `intent_id`."
)
BY_OWN_TOOL = "   - Call the tool `select_active_intent` with its `intent_id`."
"""How an agent selects an intent. The shell comes first: a session that begins may not have its MCP tools yet."""

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


def selectable_intents(document: IntentsDocument | None) -> list[Intent]:
    return [i for i in document.intents if i.status in ("DRAFT", "IN_PROGRESS")] if document else []


def must_select_intent(mode: Mode, document: IntentsDocument | None) -> bool:
    """Return True if agents must know of intents: in enforce, and in warn with a selectable intent."""
    return mode == "enforce" or (mode == "warn" and bool(selectable_intents(document)))


def format_mcp_instructions(mode: Mode, document: IntentsDocument | None) -> str:
    """Return the MCP server's instructions; "" if no duty applies to the agent."""
    return MCP_INSTRUCTIONS if must_select_intent(mode, document) else ""


def format_protocol(mode: Mode, document: IntentsDocument | None, agent: str = "") -> str:
    if not must_select_intent(mode, document):
        return ""
    found = selectable_intents(document)
    lines = ["Open intents:"]
    for intent in found[:MAX_LISTED_INTENTS]:
        scope = ", ".join(sanitise_line(pattern, 80) for pattern in intent.owned_scope[:5])
        lines.append(f"- {intent.id} [{intent.status}] {sanitise_line(intent.title, 100)} (scope: {scope})")
    if len(found) > MAX_LISTED_INTENTS:
        lines.append(f"… and {len(found) - MAX_LISTED_INTENTS} more: call `list_active_intents`")
    if not found:
        ask = "If you have to change something, ask the person to make one (`remit intent new`)."
        lines = [f"There is no open intent. {ask}"]
    ways = BY_OWN_TOOL if agent == OWN_AGENT else f"{BY_SHELL}\n{BY_MCP}"
    complete = "" if agent == OWN_AGENT else ", or run alone `remit intent complete ID --notes TEXT`"
    protocol = PROTOCOL_TEMPLATE.format(mode=mode, duty=DUTY_BY_MODE[mode], ways=ways, complete=complete)
    return "\n".join((protocol, *lines))


def describe_open_secrets(context: WorkspaceContext) -> str:
    """Return the message that nothing on this machine hides a person's secrets from commands; "" where they are hidden.
    Raises OSError.
    """
    # Imported here: only a session's start asks.
    from remit.gate.containment.rewrite_call import CONFINING_WAYS, CommandRewriter

    return "" if CommandRewriter(context).containment.way in CONFINING_WAYS else OPEN_SECRETS


class SessionLifecycle:
    """Sessions of one workspace."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context

    def start_session(self, event: SessionStarted, agent: str) -> str:
        """Return the protocol and the intent's block for a session that began or lost its context."""
        context, session = self.context, event.session
        forget_committed(context.workspace)
        forget_rules(context.workspace)
        rules, tries = context.rules, Attempts()
        unfinished = UnfinishedCalls(context)
        with tries:
            if agent == OWN_AGENT and event.source == "resume":
                unfinished.settle_calls("session start", lambda _: False, session, spared=session.session_id)
            else:
                unfinished.settle_calls("session start", lambda key: key == session, session)
        with tries:
            self.record_start(event, agent, rules)
        with tries:
            SnapshotTaker(context).take_at_session_start(session, agent, unfinished.observation)
        block = todo = notice = looser = ""
        with tries:
            block = self.deliver_block(session, agent)
        with tries:
            looser = trust.describe_loosened(context, rules)
        if rules.mode != "observe":
            with tries:
                todo = describe_open_items(context.workspace, session)
            with tries:
                notice = trust.untrusted_notice(trust.find_untrusted(context, context.rules))
        open_secrets = ""
        if rules.mode == "enforce" and not context.workspace.is_assigned:
            with tries:
                open_secrets = describe_open_secrets(context)
        protocol = format_protocol(rules.mode, rules.offered, agent)
        parts = (protocol, looser, block, todo, notice, open_secrets, context.repair_notice, tries.failure_notice)
        return "\n\n".join(filter(None, parts))

    def record_start(self, event: SessionStarted, agent: str, rules: Rules) -> None:
        context = self.context
        context.notice_rules(rules)
        known = context.state.find_session(event.session) or SessionState()
        session = replace(known, agent=agent, model=event.model or known.model)
        root, is_bound = context.workspace.root, session.intent_id is not None
        put_session_home(context.environment.home, event.session.session_id, root, is_bound=is_bound)
        context.state.put_session(event.session, session, context.environment.clock.now())
        detail: dict[str, Any] = {"agent": agent, "model": session.model, "cwd": event.cwd, "source": event.source}
        if agent == OWN_AGENT and not context.environment.has_floor:
            detail["without_floor"] = True
        body = Body(
            event="session_start",
            intent_id=session.intent_id,
            session_id=event.session.session_id,
            detail={key: value for key, value in detail.items() if value is not None},
        )
        context.recorder.append_or_spool([context.recorder.make_record(body, agent)])

    def deliver_block(self, session: SessionKey, agent: str, *, only_changed: bool = False) -> str:
        """Return the intent's block; a session without a selection is bound to the intent of its environment first."""
        intents = Intents(self.context)
        active = self.context.state.active_session(session)
        is_free = active.intent_id is None and active.source != "cleared"
        binding = find_binding(self.context, session) if is_free else None
        bound = intents.bind_unselected_session(session, agent, binding)
        if bound or active.intent_id is not None:
            return bound or intents.deliver_block(session, only_changed=only_changed)
        known = find_request(self.context, session)
        if known is None or (only_changed and known.kind == "session"):
            return ""
        keep_request(self.context.state, session, known)
        return describe_request(known)

    def handle_prompt(self, session: SessionKey, agent: str) -> str:
        """Return pending messages, and the intent's block if it changed, after a person's prompt."""
        context, tries = self.context, Attempts()
        forget_rules(context.workspace)
        with tries:
            context.notice_rules(context.rules)
        with tries:
            Setbacks(context.state, context.environment.clock.now()).reset(session)
        with tries:
            between = ChangesBetweenCalls(context)
            between.record_unattributed_changes("prompt", context.observe(fully=True), session)
        block = waiting = looser = ""
        with tries:
            looser = trust.describe_loosened_once(context, context.last_rules or context.rules, "model")
        with tries:
            if context.state.find_session(session) is None:
                context.state.put_session(session, SessionState(agent=agent), context.environment.clock.now())
            block = self.deliver_block(session, agent, only_changed=True)
        with tries:
            waiting = PendingMessages(context.state).take_messages(session)
        return join_lines(waiting, looser, block, context.repair_notice, tries.failure_notice)

    def end_turn(self, session: SessionKey) -> str:
        """Settle open calls and fold contents into git; describe failures."""
        tries, settled = Attempts(), ""
        with tries:
            settled = UnfinishedCalls(self.context).settle_calls("turn end", lambda key: key == session, session)
        if not self.context.serves_many_calls:  # the daemon folds later, while no call waits
            with tries:
                self.context.fold_contents()
        return join_lines(settled, tries.failure_notice)

    def end_session(self, event: SessionEnded, agent: str) -> str:
        """Record the session's end and describe failures; the intent stays selected for a resume."""
        context, tries = self.context, Attempts()
        settled, session = "", SessionState()
        with tries:
            # The calls of its sub-agents end with it.
            own = event.session
            settle = UnfinishedCalls(context).settle_calls
            settled = settle("session end", lambda key: key.session_id == own.session_id, own)
        with tries:
            remove_session_with_commands(context.state, event.session.session_id)
        with tries:
            session = context.state.active_session(event.session)
        body = Body(
            event="session_end",
            intent_id=session.intent_id,
            session_id=event.session.session_id,
            detail={"reason": sanitise_line(event.reason, 100)},
        )
        with tries:
            context.recorder.append_or_spool([context.recorder.make_record(body, agent)])
        return join_lines(settled, tries.failure_notice)


# Summary of a turn

TURNS_FACT = "turns_told"
MAX_SESSIONS = 64  # remembered sessions; an older session is told about every change again
MAX_RECORDS = 500
MAX_NAMED_PATHS = 3

MAX_NAME_CHARS = 80  # characters of a proposed name
MAX_TRANSCRIPT_LINES = 200  # transcript lines that are searched: the first prompt stands near the beginning


class ChangedFile(Struct, frozen=True):
    """File changed in a turn. `in_scope` is None without an intent."""

    path: str
    in_scope: bool | None = None


def summarize_turn(context: WorkspaceContext, session: SessionKey) -> str:
    """Describe the changes since the last turn; "" for none or for a sub-agent. Never raises."""
    text = untrusted = looser = ""
    if not session.agent_id:
        with suppress(*RECORDING_ERRORS):
            text = summarize_changes(context, session)
            rules = context.rules
            looser = trust.describe_loosened_once(context, rules, "person")
            # In observe, the model gets no notice of untrusted commands: the person gets one for each session.
            found = trust.find_untrusted(context, rules) if rules.mode == "observe" else ()
            if (line := trust.describe_untrusted(found)) and trust.untrusted_notice_once(found, context.state, session):
                untrusted = f"Remit: {line}; `remit trust` shows them"
    return join_lines(text, looser, untrusted)


def summarize_changes(context: WorkspaceContext, session: SessionKey) -> str:
    """Return the summary and remember the time. Raises the errors in RECORDING_ERRORS."""
    text = context.state.read_fact(TURNS_FACT)
    told = msgspec.convert(json.loads(text), dict[str, str]) if text else {}
    since = told.pop(session.session_id, None)
    with context.index() as index:
        found = index.find(event="mutation", session_id=session.session_id, since=since, limit=MAX_RECORDS)
    files: dict[str, ChangedFile] = {}
    intent_id: str | None = None
    for document in reversed(found):
        body: dict[str, Any] = document["metadata"][KEY]
        intent_id = body.get("intent_id")
        for file in body.get("files", []):
            in_scope = None if intent_id is None else bool(file.get("in_scope", True))
            files[str(file["path"])] = ChangedFile(str(file["path"]), in_scope)
    if not files:
        return ""
    told[session.session_id] = format_utc(datetime.fromtimestamp(context.environment.clock.now(), UTC), "microseconds")
    context.state.put_fact(TURNS_FACT, json.dumps(dict([*told.items()][-MAX_SESSIONS:])))
    proposal = "" if since or intent_id else propose_intent(context, session.session_id)
    return describe_changes(list(files.values()), intent_id) + proposal


def describe_changes(files: Sequence[ChangedFile], intent_id: str | None) -> str:
    outside = [f.path for f in files if f.in_scope is False]
    inside = [f.path for f in files if f.in_scope is not False]
    folder = find_main_folder(inside)
    elsewhere = [path for path in inside if not path.startswith(f"{folder}/")]
    counted = f"{len(files)} file{'s' if len(files) > 1 else ''} changed"
    whose = f" for {intent_id}" if intent_id else ""
    near = len(inside) - len(elsewhere)
    parts = [f"{near if elsewhere or outside else 'all'} under {sanitise_line(folder, 120)}"] if folder and near else []
    parts += [f"{len(elsewhere)} elsewhere: {format_paths(elsewhere)}"] if elsewhere and folder else []
    parts += [f"{len(outside)} outside the scope: {format_paths(outside)}"] if outside else []
    return f"Remit: {', '.join([counted + whose, *parts])}"


def find_main_folder(paths: Sequence[str]) -> str:
    counts = Counter(str(folder) for path in paths for folder in PurePosixPath(path).parents if folder.name)
    most = [folder for folder, count in counts.items() if count * 2 > len(paths)]
    return max(most, key=lambda folder: folder.count("/"), default="")


def format_paths(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MAX_NAMED_PATHS} more" if len(paths) > MAX_NAMED_PATHS else ""
    return ", ".join(sanitise_line(path, 120) for path in paths[:MAX_NAMED_PATHS]) + more


def propose_intent(context: WorkspaceContext, session_id: str) -> str:
    """Return the command that turns this work into an intent, unless enforced already."""
    if context.rules.mode == "enforce":
        return ""
    name = propose_intent_name(context, session_id)
    named, given = (f" as {name!r}", "") if name else ("", "NAME ")
    command = f"remit intent new {given}--from-session {sanitise_line(session_id)}"
    return f". No intent yet; to make one of this work{named}: {command}"


def propose_intent_name(context: WorkspaceContext, session_id: str) -> str:
    """Return a name from a session's first prompt, without secrets; "" without a transcript. Raises StateError."""
    for key, (agent, path) in context.state.list_transcripts(session_id).items():
        if not key.agent_id:
            return find_first_name(agent, Path(path))
    known = context.state.find_session(SessionKey(session_id))
    place = find_transcript(context.environment.home, known.agent, session_id) if known else None
    return find_first_name(known.agent, place) if known and place else ""


def find_first_name(agent: str, path: Path) -> str:
    # For start-up speed: only the end of a session's first turn needs one of the six transcript readers.
    from remit.adapters.transcripts import read_entries

    _, chunks = read_lines_after(path, ReadPosition())
    for chunk in islice(chunks, MAX_TRANSCRIPT_LINES):
        for entry in read_entries(agent, chunk.line):
            if entry.role == "user" and (name := make_intent_name(entry.text)):
                return name
    return ""


def make_intent_name(prompt: str) -> str:
    lines = (line.strip().lstrip("#>*- ").strip() for line in redact(prompt[:4096]).splitlines())
    line = next((line for line in lines if line and not line.startswith("<")), "")
    return sanitise_line(line, MAX_NAME_CHARS)
