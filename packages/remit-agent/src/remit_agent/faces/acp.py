"""The ACP agent: Remit's own agent for editors that speak the Agent Client Protocol, version 1, on stdio.

A face without rules: what a client sends becomes words, answers and cancels of a session, and the session's events
become updates. `fs/*` and `terminal/*` are never used, since effects belong to the gate.
"""

import asyncio
import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

import acp
from acp import helpers, schema
from acp.interfaces import Client
from msgspec.structs import replace

from remit.core.untrusted_input import as_object, as_objects, as_text, sanitise_line
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.gate.people.questions import ApprovalReply, Question
from remit_agent.faces.agent import ImageFile, RunRequest, open_run
from remit_agent.faces.questions import parse_words, publish_questions
from remit_agent.session.events import CallBegun, CallEnded, RetryWait, RunEvent, RunStatus, StreamedCall, StreamedText
from remit_agent.session.journal.lines import AnswerLine, EndedLine, ModeLine, QuestionLine, TurnLine, UserLine
from remit_agent.session.run import PersonReply
from remit_agent.session.session import Session, SessionOptions
from remit_agent.tools.guides import expand_command
from remit_agent.tools.repository_texts import find_guides

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
ToolKind: TypeAlias = Literal["read", "edit", "delete", "search", "execute", "think", "switch_mode", "other"]
KINDS: dict[str, ToolKind] = {
    "read_file": "read",
    "list_files": "search",
    "search_files": "search",
    "codebase_search": "search",
    "write_to_file": "edit",
    "apply_diff": "edit",
    "edit": "edit",
    "edit_file": "edit",
    "search_replace": "edit",
    "apply_patch": "edit",
    "generate_image": "edit",
    "execute_command": "execute",
    "read_command_output": "read",
    "update_todo_list": "think",
    "switch_mode": "switch_mode",
}
MODES = ("code", "architect", "ask", "debug", "orchestrator")
ANSWERS: dict[str, ApprovalReply] = {
    "once": ApprovalReply(True),
    "always": ApprovalReply(True, extent="intent"),
    "no": ApprovalReply(False),
}
STOP_REASONS: dict[str, StopReason] = {"length": "max_tokens", "refusal": "refusal"}
PATH_KEYS = ("path", "file_path")
MAX_TITLE_CHARS = 120
MAX_SHOWN_CHARS = 20_000


class Marker:
    """The place in the events up to which a prompt's updates go."""

    def __init__(self) -> None:
        self.is_reached = asyncio.Event()


