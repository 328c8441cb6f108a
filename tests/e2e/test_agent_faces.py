"""One task of Remit's own agent through its session API and each face: the ledger is the same, and blame and why are
right.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import acp
import pytest
from acp import schema
from acp.stdio import spawn_agent_process

from cli.running import MAIN, data, run
from cli.terminal.terminals import Terminal
from conftest import run_git
from coroutines import run_coroutine
from gate.driving import body, governed, overlay, records
from gate.hooks.trusted_hooks import trust_all
from remit.ledger.verify_log import verify_log
from remit.servers.environment import read_environment
from remit.workspace.place.workspace import locate_workspace
from remit_agent.faces.agent import RunRequest, open_run
from remit_agent.session.session import SessionOptions

TIMEOUT_S = 120
TASK = "Make add() add."
CHECK = "python3 -B -m unittest -q tests.test_app"
INTENTS = f"""\
version: "1.0"
active_intents:
  - id: INT-001
    name: Sums
    status: IN_PROGRESS
    owned_scope: ["src/**", "tests/**"]
    constraints: [none]
    acceptance_criteria: [{{text: the tests pass, verify: "{CHECK}"}}]
"""
FILES = {
    "src/app.py": "def add(a, b):\n    return a - b\n",
    "tests/__init__.py": "",
    "tests/test_app.py": (
        "import unittest\nfrom src.app import add\n\n\nclass Sums(unittest.TestCase):\n"
        "    def test_sum(self):\n        self.assertEqual(add(2, 3), 5)\n"
    ),
}
CITED = {"intent_id": "INT-001", "mutation_class": "BUG_FIX"}
SCRIPT: list[list[dict[str, Any]]] = [
    [{"tool": "select_active_intent", "input": {"intent_id": "INT-001"}}],
    [{"tool": "read_file", "input": {"path": "src/app.py"}}],
    [{"tool": "execute_command", "input": {"command": CHECK}}],
    [
        {"say": "The sign is wrong."},
        {"tool": "edit", "input": {"file_path": "src/app.py", "old_string": "a - b", "new_string": "a + b", **CITED}},
        {"tool": "write_to_file", "input": {"path": ".mcp.json", "content": "{}\n", **CITED}},
        {"tool": "write_to_file", "input": {"path": "src/notes.txt", "content": "add() adds.\n", **CITED}},
    ],
    [{"tool": "execute_command", "input": {"command": f"{CHECK} && echo made > src/made.txt; echo no > outside.txt"}}],
    [{"tool": "complete_intent", "input": {"intent_id": "INT-001", "verification_notes": "The test passes."}}],
    [{"tool": "attempt_completion", "input": {"result": "add() adds."}}],
]  # fmt: skip
PASSING_KEYS = ("session_id", "trace_id", "chain", "duration_ms", "ms")
PASSING_KEYS_BY_EVENT = {
    "snapshot": ("id", "commit"),
    "verification": ("output",),
    "tree_head": ("note", "root"),
    "intent_transition": ("life",),
}
"""Keys of a record that no two runs have alike: ids, times, and what is computed from them."""


class Place:
    """A governed repository with the task, one for each face."""

    def __init__(self, folder: Path, home: Path, model: str) -> None:
        self.root, self.model = folder / "repo", model
        for path, text in FILES.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        run_git(self.root, "init", "-q")
        run_git(self.root, "add", "-A")
        run_git(self.root, "commit", "-q", "-m", "first")
        governed(self.root, intents=INTENTS)
        trust_all(self.root, home)
        overlay(home)


def run_on_terminal(place: Place) -> None:
    terminal = Terminal(place.root.parent, (120, 40))
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "TMPDIR")}
    words = [sys.executable, "-c", MAIN, "run", TASK, "--model", place.model]
    try:
        terminal.start(words, place.root, {**kept, "TERM": "screen-256color"})
        terminal.wait_to_see("completed add() adds.")
        terminal.press("C-d")
        terminal.wait_to_see("exit 0")
    finally:
        terminal.close()


def run_plainly(place: Place) -> None:
    done = run(place.root, "run", TASK, "--plain", "--model", place.model)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "completed add() adds."


def run_as_json(place: Place) -> None:
    done = run(place.root, "run", TASK, "--json", "--model", place.model)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["data"]["state"] == "completed"


class Editor:
    """An ACP client that answers no question: the task has none."""

    def on_connect(self, conn: Any) -> None: ...

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None: ...

    async def request_permission(self, **_: Any) -> schema.RequestPermissionResponse:
        return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))


def run_by_editor(place: Place) -> None:
    async def work() -> None:
        words = ("-c", MAIN, "acp-agent", "--model", place.model)
        started = spawn_agent_process(cast(Any, Editor()), sys.executable, *words, env={**os.environ}, cwd=place.root)
        async with asyncio.timeout(TIMEOUT_S), started as (agent, _):
            await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
            opened = await agent.new_session(cwd=str(place.root), mcp_servers=[])
            ended = await agent.prompt(session_id=opened.session_id, prompt=[acp.text_block(TASK)])
            assert ended.stop_reason == "end_turn"

    run_coroutine(work())


def run_by_api(place: Place) -> None:
    async def work() -> None:
        options = SessionOptions(until_completion=True, has_person=False)
        request = RunRequest(place.root, place.model, options, task=TASK)
        async with (
            asyncio.timeout(TIMEOUT_S),
            await open_run(request, os.environ, read_environment()) as session,
        ):
            await session.wait_until_idle()
            ended = session.run.history.ended
            assert ended is not None
            assert ended.state == "completed"

    run_coroutine(work())


FACES: dict[str, Callable[[Place], None]] = {
    "plain": run_plainly,
    "json": run_as_json,
    "acp": run_by_editor,
    "terminal": run_on_terminal,
}


def list_records(place: Place) -> list[str]:
    """Return the records, one text each, without what no two runs have alike."""
    found: list[str] = []
    # The file of intents holds the time at which the intent was done.
    done = [body(record)["content_sha256"] for record in records(place.root, "intent_changed")][-1]
    for record in map(body, records(place.root)):
        passing = (*PASSING_KEYS, *PASSING_KEYS_BY_EVENT.get(record["event"], ()))
        kept = {key: value for key, value in record.items() if key not in passing}
        found.append(json.dumps(kept, sort_keys=True).replace(str(place.root), "ROOT").replace(done, "DONE"))
    return found


@pytest.fixture
def prepared(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home, with a temporary folder in which no repository lies."""
    (home / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    return home


@pytest.mark.parametrize("face", FACES.values(), ids=FACES.keys())
def test_the_same_task_leaves_the_same_ledger_through_every_face(
    face: Callable[[Place], None], tmp_path: Path, prepared: Path
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    found: list[list[str]] = []
    for name, show in {"api": run_by_api, "face": face}.items():
        place = Place(tmp_path / name, prepared, f"scripted:{script}")
        show(place)
        check_outcome(place)
        found.append(list_records(place))
    by_api, by_face = found
    assert by_face == by_api


def check_outcome(place: Place) -> None:
    """The files, the intent, the checks, and the answers of blame and why are as the task wants them."""
    root = place.root
    assert (root / "src/app.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert (root / "src/made.txt").read_text() == "made\n"
    assert not (root / "outside.txt").exists()
    assert not (root / ".mcp.json").exists()
    workspace = locate_workspace(root)
    assert workspace is not None
    assert verify_log(workspace.log_folder) == ()
    # The criterion was verified by its command, which a person trusts; the intent is done by `complete_intent`.
    assert data(root, "intent", "show", "INT-001")["status"] == "DONE"
    [verified] = [body(record) for record in records(root, "verification")]
    assert (verified["command"], verified["exit_code"]) == (CHECK, 0)
    contained = [body(record)["decision"]["effect"] for record in records(root, "tool_use")]
    assert contained.count("contain") == 2
    first, changed = data(root, "blame", "src/app.py")["lines"]
    assert first["origin"] != "ai"
    assert {key: changed[key] for key in ("origin", "agent", "model", "intent_id", "declared")} == {
        "origin": "ai", "agent": "remit", "model": place.model, "intent_id": "INT-001", "declared": "BUG_FIX",
    }  # fmt: skip
    [cause] = data(root, "why", "src/app.py:2")["causes"]
    assert (cause["agent"], cause["tool"], cause["intent_id"], cause["intent_status"]) == (
        "remit",
        "edit",
        "INT-001",
        "DONE",
    )
    assert cause["talk"]["prompt"] == TASK
    assert cause["talk"]["said"][0]["text"] == "The sign is wrong."
    assert [check["exit_code"] for check in cause["checks"]] == [0]
