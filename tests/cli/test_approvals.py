"""A person's yes and no, as processes: an agent's hook waits, a terminal answers."""

import json
import os
import pty
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

MAIN = "from remit.cli import main; main()"


def remit(folder: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-c", MAIN, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


class Watcher:
    """`remit approvals watch` on a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "approvals", "watch"], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        self.line = ours
        self.shown = b""
        threading.Thread(target=self.listen, daemon=True).start()
        self.expect(b"Watching")

    def listen(self) -> None:
        try:
            while block := os.read(self.line, 4096):
                self.shown += block
        except OSError:
            return

    def expect(self, text: bytes) -> None:
        until = time.monotonic() + 30
        while text not in self.shown:
            assert time.monotonic() < until, self.shown
            time.sleep(0.02)

    def type(self, text: str) -> None:
        self.shown = b""
        os.write(self.line, text.encode() + b"\n")

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()
        os.close(self.line)


@pytest.fixture
def governed(repository: Path) -> Path:
    remit(repository, "init", "--mode", "enforce", "--yes")
    remit(repository, "intent", "new", "Work", "--scope", "src/**")
    hook(repository, "Bash", command="remit intent select INT-001")
    return repository


@pytest.fixture
def watcher(governed: Path) -> Generator[Watcher]:
    found = Watcher(governed)
    yield found
    found.end()


def hook(folder: Path, tool: str, **given: Any) -> dict[str, Any]:
    payload = {
        "session_id": "s1",
        "cwd": str(folder),
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": given,
        "tool_use_id": f"t{time.monotonic_ns()}",
    }
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "hook", "claude-code", "pre"],
        input=json.dumps(payload).encode(),
        capture_output=True,
        cwd=folder,
        check=True,
    )
    return json.loads(done.stdout)["hookSpecificOutput"] if done.stdout else {}


class Waiting:
    """A hook call that somebody has to answer."""

    def __init__(self, folder: Path, path: str) -> None:
        self.answer: dict[str, Any] | None = None
        self.thread = threading.Thread(target=self.run, args=(folder, path))
        self.thread.start()

    def run(self, folder: Path, path: str) -> None:
        self.answer = hook(folder, "Write", file_path=str(folder / path), content="x\n")

    def answered(self) -> dict[str, Any]:
        self.thread.join(30)
        assert self.answer is not None
        return self.answer


def records(folder: Path, event: str) -> list[dict[str, Any]]:
    found = json.loads(remit(folder, "log", "--event", event, "--json"))["data"]
    return [r["metadata"]["dev.remit"] for r in found]


def test_with_nobody_there_a_denial_comes_at_once(governed: Path) -> None:
    began = time.monotonic()
    assert (
        "SCOPE_VIOLATION"
        in hook(governed, "Write", file_path=str(governed / "a.md"), content="x")["permissionDecisionReason"]
    )
    assert time.monotonic() - began < 5
    assert records(governed, "approval_requested") == []


def test_a_yes_lets_exactly_this_call_through(governed: Path, watcher: Watcher) -> None:
    waiting = Waiting(governed, "docs/a.md")
    watcher.expect(b"SCOPE_VIOLATION")
    watcher.type("y")
    assert waiting.answered() == {}
    [answer] = records(governed, "approval_answered")
    assert (answer["approval"]["answer"], answer["approval"]["grant"]) == ("allow", None)
    use = records(governed, "tool_use")[0]
    assert (use["decision"]["effect"], use["decision"]["approved_by"]) == ("allow", "person")
    again = Waiting(governed, "docs/a.md")
    watcher.expect(b"SCOPE_VIOLATION")
    watcher.type("no")
    assert again.answered()["permissionDecision"] == "deny"


def test_a_no_reaches_the_model_in_the_persons_words(governed: Path, watcher: Watcher) -> None:
    waiting = Waiting(governed, "docs/a.md")
    watcher.expect(b"SCOPE_VIOLATION")
    watcher.type("the docs are frozen this week")
    reason = waiting.answered()["permissionDecisionReason"]
    assert "SCOPE_VIOLATION" in reason
    assert "the docs are frozen this week" in reason


def test_a_yes_for_the_intent_covers_the_folder_and_ends_with_the_intent(governed: Path, watcher: Watcher) -> None:
    waiting = Waiting(governed, "docs/a.md")
    watcher.expect(b"SCOPE_VIOLATION")
    watcher.type("i")
    assert waiting.answered() == {}
    assert hook(governed, "Write", file_path=str(governed / "docs/b.md"), content="x") == {}
    assert "docs/**" in remit(governed, "approvals", "list")
    elsewhere = Waiting(governed, "other/c.md")
    watcher.expect(b"other/c.md")
    watcher.type("no")
    assert elsewhere.answered()["permissionDecision"] == "deny"


def test_a_protected_path_is_nobodys_to_waive(governed: Path, watcher: Watcher) -> None:
    answer = hook(governed, "Write", file_path=str(governed / ".orchestration/remit.toml"), content="mode='observe'")
    assert "PROTECTED_PATH" in answer["permissionDecisionReason"]
    assert records(governed, "approval_requested") == []


def test_a_question_ends_when_the_person_leaves(governed: Path, watcher: Watcher) -> None:
    waiting = Waiting(governed, "docs/a.md")
    watcher.expect(b"SCOPE_VIOLATION")
    watcher.process.kill()
    answer = waiting.answered()
    assert "nobody answered in time" in answer["permissionDecisionReason"]


def test_a_yes_without_a_terminal_is_refused(governed: Path, watcher: Watcher) -> None:
    waiting = Waiting(governed, "docs/a.md")
    watcher.expect(b"SCOPE_VIOLATION")
    question = json.loads(remit(governed, "approvals", "list", "--json"))["data"]["questions"][0]["id"]
    refused = subprocess.run(
        [sys.executable, "-c", MAIN, "approvals", "allow", question],
        cwd=governed,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 3
    assert "terminal" in refused.stderr
    remit(governed, "approvals", "deny", question, "-m", "no")
    assert waiting.answered()["permissionDecision"] == "deny"


@pytest.mark.parametrize(
    "words", [("mode", "observe"), ("approvals", "deny", "x"), ("intent", "new", "n", "-s", "a/**")]
)
def test_commands_for_people_are_refused_below_an_agent(governed: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    agent = tmp_path / "claude"
    agent.write_text('#!/bin/sh\n"$@"\n')
    agent.chmod(0o755)
    done = subprocess.run(
        [agent, sys.executable, "-c", MAIN, *words], cwd=governed, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "for a person" in done.stderr or "for people" in done.stderr
    assert "enforce" in remit(governed, "mode")
