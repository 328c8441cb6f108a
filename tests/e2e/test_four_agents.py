"""Every wired agent, live: wired by `init`, denied, told why, allowed, recorded, blamed, unwired without a trace."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from e2e.claude import run_claude
from e2e.codex import run_codex
from e2e.gemini import run_gemini
from e2e.npm import Result
from e2e.qwen import run_qwen
from forked_commands import run_command
from remit.core.agents import ROWS
from remit.gate.containment.rewrite_call import CONFINING_WAYS
from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.gemini_wire import GeminiWire
from remit.rehearsal.openai_wires import ChatWire, ResponsesWire
from remit.rehearsal.scripted_model import ModelWire, Say, ScriptedModel, Use
from remit.workspace.sandbox.containment import find_containment

pytestmark = pytest.mark.live

LINES = "x = 1\ny = 2\n"


@dataclass(frozen=True)
class Agent:
    """One client: how its model says to write, to run a shell command, and to call one of Remit's tools."""

    fixture: str
    wire: type[ModelWire]
    run: Callable[..., Result]
    write: Callable[[Path, str], Use]
    shell: Callable[[str], Use]
    remit_tool: str
    settings: tuple[str, ...]


def patch(file: Path, text: str) -> Use:
    added = "".join(f"+{line}\n" for line in text.splitlines())
    return Use("apply_patch", {"input": f"*** Begin Patch\n*** Add File: {file}\n{added}*** End Patch"})


def write_file(file: Path, text: str) -> Use:
    return Use("write_file", {"file_path": str(file), "content": text})


AGENTS = {
    "claude-code": Agent(
        fixture="claude_code",
        wire=AnthropicWire,
        run=run_claude,
        write=lambda file, text: Use("Write", {"file_path": str(file), "content": text}),
        shell=lambda command: Use("Bash", {"command": command}),
        remit_tool="mcp__remit__select_active_intent",
        settings=(".claude/settings.json", ".claude.json"),
    ),
    "codex": Agent(
        fixture="codex_cli",
        wire=ResponsesWire,
        run=lambda *given: run_codex(*given, trust_hooks=False),
        write=patch,
        shell=lambda command: Use("exec_command", {"cmd": command}),
        remit_tool="mcp__remit__select_active_intent",
        settings=(".codex/hooks.json", ".codex/config.toml"),
    ),
    "gemini": Agent(
        fixture="gemini_cli",
        wire=GeminiWire,
        run=run_gemini,
        write=write_file,
        shell=lambda command: Use("run_shell_command", {"command": command}),
        remit_tool="mcp_remit_select_active_intent",
        settings=(".gemini/settings.json",),
    ),
    "qwen": Agent(
        fixture="qwen_code",
        wire=ChatWire,
        run=run_qwen,
        write=write_file,
        shell=lambda command: Use("run_shell_command", {"command": command, "is_background": False}),
        remit_tool="mcp__remit__select_active_intent",
        settings=(".qwen/settings.json",),
    ),
}


@pytest.fixture(params=sorted(AGENTS))
def name(request: pytest.FixtureRequest) -> str:
    request.getfixturevalue(AGENTS[request.param].fixture)
    return request.param


def remit(folder: Path, *words: str) -> str:
    done = run_command(words, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def records(folder: Path, event: str) -> list[dict[str, Any]]:
    found = json.loads(remit(folder, "log", "--event", event, "-n", "100", "--json"))["data"]
    return [r["metadata"]["dev.remit"] for r in found]


def wire_up(repository: Path, name: str) -> None:
    remit(
        repository,
        "init",
        "--yes",
        "--mode",
        "enforce",
        "--agent",
        name,
        *(["--trust-codex"] if name == "codex" else []),
    )
    remit(repository, "intent", "new", "Names", "--scope", "src/**")


def run(name: str, folder: Path, home: Path, *steps: Use | Say) -> tuple[Result, list[str]]:
    agent = AGENTS[name]
    with agent.wire(ScriptedModel([*steps, Say("done")])).serve() as wire:
        done = agent.run(folder, home, wire.url, "do the work")
        return done, wire.tool_result_texts()


def test_the_whole_chain(name: str, repository: Path, home: Path) -> None:
    agent = AGENTS[name]
    wire_up(repository, name)
    target = repository / "src" / "new.py"
    done, told = run(
        name,
        repository,
        home,
        agent.write(target, "too = 'early'\n"),
        agent.shell("touch src/by_shell.py"),
        Use(agent.remit_tool, {"intent_id": "INT-001", "reasoning": "asked to"}),
        agent.write(repository / "outside.md", "no\n"),
        agent.write(target, LINES),
        agent.shell("echo sneaky > plain.md"),
        agent.shell("python3 -c \"open('side.md', 'w').write('sneaky')\""),
    )
    assert done.returncode == 0, done
    assert "MISSING_OR_INVALID_INTENT" in told[0], told
    assert "MISSING_OR_INVALID_INTENT" in told[1], told
    assert "INT-001" in told[2], told
    assert "SCOPE_VIOLATION" in told[3], told
    assert target.read_text() == LINES, told
    assert "SCOPE_VIOLATION" in told[5], told
    assert not (repository / "plain.md").exists()
    assert not (repository / "outside.md").exists()
    assert not (repository / "src" / "by_shell.py").exists()
    run_git(repository, "add", "src")
    run_git(repository, "commit", "-q", "-m", "work")
    lines = json.loads(remit(repository, "blame", "src/new.py", "--json"))["data"]["lines"]
    assert [(line["origin"], line["agent"], line["intent_id"]) for line in lines] == [("ai", name, "INT-001")] * 2
    stray = [f["path"] for r in records(repository, "mutation") if not r["in_scope"] for f in r["files"]]
    contained = ROWS[name].rewrites and find_containment(home, home / "tmp").way in CONFINING_WAYS
    assert stray == ([] if contained else ["side.md"])
    assert "the chain is whole" in remit(repository, "ledger", "verify")


def test_in_warn_each_model_hears_what_enforce_would_refuse(name: str, repository: Path, home: Path) -> None:
    """Gemini CLI's and Qwen Code's models read nothing before a call: they hear it with the call's result."""
    agent = AGENTS[name]
    wire_up(repository, name)
    remit(repository, "mode", "warn")
    steps = [agent.write(repository / "outside.md", "no\n"), agent.shell("ls"), Say("done")]
    with agent.wire(ScriptedModel(steps)).serve() as wire:
        done = agent.run(repository, home, wire.url, "do the work")
        shown = wire.requests[-1].shown_text
    assert done.returncode == 0, done
    assert (repository / "outside.md").read_text() == "no\n"
    assert "in enforce it would be refused" in shown, shown


def test_what_init_wrote_uninstall_takes_out_byte_for_byte(name: str, repository: Path, home: Path) -> None:
    agent = AGENTS[name]
    before: dict[Path, bytes | None] = {}
    for path in (home / setting for setting in agent.settings):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b'# mine\r\nmodel = "m"\r\n' if path.suffix == ".toml" else b'{\r\n\t"theme":  "dark"\r\n}')
        before[path] = path.read_bytes()
    wire_up(repository, name)
    assert all(path.read_bytes() != old for path, old in before.items())
    remit(repository, "uninstall", "--yes")
    assert {path: path.read_bytes() for path in before} == before
