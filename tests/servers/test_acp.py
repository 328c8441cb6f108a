"""The ACP agent over stdio, with the client's side of the official SDK: what an editor sees of a run."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import acp
import pytest
from acp import schema

from cli.running import run
from coroutines import run_coroutine
from forked_commands import start_process
from gate.driving import governed
from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.scripted_model import Say, ScriptedModel, Use
from remit.rehearsal.wire_faults import put_fault
from waiting import wait_until

WRITTEN = {"path": "src/app.py", "content": "def main():\n    return 2\n"}
CITED = {"intent_id": "INT-001", "mutation_class": "BUG_FIX"}
TIMEOUT_S = 240


class Editor:
    """A client that notes what it is told, and answers permissions with `choice`. It offers no files and no terminal:
    a call of either fails the test."""

    def __init__(self, choice: str = "once") -> None:
        self.choice = choice
        self.updates: list[Any] = []
        self.permissions: list[Any] = []
        self.forms: list[str] = []
        self.agent: Any = None

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.permissions.append((tool_call, [(option.option_id, option.kind) for option in options]))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=self.choice)
        )

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append(message)
        return schema.AcceptElicitationResponse(action="accept", content={"answer": "blue"})

    def kinds(self) -> list[str]:
        return [update.session_update for update in self.updates]

    def text(self) -> str:
        chunks = [update for update in self.updates if isinstance(update, schema.AgentMessageChunk)]
        return "".join(getattr(chunk.content, "text", "") for chunk in chunks)


def script_of(folder: Path, *turns: list[dict[str, Any]]) -> str:
    path = folder.parent / "script.json"
    path.write_text(json.dumps(turns))
    return f"scripted:{path}"


def call(tool: str, **given: Any) -> dict[str, Any]:
    return {"tool": tool, "input": given}


DONE = call("attempt_completion", result="All of it is done.")


@asynccontextmanager
async def start_agent(
    editor: Editor, words: list[str], folder: Path, environment: dict[str, str]
) -> AsyncGenerator[Any]:
    """Yield the client's side of a connection to a process of the agent."""
    with start_process(words, folder, environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        agent = acp.connect_to_agent(cast(Any, editor), writer, reader, use_unstable_protocol=True)
        try:
            yield agent
        finally:
            await agent.close()
            writer.close()
            reading.close()


def drive(
    repository: Path,
    model: str,
    work: Callable[[Any, Editor], Awaitable[None]],
    *,
    editor: Editor | None = None,
    forms: bool = False,
    variables: dict[str, str] | None = None,
) -> Editor:
    """Run `work` against a real `remit acp-agent` process."""
    client = editor or Editor()

    async def run() -> None:
        words = ["acp-agent", "--model", model]
        known = {**os.environ, **(variables or {})}
        async with asyncio.timeout(TIMEOUT_S), start_agent(client, words, repository, known) as agent:
            can = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities()) if forms else None
            capabilities = schema.ClientCapabilities(elicitation=can)
            await agent.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=capabilities)
            await work(agent, client)

    run_coroutine(run())
    return client


def ask(text: str) -> list[Any]:
    return [acp.text_block(text)]


def test_a_prompt_streams_calls_diffs_and_its_end(repository: Path) -> None:
    model = script_of(repository, [{"say": "I change it."}, call("write_to_file", **WRITTEN)], [DONE])

    async def work(agent: Any, editor: Editor) -> None:
        opened = await agent.new_session(cwd=str(repository), mcp_servers=[])
        assert opened.modes.current_mode_id == "code"
        assert {"code", "ask"} <= {mode.id for mode in opened.modes.available_modes}
        ended = await agent.prompt(session_id=opened.session_id, prompt=ask("change it"))
        assert ended.stop_reason == "end_turn"

    editor = drive(repository, model, work)
    assert editor.text() == "I change it.All of it is done."
    starts = [update for update in editor.updates if isinstance(update, schema.ToolCallStart)]
    assert (starts[0].kind, starts[0].status) == ("edit", "pending")
    ends = [update for update in editor.updates if isinstance(update, schema.ToolCallProgress)]
    assert [update.status for update in ends if update.tool_call_id == starts[0].tool_call_id] == [
        "in_progress",
        "completed",
    ]
    [begun] = [update for update in ends if update.status == "in_progress" and update.kind == "edit"]
    assert begun.locations
    assert begun.locations[0].path == str(repository / "src" / "app.py")
    parts = [part for update in ends for part in update.content or ()]
    [diff] = [part for part in parts if isinstance(part, schema.FileEditToolCallContent)]
    assert "return 1" in (diff.old_text or "")
    assert "return 2" in diff.new_text
    assert "usage_update" in editor.kinds()
    assert (repository / "src" / "app.py").read_text() == WRITTEN["content"]