class AcpSession:
    """A session that a client has open."""

    def __init__(self, session: Session, client: Client, *, has_forms: bool) -> None:
        self.session = session
        self.client = client
        self.has_forms = has_forms
        self.is_cancelled = False
        self.stop: StopReason = "end_turn"
        self.failure = ""
        self.open_question: QuestionLine | None = None
        self.has_question = asyncio.Event()
        self.started: set[str] = set()  # calls that the client knows
        self.asked: dict[str, asyncio.Task[None]] = {}  # questions that the client shows
        self.root = session.run.access.gate.workspace.root
        self.greeting = asyncio.create_task(self.offer_commands())
        self.tasks: list[asyncio.Task[None]] = [
            asyncio.create_task(self.follow()),
            asyncio.create_task(publish_questions(session.run)),
        ]

    @property
    def id(self) -> str:
        return self.session.run.folder.id

    async def close(self) -> None:
        tasks = (self.greeting, *self.tasks, *self.asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.session.close()

    async def prompt(self, text: str, images: tuple[ImageFile, ...]) -> StopReason:
        """Send words, or the answer that an open question waits for, and return why the turn ended."""
        self.is_cancelled, self.stop, self.failure = False, "end_turn", ""
        question, self.open_question = self.open_question, None
        reply = parse_words(question, text) if question is not None else None
        self.has_question.clear()
        if question is not None and reply is not None:
            await self.session.answer(question.id, reply)
        else:
            folder = self.session.run.folder
            kept = tuple(folder.keep_image(image.content, image.media_type, image.name) for image in images)
            await self.session.send(expand_command(self.root, text), kept)
        await self.session.wait_for_person(self.has_question)
        marker = Marker()
        await asyncio.sleep(0)  # events of other threads come before the marker
        self.session.queue_event(RunEvent("state", marker))
        await self.wait_for_marker(marker)
        if self.failure and not self.is_cancelled:
            raise acp.RequestError.internal_error({"reason": self.failure})
        return "cancelled" if self.is_cancelled else self.stop

    async def wait_for_marker(self, marker: Marker) -> None:
        """Wait until the events before the marker are sent. Raises the error of the sending."""
        reached = asyncio.create_task(marker.is_reached.wait())
        done, _ = await asyncio.wait([reached, *self.tasks], return_when=asyncio.FIRST_COMPLETED)
        reached.cancel()
        for task in done:
            await task

    async def cancel(self) -> None:
        self.is_cancelled = True
        await self.session.cancel()

    # --- events ------------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Send the client what happens from now on."""
        after = self.session.run.journal.last_n
        async for event in self.session.events(after):
            await self.show(event)

    async def replay(self) -> None:
        """Send the client the events so far."""
        last = self.session.run.journal.last_n
        async for event in self.session.events():
            if not event.n or event.n > last:
                break
            await self.show(event, is_replay=True)
            if event.n == last:
                break

    async def offer_commands(self) -> None:
        await asyncio.sleep(0)  # behind the answer that opened the session
        hint = schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint="arguments"))
        commands = [
            schema.AvailableCommand(name=guide.name, description=guide.description, input=hint)
            for guide in find_guides(self.root, "command").values()
        ]
        if commands:
            await self.update(helpers.update_available_commands(commands))

    async def update(self, update: Any) -> None:
        await self.client.session_update(session_id=self.id, update=update)

    async def show(self, event: RunEvent, *, is_replay: bool = False) -> None:
        data = event.data
        match data:
            case Marker():
                data.is_reached.set()
            case StreamedText() if not event.child and event.event == "text":
                await self.update(acp.update_agent_message_text(data.text))
            case StreamedText() if not event.child:
                await self.update(acp.update_agent_thought_text(data.text))
            case StreamedCall(id=str(call_id), tool=str(tool)) if call_id and tool and not event.child:
                self.started.add(call_id)
                await self.update(acp.start_tool_call(call_id, tool, kind=kind_of(tool), status="pending"))
            case UserLine(by="person") if is_replay:
                await self.update(acp.update_user_message_text(data.text))
            case TurnLine():
                if data.turn.text and is_replay:
                    await self.update(acp.update_agent_message_text(data.turn.text))
                self.stop = STOP_REASONS.get(data.turn.stop, "end_turn")
            case CallBegun():
                await self.show_call(data)
            case CallEnded():
                await self.end_call(data, is_replay=is_replay)
            case RunStatus() if not event.child:
                cost = None if data.cost is None else schema.Cost(amount=data.cost, currency="USD")
                used = schema.UsageUpdate(
                    session_update="usage_update", used=data.tokens, size=data.window or data.tokens, cost=cost
                )
                await self.update(used)
            case ModeLine() if not event.child:
                await self.update(helpers.update_current_mode(data.mode))
            case RetryWait():
                words = f"waits {data.seconds:.0f} s: {sanitise_line(data.why)}"
                await self.update(acp.update_agent_thought_text(words))
            case Question() | QuestionLine() if not is_replay:
                self.asked[data.id] = asyncio.create_task(self.ask(data))
            case AnswerLine() if data.id in self.asked:
                self.asked.pop(data.id).cancel()  # answered from another face
            case EndedLine() if not event.child and not is_replay:
                if data.state in ("stopped", "stuck"):
                    self.stop = "max_turn_requests"
                    await self.update(acp.update_agent_message_text(f"{data.state}: {data.reason}"))
                elif data.state == "failed":
                    self.failure = data.reason
                elif data.state == "completed":
                    await self.update(acp.update_agent_message_text(data.reason))
            case _:
                pass

    async def show_call(self, begun: CallBegun) -> None:
        named = next((str(begun.arguments[key]) for key in (*PATH_KEYS, "command") if begun.arguments.get(key)), "")
        title = sanitise_line(f"{begun.tool} {named}".strip(), MAX_TITLE_CHARS)
        shown: dict[str, Any] = {
            "status": "in_progress",
            "kind": kind_of(begun.tool),
            "locations": self.locate(begun.arguments),
            "raw_input": begun.arguments,
        }
        if begun.id in self.started:
            await self.update(acp.update_tool_call(begun.id, title=title, **shown))
        else:
            self.started.add(begun.id)
            await self.update(acp.start_tool_call(begun.id, title, **shown))

    async def end_call(self, ended: CallEnded, *, is_replay: bool) -> None:
        status = "completed" if ended.kind == "done" else "failed"
        content: list[Any] = [*self.read_diff(as_text(as_object(ended.data).get("diff")) or "")]
        words = "\n".join(filter(None, (ended.text, ended.told)))
        if words and not content:
            content.append(acp.tool_content(acp.text_block(words[:MAX_SHOWN_CHARS])))
        if ended.id not in self.started:  # of an earlier process, or refused before it began
            self.started.add(ended.id)
            await self.update(acp.start_tool_call(ended.id, ended.tool, kind=kind_of(ended.tool)))
        await self.update(acp.update_tool_call(ended.id, status=status, content=content))
        if ended.tool == "update_todo_list" and ended.kind == "done" and not is_replay:
            await self.show_plan(ended.id)

    async def show_plan(self, call_id: str) -> None:
        call = self.session.run.history.calls.get(call_id)
        found = as_objects(as_object(call.arguments if call else None).get("items"))
        statuses: dict[str, Any] = {"in_progress": "in_progress", "done": "completed"}
        entries = [
            acp.plan_entry(str(item.get("text", "")), status=statuses.get(str(item.get("status")), "pending"))
            for item in found
        ]
        await self.update(acp.update_plan(entries))

    def locate(self, arguments: Mapping[str, Any]) -> list[schema.ToolCallLocation]:
        paths = [str(arguments[key]) for key in PATH_KEYS if isinstance(arguments.get(key), str)]
        return [schema.ToolCallLocation(path=str(self.root / path)) for path in paths]

    def read_diff(self, diff: str) -> list[Any]:
        root, found = self.root, list[Any]()
        for part in ("\n" + diff).split("\n--- a/")[1:]:
            path, _, rest = part.partition("\n")
            lines = [line for line in rest.split("\n")[1:] if not line.startswith("@@")]
            old = "\n".join(line[1:] for line in lines if line[:1] in (" ", "-"))
            new = "\n".join(line[1:] for line in lines if line[:1] in (" ", "+"))
            found.append(acp.tool_diff_content(str(root / path), new, old))
        return found

    # --- questions ---------------------------------------------------------------------------------------------

    async def ask(self, question: Question | QuestionLine) -> None:
        if isinstance(question, Question):
            await self.ask_permission(question)
        elif question.kind == "mode":
            reply = PersonReply("yes" if await self.choose(question.call or question.id, question.text) else "no")
            await self.session.answer(question.id, reply)
        elif self.has_forms:
            await self.ask_in_form(question)
        else:
            choices = "".join(f"\n{number}. {choice}" for number, choice in enumerate(question.choices, 1))
            await self.update(acp.update_agent_message_text(f"{question.text}{choices}"))
            self.open_question = question
            self.has_question.set()

    async def ask_permission(self, question: Question) -> None:
        always = schema.PermissionOption(option_id="always", name="Allow until the intent ends", kind="allow_always")
        options = [
            schema.PermissionOption(option_id="once", name="Allow once", kind="allow_once"),
            *([always] if question.intent_id else []),
            schema.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
        ]
        words = f"{question.action}\n{question.message}\nRisk {question.risk} of 100. {'; '.join(question.reasons)}"
        call = schema.ToolCallUpdate(
            tool_call_id=question.call_id or question.id,
            title=sanitise_line(question.action, MAX_TITLE_CHARS),
            content=[acp.tool_content(acp.text_block(words)), *self.read_diff(question.diff)],
        )
        given = await self.client.request_permission(session_id=self.id, tool_call=call, options=options)
        chosen = given.outcome.option_id if isinstance(given.outcome, schema.AllowedOutcome) else "no"
        await self.session.answer(question.id, ANSWERS.get(chosen, ANSWERS["no"]))

    async def choose(self, call_id: str, text: str) -> bool:
        options = [
            schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        call = schema.ToolCallUpdate(tool_call_id=call_id, title=sanitise_line(text, MAX_TITLE_CHARS))
        given = await self.client.request_permission(session_id=self.id, tool_call=call, options=options)
        return isinstance(given.outcome, schema.AllowedOutcome) and given.outcome.option_id == "yes"

    async def ask_in_form(self, question: QuestionLine) -> None:
        answer = schema.ElicitationStringPropertySchema(
            type="string", title="Answer", enum=list(question.choices) if question.kind == "mode" else None
        )
        form = schema.ElicitationSchema(type="object", properties={"answer": answer}, required=["answer"])
        mode = schema.ElicitationFormSessionMode(session_id=self.id, requested_schema=form)
        given = await self.client.create_elicitation(message=question.text, mode=mode)  # pyright: ignore[reportArgumentType]
        content: dict[str, Any] = getattr(given, "content", None) or {}
        reply = parse_words(question, str(content.get("answer", "")))
        await self.session.answer(question.id, reply or PersonReply(None))


def kind_of(tool: str) -> ToolKind:
    return KINDS.get(tool, "other")


class RemitAcpAgent:
    """The agent's side of one connection."""

    def __init__(self, model_id: str | None, variables: Mapping[str, str], environment: Environment) -> None:
        self.model_id = model_id
        self.variables = variables
        self.environment = environment
        self.sessions: dict[str, AcpSession] = {}
        self.has_forms = False

    def on_connect(self, conn: Client) -> None:
        self.client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: schema.ClientCapabilities | None = None, **_: Any
    ) -> schema.InitializeResponse:
        elicitation = client_capabilities.elicitation if client_capabilities else None
        self.has_forms = elicitation is not None and elicitation.form is not None
        can = schema.SessionCapabilities(
            list=schema.SessionListCapabilities(),
            fork=schema.SessionForkCapabilities(),
            resume=schema.SessionResumeCapabilities(),
            close=schema.SessionCloseCapabilities(),
        )
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                mcp_capabilities=schema.McpCapabilities(http=True),
                prompt_capabilities=schema.PromptCapabilities(image=True, embedded_context=True),
                session_capabilities=can,
            ),
            agent_info=schema.Implementation(name="remit", title="Remit", version=version("remit")),
        )

    async def new_session(self, cwd: str, mcp_servers: list[Any] | None = None, **_: Any) -> schema.NewSessionResponse:
        opened = await self.open(self.make_request(cwd, mcp_servers))
        return schema.NewSessionResponse(session_id=opened.id, modes=describe_modes(opened.session))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        opened = await self.open(replace(self.make_request(cwd, mcp_servers), resumed=session_id))
        await opened.replay()
        return schema.LoadSessionResponse(modes=describe_modes(opened.session))

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        opened = await self.open(replace(self.make_request(cwd, mcp_servers), resumed=session_id))
        return schema.ResumeSessionResponse(modes=describe_modes(opened.session))

    async def fork_session(
        self, session_id: str, cwd: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> schema.ForkSessionResponse:
        held = self.sessions.get(session_id)
        if held is not None:
            copy = held.session.fork(held.session.run.journal.last_n)
            opened = await self.open(replace(self.make_request(cwd, mcp_servers), resumed=copy))
        else:
            opened = await self.open(replace(self.make_request(cwd, mcp_servers), resumed=session_id, is_fork=True))
        return schema.ForkSessionResponse(session_id=opened.id, modes=describe_modes(opened.session))

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> schema.ListSessionsResponse:
        workspace = Gate.open(Path(cwd or "."), self.environment).workspace
        found = [
            schema.SessionInfo(
                session_id=run.id,
                cwd=str(workspace.root),
                title=sanitise_line(run.task, MAX_TITLE_CHARS) or None,
                updated_at=datetime.fromtimestamp(run.changed_at, UTC).isoformat(),
            )
            for run in Session.list(workspace)
        ]
        return schema.ListSessionsResponse(sessions=found)

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        await self.find(session_id).close()
        del self.sessions[session_id]
        return schema.CloseSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        try:
            await self.find(session_id).session.set_mode(mode_id)
        except ValueError as error:
            raise acp.RequestError.invalid_params({"reason": str(error)}) from error
        return schema.SetSessionModeResponse()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        text, images = read_prompt(prompt)
        return schema.PromptResponse(stop_reason=await self.find(session_id).prompt(text, images))

    async def cancel(self, session_id: str, **_: Any) -> None:
        await self.find(session_id).cancel()

    async def authenticate(self, method_id: str, **_: Any) -> None:
        raise acp.RequestError.invalid_params({"reason": f"there is no way {method_id!r} to authenticate"})

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None: ...

    def find(self, session_id: str) -> AcpSession:
        if session_id not in self.sessions:
            raise acp.RequestError.invalid_params({"reason": f"there is no open session {session_id!r}"})
        return self.sessions[session_id]

    def make_request(self, cwd: str, mcp_servers: list[Any] | None) -> RunRequest:
        settings = Gate.open(Path(cwd), self.environment).rules.config.run
        model_id = self.model_id or settings.model
        if model_id is None:
            reason = "no model is named: REMIT_MODEL, --model, or `[run] model` in remit.toml"
            raise acp.RequestError.invalid_params({"reason": reason})
        options = SessionOptions(mode=settings.mode, version=version("remit"))
        servers = {server.name: describe_server(server) for server in mcp_servers or ()}
        return RunRequest(Path(cwd), model_id, options, window=settings.window, mcp_servers=servers)

    async def open(self, request: RunRequest) -> AcpSession:
        """Open a run for the client. An obstacle becomes the request's error."""
        try:
            session = await open_run(request, self.variables, self.environment)
        except Exception as error:
            raise acp.RequestError.internal_error({"reason": str(error)}) from error
        opened = self.sessions[session.run.folder.id] = AcpSession(session, self.client, has_forms=self.has_forms)
        return opened

    async def close(self) -> None:
        for session in list(self.sessions.values()):
            await session.close()


def describe_server(server: Any) -> dict[str, Any]:
    if isinstance(server, schema.McpServerStdio):
        env = {variable.name: variable.value for variable in server.env}
        return {"command": server.command, "args": list(server.args), "env": env}
    headers = {header.name: header.value for header in getattr(server, "headers", ())}
    return {"url": getattr(server, "url", ""), "headers": headers}


def describe_modes(session: Session) -> schema.SessionModeState:
    names = [mode for mode in MODES if session.run.toolbox.has_mode(mode)]
    modes = [schema.SessionMode(id=name, name=name.capitalize()) for name in names]
    return schema.SessionModeState(current_mode_id=session.run.history.mode, available_modes=modes)


def read_prompt(blocks: list[Any]) -> tuple[str, tuple[ImageFile, ...]]:
    words, images = list[str](), list[ImageFile]()
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                words.append(block.text)
            case schema.ImageContentBlock():
                content = base64.b64decode(block.data, validate=False)
                images.append(ImageFile(block.uri or "image", block.mime_type, content))
            case schema.ResourceContentBlock():
                words.append(f"[{block.name}]({block.uri})")
            case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as resource):
                words.append(f"Content of {resource.uri}:\n{resource.text}")
            case _:
                pass
    return "\n\n".join(words), tuple(images)


async def serve_acp(model_id: str | None, variables: Mapping[str, str], environment: Environment) -> None:
    """Serve one client on standard input and output until it closes them."""
    agent = RemitAcpAgent(model_id, variables, environment)
    try:
        await acp.run_agent(agent, use_unstable_protocol=True)  # pyright: ignore[reportArgumentType]  fewer methods than the SDK's protocol
    finally:
        await agent.close()
