"""Watchers of questions, where a daemon holds the waiting call and where a fresh process does: both see them all."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from forked_commands import start_ready
from gate.driving import governed
from processes import daemons_of
from remit.gate.gate import Gate
from remit.gate.people.questions import ApprovalReply, QuestionStore
from remit.servers.daemon import socket_path
from remit.servers.environment import read_environment
from remit.wiring.hook_client import install_script
from waiting import WAIT_S, wait_until

MAIN = "from remit.cli import main; main()"


@pytest.fixture
def client(home: Path) -> Iterator[list[str]]:
    """The client's words, with a daemon to ask."""
    path = home / "hook"
    install_script(path)
    settings = (version("remit"), sys.executable, str(socket_path(home)), "20")
    path.with_name("hook.conf").write_text("".join(f"{line}\n" for line in settings))
    daemon = start_ready(["daemon", "--idle-s", "600"])
    yield [str(path), "claude-code", "pre"]
    daemon.terminate()
    daemon.wait(WAIT_S)


def wait_for_question(store: QuestionStore, watchers: tuple[str, ...]) -> str:
    def has_question() -> bool:
        for watcher in watchers:
            store.mark_watcher_present(watcher=watcher)
        return bool(store.list_open_questions())

    wait_until(has_question)
    return store.list_open_questions()[0].id


def wait_for_look(store: QuestionStore) -> None:
    """Wait, in one tab, until the asker has looked who is there, and signs that it waits on."""

    def read_sign() -> float:
        store.mark_watcher_present(watcher="tab")
        [(seen_at,)] = store.state.fetch_rows("SELECT seen_at FROM approvals WHERE closed=0")
        return seen_at

    before = read_sign()
    wait_until(lambda: read_sign() > before)


@pytest.mark.parametrize("holder", ["daemon", "fresh"])
def test_who_leaves_ends_nothing_that_another_watches_and_the_last_one_does(
    repository: Path, home: Path, client: list[str], holder: str
) -> None:
    governed(repository)
    command = client if holder == "daemon" else [sys.executable, "-I", "-c", MAIN, "hook", "claude-code", "pre"]
    store = Gate.open(repository, read_environment()).questions
    payload = {"session_id": "s1", "cwd": str(repository), "hook_event_name": "PreToolUse", "tool_name": "Write"}
    answers: list[str] = []
    for number, has_answer in enumerate((True, False)):
        for watcher in ("tab", "terminal"):
            store.mark_watcher_present(watcher=watcher)
        call = {"tool_use_id": f"t{number}", "tool_input": {"file_path": str(repository / "a.md"), "content": "x\n"}}
        asker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=repository, env=os.environ)
        assert asker.stdin is not None
        asker.stdin.write(json.dumps({**payload, **call}).encode())
        asker.stdin.close()
        asker.stdin = None
        question = wait_for_question(store, ("tab", "terminal"))
        store.mark_watcher_gone(watcher="terminal")
        wait_for_look(store)
        assert asker.poll() is None
        if has_answer:
            assert store.answer_question(question, ApprovalReply(False, "not now")) is not None
        else:
            store.mark_watcher_gone(watcher="tab")
        out, _ = asker.communicate(timeout=WAIT_S)
        answers.append(out.decode())
    assert "not now" in answers[0]
    assert "went away" in answers[1]
    assert daemons_of(home) != []