@pytest.mark.parametrize(("choice", "is_written"), [("once", True), ("no", False)])
def test_a_question_of_the_gate_is_a_permission(repository: Path, choice: str, is_written: bool) -> None:
    governed(repository)
    model = script_of(repository, [call("write_to_file", **{**WRITTEN, **CITED, "path": "new.py"})], [DONE])

    async def work(agent: Any, editor: Editor) -> None:
        opened = await agent.new_session(cwd=str(repository), mcp_servers=[])
        await agent.prompt(session_id=opened.session_id, prompt=ask("change it"))

    editor = drive(repository, model, work, editor=Editor(choice))
    [(shown, options)] = editor.permissions
    assert ("once", "allow_once") in options
    assert ("no", "reject_once") in options
    assert "new.py" in shown.title
    assert (repository / "new.py").exists() is is_written


@pytest.mark.live
def test_a_cancel_ends_the_prompt_as_cancelled(repository: Path) -> None:
    with AnthropicWire(ScriptedModel([Say("never whole")])).serve() as wire:
        put_fault(wire, "silence")

        async def work(agent: Any, editor: Editor) -> None:
            opened = await agent.new_session(cwd=str(repository), mcp_servers=[])
            prompt = asyncio.create_task(agent.prompt(session_id=opened.session_id, prompt=ask("go")))
            await asyncio.to_thread(wait_until, lambda: wire.requests)
            await agent.cancel(session_id=opened.session_id)
            assert (await prompt).stop_reason == "cancelled"

        known = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": wire.url}
        drive(repository, "anthropic:m-1", work, variables=known)


QUESTION = call("ask_followup_question", question="Which colour?", follow_up=[{"text": "red"}, {"text": "blue"}])


def test_a_question_of_the_agent_is_a_form_where_the_client_has_forms(repository: Path) -> None:
    model = script_of(repository, [QUESTION], [DONE])

    async def work(agent: Any, editor: Editor) -> None:
        opened = await agent.new_session(cwd=str(repository), mcp_servers=[])
        await agent.prompt(session_id=opened.session_id, prompt=ask("paint it"))

    editor = drive(repository, model, work, forms=True)
    assert editor.forms == ["Which colour?"]
    results = [update for update in editor.updates if isinstance(update, schema.ToolCallProgress)]
    assert "blue" in str(results)


def test_a_question_of_the_agent_is_text_elsewhere_and_the_next_prompt_answers_it(repository: Path) -> None:
    model = script_of(repository, [QUESTION], [DONE])

    async def work(agent: Any, editor: Editor) -> None:
        opened = await agent.new_session(cwd=str(repository), mcp_servers=[])
        await agent.prompt(session_id=opened.session_id, prompt=ask("paint it"))
        assert editor.text() == "Which colour?\n1. red\n2. blue"
        await agent.prompt(session_id=opened.session_id, prompt=ask("2"))

    editor = drive(repository, model, work)
    assert "All of it is done." in editor.text()
    assert "blue" in str([update for update in editor.updates if isinstance(update, schema.ToolCallProgress)])


def test_sessions_are_listed_loaded_copied_and_closed(repository: Path) -> None:
    model = script_of(repository, [{"say": "The first answer."}], [{"say": "The second answer."}])

    async def work(agent: Any, editor: Editor) -> None:
        opened = await agent.new_session(cwd=str(repository), mcp_servers=[])
        await agent.prompt(session_id=opened.session_id, prompt=ask("one"))
        await agent.close_session(session_id=opened.session_id)
        listed = await agent.list_sessions(cwd=str(repository))
        assert [found.session_id for found in listed.sessions] == [opened.session_id]
        editor.updates.clear()
        await agent.load_session(cwd=str(repository), session_id=opened.session_id, mcp_servers=[])
        assert editor.kinds()[:2] == ["user_message_chunk", "agent_message_chunk"]
        await agent.prompt(session_id=opened.session_id, prompt=ask("two"))
        assert "The second answer." in editor.text()
        copied = await agent.fork_session(session_id=opened.session_id, cwd=str(repository))
        assert copied.session_id != opened.session_id

    drive(repository, model, work)


