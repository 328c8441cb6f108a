"""The harnesses themselves: real clients, a scripted model, raw hooks and a raw MCP server."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.codex import run_codex, trust_hash, trust_key
from e2e.gemini import run_gemini
from e2e.npm import Result, TooSlow
from e2e.qwen import run_qwen
from remit.rehearsal.gemini_wire import GeminiWire
from remit.rehearsal.openai_wires import ChatWire, ResponsesWire
from remit.rehearsal.scripted_model import ModelRequest, ModelWire, Say, ScriptedModel, Use
from remit.workspace.processes.process_tracking import read_process

pytestmark = pytest.mark.live

NOTES = """\
from mcp.server import MCPServer

server = MCPServer("notes")


@server.tool()
def echo_note(text: str) -> str:
    "Say it again."
    return "echo: " + text


server.run()
"""
DENY = "cat > /dev/null; echo 'not in your scope' >&2; exit 2"
HOOK_TIMEOUT_S = 20


@dataclass(frozen=True)
class Agent:
    """One client as these tests use it. `names` are a write, a shell command and an MCP call as a hook hears them."""

    fixture: str
    wire: type[ModelWire]
    run: Callable[..., Result]
    configure: Callable[[Path, str, Path], None]
    write: Callable[[Path, str], Use]
    shell: Callable[[str], Use]
    mcp: str
    event: str
    names: tuple[str, str, str]


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content))


def configure_codex(home: Path, hook: str, server: Path, matcher: str | None = None) -> None:
    group: dict[str, Any] = {"hooks": [{"type": "command", "command": hook, "timeout": HOOK_TIMEOUT_S}]}
    if matcher is not None:
        group["matcher"] = matcher
    write_json(home / ".codex" / "hooks.json", {"hooks": {"PreToolUse": [group]}})
    (home / ".codex" / "config.toml").write_text(
        "[mcp_servers.notes]\n"
        f"command = {json.dumps(sys.executable)}\n"
        f"args = [{json.dumps(str(server))}]\n"
        'default_tools_approval_mode = "approve"\n'
        "required = true\n"  # the first turn waits for it
        "startup_timeout_sec = 120\n"
    )


def configure_gemini(home: Path, hook: str, server: Path) -> None:
    handler = {"type": "command", "name": "test", "command": hook, "timeout": HOOK_TIMEOUT_S * 1000}
    notes = {"command": sys.executable, "args": [str(server)], "trust": True}
    write_json(
        home / ".gemini" / "settings.json",
        {"hooks": {"BeforeTool": [{"matcher": "*", "hooks": [handler]}]}, "mcpServers": {"notes": notes}},
    )


def configure_qwen(home: Path, hook: str, server: Path) -> None:
    handler = {"type": "command", "command": hook, "timeout": HOOK_TIMEOUT_S}
    notes = {"command": sys.executable, "args": [str(server)], "trust": True}
    write_json(
        home / ".qwen" / "settings.json",
        {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [handler]}]}, "mcpServers": {"notes": notes}},
    )


def patch(file: Path, text: str) -> Use:
    added = "".join(f"+{line}\n" for line in text.splitlines())
    return Use("apply_patch", {"input": f"*** Begin Patch\n*** Add File: {file}\n{added}*** End Patch"})


def write_file(file: Path, text: str) -> Use:
    return Use("write_file", {"file_path": str(file), "content": text})


AGENTS = {
    "codex": Agent(
        fixture="codex_cli",
        wire=ResponsesWire,
        run=run_codex,
        configure=configure_codex,
        write=patch,
        shell=lambda command: Use("exec_command", {"cmd": command}),
        mcp="mcp__notes__echo_note",
        event="PreToolUse",
        names=("apply_patch", "Bash", "mcp__notes__echo_note"),
    ),
    "gemini": Agent(
        fixture="gemini_cli",
        wire=GeminiWire,
        run=run_gemini,
        configure=configure_gemini,
        write=write_file,
        shell=lambda command: Use("run_shell_command", {"command": command}),
        mcp="mcp_notes_echo_note",
        event="BeforeTool",
        names=("write_file", "run_shell_command", "mcp_notes_echo_note"),
    ),
    "qwen": Agent(
        fixture="qwen_code",
        wire=ChatWire,
        run=run_qwen,
        configure=configure_qwen,
        write=write_file,
        shell=lambda command: Use("run_shell_command", {"command": command, "is_background": False}),
        mcp="mcp__notes__echo_note",
        event="PreToolUse",
        names=("write_file", "run_shell_command", "mcp__notes__echo_note"),
    ),
}


@pytest.fixture(params=sorted(AGENTS))
def agent(request: pytest.FixtureRequest) -> Agent:
    """Each client in turn, as far as it can be had."""
    chosen = AGENTS[request.param]
    request.getfixturevalue(chosen.fixture)
    return chosen


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """An MCP server with one tool."""
    script = tmp_path / "notes.py"
    script.write_text(NOTES)
    return script


def keep(file: Path) -> str:
    """A hook that notes what it hears, a line each, and has no opinion."""
    return f"cat >> '{file}'; echo >> '{file}'"


def heard(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines() if line]


def test_scripted_calls_land_and_a_hook_hears_of_each(
    agent: Agent, repository: Path, home: Path, notes: Path, tmp_path: Path
) -> None:
    target = repository / "note.txt"
    steps = [
        agent.write(target, "one\ntwo\n"),
        agent.shell("cat note.txt note.txt > twice.txt && echo wrote"),
        Use(agent.mcp, {"text": "hello"}),
        Say("all done"),
    ]
    agent.configure(home, keep(tmp_path / "heard.jsonl"), notes)
    model = ScriptedModel(steps)
    with agent.wire(model).serve() as wire:
        done = agent.run(repository, home, wire.url, "write a note")
        told = wire.tool_result_texts()
    assert (done.returncode, done.stdout.strip()) == (0, "all done"), done
    assert model.remaining == 0
    assert target.read_text() == "one\ntwo\n"
    assert (repository / "twice.txt").read_text() == "one\ntwo\n" * 2
    assert "wrote" in told[1]
    assert "echo: hello" in told[2]
    payloads = heard(tmp_path / "heard.jsonl")
    assert tuple(payload["tool_name"] for payload in payloads) == agent.names
    assert {(payload["hook_event_name"], payload["cwd"]) for payload in payloads} == {(agent.event, str(repository))}
    assert payloads[2]["tool_input"] == {"text": "hello"}
    assert wire.requests[0].opening == "write a note"


def test_a_hook_that_denies_reaches_the_model(agent: Agent, repository: Path, home: Path, notes: Path) -> None:
    def after_the_denial(seen: ModelRequest) -> Say:
        assert seen.last_result is not None
        return Say("I was told: " + seen.last_result.text)

    agent.configure(home, DENY, notes)
    model = ScriptedModel([agent.write(repository / "note.txt", "x\n"), after_the_denial])
    with agent.wire(model).serve() as wire:
        done = agent.run(repository, home, wire.url, "write a note")
    assert "not in your scope" in done.stdout, done
    assert not (repository / "note.txt").exists()


@pytest.mark.usefixtures("codex_cli")
@pytest.mark.parametrize("matcher", [None, "apply_patch"])
@pytest.mark.parametrize("trusted", [True, False])
def test_codex_runs_a_hook_only_when_its_hash_is_trusted(
    trusted: bool, matcher: str | None, repository: Path, home: Path, notes: Path
) -> None:
    configure_codex(home, DENY, notes, matcher)
    known = trust_hash("pre_tool_use", DENY if trusted else "another command", HOOK_TIMEOUT_S, matcher)
    name = json.dumps(trust_key(home / ".codex" / "hooks.json", "pre_tool_use"))
    with (home / ".codex" / "config.toml").open("a") as config:
        config.write(f'[hooks.state.{name}]\ntrusted_hash = "{known}"\n')
    model = ScriptedModel([patch(repository / "note.txt", "x\n"), Say("done")])
    with ResponsesWire(model).serve() as wire:
        run_codex(repository, home, wire.url, "write a note", trust_hooks=False)
        [told] = wire.tool_result_texts()
    assert ("not in your scope" in told) is trusted
    assert (repository / "note.txt").exists() is not trusted


@pytest.mark.usefixtures("codex_cli")
def test_a_run_beyond_its_time_is_ended_and_its_shell_too(repository: Path, home: Path) -> None:
    slow = Use("exec_command", {"cmd": "echo $$ > pid; exec sleep 290", "yield_time_ms": 30000})
    with ResponsesWire(ScriptedModel([slow])).serve() as wire, pytest.raises(TooSlow):
        run_codex(repository, home, wire.url, "sleep", timeout_s=20)  # it has to begin its command before
    left = read_process(int((repository / "pid").read_text()))
    # A zombie has ended too, and has no words any more: who reaps it is the machine's affair.
    assert left is None or "sleep" not in left.argv
