"""Real agents as attempts of a plan: jailed in worktrees of their own, governed by hooks, landed, told by `why`."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from conftest import run_git
from e2e.claude import MODEL as CLAUDE_MODEL
from e2e.claude import SWITCHES, claude_binary
from e2e.codex import MODEL as CODEX_MODEL
from e2e.codex import codex_binary, provider_settings
from e2e.gemini import MODEL as GEMINI_MODEL
from e2e.gemini import NEEDED_SETTINGS, gemini_command
from e2e.npm import clean_environment
from e2e.qwen import MODEL as QWEN_MODEL
from e2e.qwen import qwen_command
from e2e.test_four_agents import AGENTS
from forked_commands import run_command
from remit.rehearsal.scripted_model import Say, ScriptedModel

pytestmark = pytest.mark.live

REMIT = [sys.executable, "-c", "from remit.cli import main; main()"]
WAIT_S = 200.0
LINES = "x = 1\ny = 2\n"


@dataclass(frozen=True)
class Installed:
    """How a real agent comes onto a search path, and what a person would have set up for it in HOME and the shell."""

    command: Callable[[], Sequence[str]]
    model: str
    variables: Callable[[str], Mapping[str, str]]
    files: Callable[[str], Mapping[str, str]] = field(default=lambda url: {})
    wiring: tuple[str, ...] = ()


INSTALLED = {
    "claude-code": Installed(
        lambda: [str(claude_binary())],
        CLAUDE_MODEL,
        lambda url: {"ANTHROPIC_BASE_URL": url, **SWITCHES},
    ),
    "codex": Installed(
        lambda: [str(codex_binary())],
        CODEX_MODEL,
        lambda url: {"OPENAI_API_KEY": "dummy"},
        lambda url: {".codex/config.toml": "\n".join(provider_settings(url, "OPENAI_API_KEY")) + "\n"},
        ("--trust-codex",),
    ),
    "gemini": Installed(
        gemini_command,
        GEMINI_MODEL,
        lambda url: {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": url},
        lambda url: {".gemini/settings.json": json.dumps(NEEDED_SETTINGS)},
    ),
    "qwen": Installed(
        qwen_command,
        QWEN_MODEL,
        lambda url: {"OPENAI_API_KEY": "dummy", "OPENAI_BASE_URL": f"{url}/v1"},
        lambda url: {".qwen/settings.json": json.dumps({"security": {"auth": {"selectedType": "openai"}}})},
    ),
}


class LivePlan:
    """A governed repository, with agents installed as a person has them, and nothing else in the environment."""

    def __init__(self, home: Path, root: Path, urls: Mapping[str, str]) -> None:
        self.home, self.root = home, root
        programs = home / "bin"
        programs.mkdir()
        self.environment = clean_environment(home, {"GIT_CONFIG_NOSYSTEM": "1"})
        self.environment["PATH"] = f"{programs}:{self.environment['PATH']}"
        for name, url in urls.items():
            agent, command = INSTALLED[name], programs / AGENT_PROGRAMS[name]
            command.write_text(f'#!/bin/sh\nexec {shlex.join(agent.command())} "$@"\n')
            command.chmod(0o755)
            self.environment |= agent.variables(url)
            for path, text in agent.files(url).items():
                (home / path).parent.mkdir(exist_ok=True)
                (home / path).write_text(text)

    def remit(self, *words: str) -> str:
        done = run_command(words, self.root, self.environment)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def govern(self, agents: Sequence[str], count: int) -> list[str]:
        for name in agents:
            self.remit("init", "--yes", "--agent", name, *INSTALLED[name].wiring)
        ids = [f"INT-{number:03}" for number in range(1, count + 1)]
        for id in ids:
            self.remit("intent", "new", f"make {id}", "--scope", f"src/{id.lower()}/**")
        self.remit("mode", "enforce")
        run_git(self.root, "add", "-A")
        run_git(self.root, "commit", "-q", "-m", "governed")
        return ids

    def find_tree(self, intent: str) -> Path:
        """Return the worktree in which an attempt at the intent works."""
        listed = run_git(self.root, "worktree", "list", "--porcelain").split("\n\n")
        trees = [lines for lines in listed if f"branch refs/heads/remit/{intent}/" in lines]
        newest = max(trees, key=lambda lines: int(lines.rsplit("/", 1)[1]))
        return Path(newest.splitlines()[0].removeprefix("worktree "))

    def wait_until_landed(self) -> None:
        until = time.monotonic() + WAIT_S
        while (states := self.list_states()) != {"landed"}:
            assert time.monotonic() < until, (states, self.remit("plan", "log"), self.read_outputs())
            assert not states & {"stuck", "blocked", "dropped"}, (self.remit("plan", "log"), self.read_outputs())
            time.sleep(0.5)

    def list_states(self) -> set[str]:
        return {task["state"] for task in json.loads(self.remit("plan", "status", "--json"))["data"]["tasks"]}

    def list_attempts(self, intent: str) -> list[dict[str, Any]]:
        return json.loads(self.remit("task", "show", intent, "--json"))["data"]["attempts"]

    def read_outputs(self) -> str:
        outputs = sorted((self.home / ".local/share/remit/trees").glob("*/*.log"))
        return "\n".join(path.read_text("utf-8", "replace")[-3000:] for path in outputs)

    def take_result(self) -> None:
        run_git(self.root, "restore", ".orchestration")
        run_git(self.root, "merge", "-q", "--ff-only", "remit/next")


AGENT_PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini", "qwen": "qwen"}


@pytest.fixture(params=sorted(AGENTS))
def name(request: pytest.FixtureRequest) -> str:
    request.getfixturevalue(AGENTS[request.param].fixture)
    return request.param


def test_a_real_agent_works_on_an_intent_of_a_plan(name: str, repository: Path, home: Path) -> None:
    agent = AGENTS[name]

    def write_in_scope(conversation: object) -> object:
        return agent.write(plan.find_tree("INT-001") / "src" / "int-001" / "made.py", LINES)

    def write_outside(conversation: object) -> object:
        return agent.write(plan.find_tree("INT-001") / "README.md", "not mine\n")

    steps: list[Any] = [write_outside, write_in_scope, agent.shell("cat src/int-001/made.py"), Say("done")]
    with agent.wire(ScriptedModel(steps)).serve() as wire:
        plan = LivePlan(home, repository, {name: wire.url})
        plan.govern([name], 1)
        plan.remit("plan", "start", "--yes", "--agent", name, "--model", INSTALLED[name].model)
        plan.wait_until_landed()
        told = wire.tool_result_texts()
    assert "SCOPE_VIOLATION" in told[0], told
    assert "x = 1" in told[2], told
    attempts = plan.list_attempts("INT-001")
    assert [(one["agent"], one["ended_as"]) for one in attempts] == [(name, "handed_in")]
    assert attempts[0]["sessions"]
    assert attempts[0]["tokens_in"] > 0
    assert (attempts[0]["usd"] is not None) == (name == "claude-code"), "unknown is not zero"
    plan.take_result()
    assert (repository / "src/int-001/made.py").read_text() == LINES
    assert "INT-001" in plan.remit("why", "src/int-001/made.py:1")
    lines = json.loads(plan.remit("blame", "src/int-001/made.py", "--json"))["data"]["lines"]
    assert [(line["origin"], line["agent"], line["intent_id"]) for line in lines] == [("ai", name, "INT-001")] * 2


def test_a_plan_with_two_kinds_of_agents_survives_the_death_of_its_worker(
    claude_code: Path, repository: Path, home: Path
) -> None:
    """The page `run-several-agents` with a real agent: Claude Code beside Remit's own, and a worker that is killed."""
    agent, is_killed, is_working = AGENTS["claude-code"], Event(), Event()

    def think(conversation: object) -> Any:
        is_working.set()
        is_killed.wait(WAIT_S)
        return Say("too late")

    def write(conversation: object) -> Any:
        return agent.write(plan.find_tree("INT-001") / "src" / "int-001" / "made.py", LINES)

    with agent.wire(ScriptedModel([think, write, Say("done")])).serve() as wire:
        plan = LivePlan(home, repository, {"claude-code": wire.url})
        (repository / "plays").mkdir()
        for id in ("INT-002", "INT-003"):
            file = {"path": f"src/{id.lower()}/text.py", "content": f"TEXT = {id!r}\n"}
            turns = [
                [{"tool": "write_to_file", "input": file}],
                [{"tool": "attempt_completion", "input": {"result": "done"}}],
            ]
            (repository / "plays" / f"{id}.json").write_text(json.dumps(turns))
        plan.govern(["claude-code"], 3)
        player = (
            '--agent-command=player=remit run "{prompt}" --json --intent {intent} --model scripted:plays/{intent}.json'
        )
        plan.remit("plan", "start", "INT-001", "--yes", "--agent=claude-code", "--workers=2", "--pace=0.3", player)
        assert is_working.wait(WAIT_S), plan.remit("plan", "log")
        worker = int(plan.remit("worker", "list").split(":")[2])
        os.kill(worker, signal.SIGKILL)
        assert "INT-001  running" in plan.remit("plan", "status")
        plan.remit(
            "plan",
            "start",
            "INT-002",
            "INT-003",
            "--yes",
            "--agent=player",
            "--database",
            f"sqlite:///{home}/.local/state/remit/fleet.db",
        )
        second = subprocess.Popen(
            [*REMIT, "worker", "--until-idle", "--slots=2", "--pace=0.3", player],
            cwd=repository,
            env=plan.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        try:
            watched = plan.remit("plan", "status", "--watch")
            is_killed.set()
            assert second.wait(WAIT_S) == 0
        finally:
            second.kill()
            second.wait()
    assert [id for id in ("INT-001", "INT-002", "INT-003") if f"{id}  landed" not in watched] == []
    assert [one["ended_as"] for one in plan.list_attempts("INT-001")] == ["lost", "handed_in"]
    plan.take_result()
    for file, id in (("int-001/made.py", "INT-001"), ("int-002/text.py", "INT-002"), ("int-003/text.py", "INT-003")):
        assert id in plan.remit("why", f"src/{file}:1")