def test_the_mode_is_switched_and_a_plan_is_shown(repository: Path) -> None:
    governed(repository)
    items = [{"text": "read", "status": "done"}, {"text": "write", "status": "pending"}]
    model = script_of(repository, [call("update_todo_list", items=items)], [DONE])

    async def work(agent: Any, editor: Editor) -> None:
        opened = await agent.new_session(cwd=str(repository), mcp_servers=[])
        await agent.set_session_mode(session_id=opened.session_id, mode_id="architect")
        with pytest.raises(acp.RequestError):
            await agent.set_session_mode(session_id=opened.session_id, mode_id="nothing")
        await agent.prompt(session_id=opened.session_id, prompt=ask("plan it"))

    editor = drive(repository, model, work)
    assert "current_mode_update" in editor.kinds()
    [plan] = [update for update in editor.updates if isinstance(update, schema.AgentPlanUpdate)]
    assert [(entry.content, entry.status) for entry in plan.entries] == [("read", "completed"), ("write", "pending")]


@pytest.mark.live
def test_servers_of_the_editor_are_the_agents(repository: Path) -> None:
    given = {"server_name": "notes", "tool_name": "add", "arguments": {"a": 2, "b": 40}}
    model = script_of(repository, [call("use_mcp_tool", **given)], [DONE])
    program = Path(__file__).parents[1] / "agent" / "mcp_server.py"

    async def work(agent: Any, editor: Editor) -> None:
        notes = schema.McpServerStdio(name="notes", command=sys.executable, args=[str(program)], env=[])
        opened = await agent.new_session(cwd=str(repository), mcp_servers=[notes])
        await agent.prompt(session_id=opened.session_id, prompt=ask("add it"))

    editor = drive(repository, model, work)
    assert "42" in str([update for update in editor.updates if isinstance(update, schema.ToolCallProgress)])


@pytest.mark.live
def test_limits_and_failures_are_said(repository: Path) -> None:
    with AnthropicWire(ScriptedModel([Use("read_file", {"path": "README.md"})])).serve() as wire:
        wire.answer = lambda method, path, body: wire.refusal(401, "invalid x-api-key")  # type: ignore[method-assign]

        async def work(agent: Any, editor: Editor) -> None:
            opened = await agent.new_session(cwd=str(repository), mcp_servers=[])
            with pytest.raises(acp.RequestError) as raised:
                await agent.prompt(session_id=opened.session_id, prompt=ask("go"))
            assert "invalid x-api-key" in str(raised.value.data)

        known = {"ANTHROPIC_API_KEY": "dummy", "ANTHROPIC_BASE_URL": wire.url}
        drive(repository, "anthropic:m-1", work, variables=known)


def test_a_session_without_a_key_is_refused_with_the_next_step(repository: Path) -> None:
    async def work(agent: Any, editor: Editor) -> None:
        with pytest.raises(acp.RequestError) as raised:
            await agent.new_session(cwd=str(repository), mcp_servers=[])
        assert "set ANTHROPIC_API_KEY" in str(raised.value.data)

    drive(repository, "anthropic:m-1", work)


def test_what_is_no_pipe_and_no_json_is_named_without_a_traceback(repository: Path) -> None:
    process = start_process(["acp-agent"], repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert b"an editor starts this command" in err
    done = run(repository, "acp-agent", typed="{bad\n")
    assert "is no JSON" in done.stderr
    assert "Traceback" not in done.stderr


def test_slash_commands_of_the_repository_are_offered_and_expanded(repository: Path) -> None:
    folder = repository / ".orchestration" / "commands"
    folder.mkdir(parents=True)
    (folder / "notes.md").write_text("---\ndescription: Write the notes\n---\nNotes of $ARGUMENTS.\n")
    model = script_of(repository, [{"say": "Written."}])

    async def work(agent: Any, editor: Editor) -> None:
        opened = await agent.new_session(cwd=str(repository), mcp_servers=[])
        await agent.prompt(session_id=opened.session_id, prompt=ask("/notes 1.2"))
        await agent.close_session(session_id=opened.session_id)
        await agent.load_session(cwd=str(repository), session_id=opened.session_id, mcp_servers=[])

    editor = drive(repository, model, work)
    offered = [update for update in editor.updates if isinstance(update, schema.AvailableCommandsUpdate)]
    [command] = offered[0].available_commands
    assert (command.name, command.description) == ("notes", "Write the notes")
    said = [update.content.text for update in editor.updates if isinstance(update, schema.UserMessageChunk)]
    assert said == [".orchestration/commands/notes.md\n\nNotes of 1.2.\n"]
