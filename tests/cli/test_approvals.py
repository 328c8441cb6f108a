"""A person's yes and no, as processes: an agent's hook waits, a terminal answers."""

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.running import MAIN, data, run
from forked_commands import run_command, start_process
from remit.cli.policy.approvals import SIGN_INTERVAL_S, announce_watcher, parse_answer, shorten_diff
from remit.core.call import SessionKey, ToolCall
from remit.gate.gate import Gate
from remit.gate.people.ask import MAX_ACTION_CHARS, describe_call
from remit.gate.people.questions import WATCHER_TIMEOUT_S, ListedQuestion, Question
from remit.servers.environment import read_environment
from remit.workspace.processes.process_tracking import STATE_FIELD, read_stat_fields
from stepped_clock import SteppedClock
from waiting import WAIT_S, wait_until

CALLS = count(1)


def output(folder: Path, *words: str, code: int = 0) -> str:
    """Return what a command writes on both streams."""
    done = run(folder, *words)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


class Watcher:
    """`remit approvals watch` on a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        ours, theirs = pty.openpty()
        self.process = start_process(["approvals", "watch"], folder, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.line = ours
        self.output = b""
        self.has_ended = False
        self.news = threading.Condition()
        self.typed_at = 0
        """Length of the output when the person typed last."""
        threading.Thread(target=self.listen, daemon=True).start()
        self.expect(b"Watching")

    @property
    def shown(self) -> bytes:
        """The output since the person typed last."""
        return self.output[self.typed_at :]

    def listen(self) -> None:
        with suppress(OSError):
            while block := os.read(self.line, 4096):
                with self.news:
                    self.output += block
                    self.news.notify_all()
        with self.news:
            self.has_ended = True
            self.news.notify_all()

    def expect(self, text: bytes) -> None:
        with self.news:
            self.news.wait_for(lambda: text in self.shown or self.has_ended, WAIT_S)
            assert text in self.shown, self.shown

    def type(self, text: str) -> None:
        self.typed_at = len(self.output)
        os.write(self.line, text.encode() + b"\n")

    def leave(self) -> None:
        self.process.kill()  # also one that is stopped
        self.process.wait()

    def end(self) -> None:
        self.leave()
        os.close(self.line)


@pytest.fixture
def governed(repository: Path) -> Path:
    output(repository, "init", "--mode", "enforce", "--yes")
    output(repository, "intent", "new", "Work", "--scope", "src/**")
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
        "tool_use_id": f"t{next(CALLS)}",
    }
    done = run_command(["hook", "claude-code", "pre"], folder, typed=json.dumps(payload))
    assert done.returncode == 0, done
    return json.loads(done.stdout)["hookSpecificOutput"] if done.stdout else {}


class Waiting:
    """A hook call that somebody has to answer."""

    def __init__(self, folder: Path, path: str, content: str = "x\n") -> None:
        self.answer: dict[str, Any] | None = None
        self.thread = threading.Thread(target=self.run, args=(folder, path, content))
        self.thread.start()

    def run(self, folder: Path, path: str, content: str) -> None:
        self.answer = hook(folder, "Write", file_path=str(folder / path), content=content)

    def answered(self) -> dict[str, Any]:
        self.thread.join(WAIT_S)
        assert self.answer is not None
        return self.answer


def records(folder: Path, event: str) -> list[dict[str, Any]]:
    found = data(folder, "log", "--event", event)
    return [r["metadata"]["dev.remit"] for r in found]


def test_with_nobody_there_a_denial_comes_at_once(governed: Path) -> None:
    answer = Waiting(governed, "a.md").answered()  # a question would wait for minutes
    assert "SCOPE_VIOLATION" in answer["permissionDecisionReason"]
    assert records(governed, "approval_requested") == []


def test_a_new_card_rings_the_bell_and_an_answer_is_confirmed(governed: Path, watcher: Watcher) -> None:
    waiting = Waiting(governed, "docs/a.md")
    watcher.expect(b"\a")
    watcher.type("i")
    assert waiting.answered() == {}
    watcher.expect(b"allowed, for INT-001: SCOPE_VIOLATION docs/**")
    refused = Waiting(governed, "other/c.md")
    watcher.expect(b"other/c.md")
    watcher.type("not there")
    assert refused.answered()["permissionDecision"] == "deny"
    watcher.expect(b"refused: not there")


def test_a_question_mark_explains_the_answers_and_refuses_nothing(governed: Path, watcher: Watcher) -> None:
    waiting = Waiting(governed, "docs/a.md")
    watcher.expect(b"SCOPE_VIOLATION")
    watcher.type("?")
    watcher.expect(b"yes, until the intent ends, to: docs/**")
    assert waiting.answer is None
    watcher.type("y")
    assert waiting.answered() == {}


ANSWERS = (
    ("y", ("d/a",), 10, (True, "once", "")),
    ("YES", ("d/a",), 10, (True, "once", "")),
    ("no", ("d/a",), 10, (False, "once", "")),
    ("", ("d/a",), 10, (False, "once", "")),
    ("s", ("d/a",), 10, (True, "session", "")),
    ("i = d/*", ("d/a",), 10, (True, "intent", "d/*")),
    ("the docs are frozen", ("d/a",), 10, (False, "once", "the docs are frozen")),
    ("s", ("d/a",), 90, None),
    ("p=d/**", ("d/a",), 90, None),
    ("s", (None,), 10, None),  # a proposal for the scope: a yes to it is for good already
    ("a", ("d/a",), 10, None),
    ("a", ("d/a", "d/b"), 10, (True, "once", "")),
    ("?", ("d/a",), 10, None),
    ("k", ("d/a",), 10, None),
    ("yy", ("d/a",), 10, None),
)


@pytest.mark.parametrize(("typed", "paths", "risk", "expected"), ANSWERS)
def test_a_card_takes_the_answers_that_it_offers_and_no_others(
    typed: str, paths: tuple[str | None, ...], risk: int, expected: tuple[bool, str, str] | None
) -> None:
    questions = [Question("id", "s", "a", "INT-001", "SCOPE_VIOLATION", "action", "", p, risk) for p in paths]
    reply = parse_answer(typed, [ListedQuestion(question, "open") for question in questions])
    assert expected == (None if reply is None else (reply.allow, reply.extent, reply.pattern or reply.words))


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
    assert "docs/**" in output(governed, "approvals", "list")
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
    assert "could have answered went away" in answer["permissionDecisionReason"]


def test_a_yes_without_a_terminal_is_refused(governed: Path, watcher: Watcher) -> None:
    waiting = Waiting(governed, "docs/a.md")
    watcher.expect(b"SCOPE_VIOLATION")
    question = data(governed, "approvals", "list")["questions"][0]["id"]
    refused = run(governed, "approvals", "allow", question)
    assert refused.returncode == 3
    assert "terminal" in refused.stderr
    output(governed, "approvals", "deny", question, "-m", "no")
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
    assert "enforce" in output(governed, "mode")


@pytest.mark.parametrize("words", [("approvals", "allow", "x"), ("approvals", "watch"), ("mode", "observe")])
def test_what_an_agent_tries_with_such_a_command_is_recorded(
    governed: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    agent = tmp_path / "claude"
    agent.write_text('#!/bin/sh\n"$@"\n')
    agent.chmod(0o755)
    done = subprocess.run([agent, sys.executable, "-c", MAIN, *words], cwd=governed, capture_output=True, check=False)
    assert done.returncode == 3
    [attempt] = records(governed, "denied")
    assert attempt["call"]["name"] == " ".join(("remit", *words[:2])).removesuffix(" observe")
    assert (attempt["violation"]["error_type"], attempt["call"]["effect"]) == ("COMMAND_BLOCKED", "execute")


def test_a_yes_without_a_terminal_is_recorded_too(governed: Path) -> None:
    assert run(governed, "approvals", "allow", "x").returncode == 3
    assert [r["call"]["name"] for r in records(governed, "denied")] == ["remit approvals allow"]


def on_a_terminal(folder: Path, *words: str, code: int = 0) -> str:
    """What the command says to a person."""
    ours, theirs = pty.openpty()
    try:
        done = start_process(words, folder, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = b"".join(done.communicate()).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code, said
    return said


def waiting_questions(folder: Path, many: int) -> list[dict[str, Any]]:
    questions = Gate.open(folder, read_environment()).questions
    wait_until(lambda: len(questions.list_open_questions()) == many, "the questions did not come")
    return data(folder, "approvals", "list")["questions"]


def test_a_watcher_goes_on_to_be_announced_after_its_state_could_not_be_written(repository: Path) -> None:
    clock, stopped = SteppedClock(), threading.Event()
    gate = Gate.open(repository, msgspec.structs.replace(read_environment(), clock=clock))
    questions = gate.questions
    announcing = threading.Thread(target=announce_watcher, args=(gate, stopped))
    announcing.start()
    clock.wait_for_waiter()
    clock.advance(SIGN_INTERVAL_S)
    assert questions.is_watcher_present()
    with closing(sqlite3.connect(repository / ".git/remit/state.db", timeout=WAIT_S, isolation_level=None)) as state:
        state.execute("ALTER TABLE watchers RENAME TO away")
        clock.advance(2 * WATCHER_TIMEOUT_S)
        state.execute("ALTER TABLE away RENAME TO watchers")
    assert not questions.is_watcher_present()
    clock.advance(SIGN_INTERVAL_S)
    assert questions.is_watcher_present()
    stopped.set()
    announcing.join()


def test_equal_cards_fold_and_are_answered_at_once(governed: Path, watcher: Watcher) -> None:
    paths = ["docs/a.md", "docs/b.md", "other/c.md"]
    calls = [Waiting(governed, path) for path in paths]
    questions = {q["path"]: q["id"] for q in waiting_questions(governed, 3)}
    listed = output(governed, "approvals", "list")
    assert listed.count("SCOPE_VIOLATION: ") == 2
    said = on_a_terminal(governed, "approvals", "allow", questions["docs/b.md"], "--all-equal")
    assert "and 1 equal to it" in said
    assert [call.answered() for call in calls[:2]] == [{}, {}]
    on_a_terminal(governed, "approvals", "deny", questions["other/c.md"], "-m", "no")
    assert calls[2].answered()["permissionDecision"] == "deny"


def test_a_watcher_answers_a_whole_card(governed: Path, watcher: Watcher) -> None:
    stop_between_writes(governed, watcher)
    calls = [Waiting(governed, path) for path in ("docs/a.md", "docs/b.md")]
    keep_watch(governed, 2)
    watcher.process.send_signal(signal.SIGCONT)
    watcher.expect(b"[a]ll 2 once")
    watcher.type("a")
    assert [call.answered() for call in calls] == [{}, {}]


def stop_between_writes(folder: Path, watcher: Watcher) -> None:
    """Stop the watcher where it does not hold the state: it writes there that it watches."""
    with closing(sqlite3.connect(folder / ".git/remit/state.db", timeout=0.2, isolation_level=None)) as state:
        for _ in range(100):
            watcher.process.send_signal(signal.SIGSTOP)
            wait_until(lambda: is_stopped(watcher.process.pid))
            with suppress(sqlite3.OperationalError):
                state.execute("BEGIN IMMEDIATE")
                state.execute("ROLLBACK")
                return
            watcher.process.send_signal(signal.SIGCONT)
    raise AssertionError("the watcher never lets go of the state")


def is_stopped(pid: int) -> bool:
    return read_stat_fields(pid)[STATE_FIELD] == "T"


def keep_watch(folder: Path, many: int) -> None:
    """Be there in the watcher's place until so many questions wait."""
    gate = Gate.open(folder, read_environment())

    def has_asked() -> bool:
        gate.questions.mark_watcher_present()
        return len(gate.questions.list_open_questions()) >= many

    wait_until(has_asked)


def test_a_killed_hook_leaves_a_question_that_can_still_be_answered(governed: Path, watcher: Watcher) -> None:
    payload = {"session_id": "s1", "cwd": str(governed), "hook_event_name": "PreToolUse", "tool_name": "Write"}
    payload |= {"tool_input": {"file_path": str(governed / "docs/a.md"), "content": "x\n"}, "tool_use_id": "t"}
    asker = start_process(["hook", "claude-code", "pre"], governed, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert asker.stdin is not None
    asker.stdin.write(json.dumps(payload).encode())
    asker.stdin.close()
    asker.stdin = None
    [question] = waiting_questions(governed, 1)
    asker.kill()
    asker.communicate()
    watcher.leave()
    listed = output(governed, "approvals", "list")
    assert "(expired)" in listed
    assert [(r["approval"]["by"], r["approval"]["answer"]) for r in records(governed, "approval_answered")] == [
        ("nobody", "deny")
    ]
    said = on_a_terminal(governed, "approvals", "allow", question["id"])
    assert "passes once" in said
    call = {"file_path": str(governed / "docs/a.md"), "content": "x\n"}
    assert hook(governed, "Write", **call) == {}
    assert hook(governed, "Write", **call)["permissionDecision"] == "deny"


def test_a_yes_says_what_it_covers_and_refuses_to_go_too_far(governed: Path, watcher: Watcher) -> None:
    waiting = Waiting(governed, "docs/a.md")
    [question] = waiting_questions(governed, 1)
    wrong = on_a_terminal(
        governed, "approvals", "allow", question["id"], "--for", "session", "--rule", "src/**", code=2
    )
    assert "does not cover" in wrong
    said = on_a_terminal(governed, "approvals", "allow", question["id"], "--for", "session", "--rule", "docs/*.md")
    assert "session: SCOPE_VIOLATION docs/*.md" in said
    assert waiting.answered() == {}
    assert hook(governed, "Write", file_path=str(governed / "docs/b.md"), content="x") == {}


def test_a_watcher_names_another_rule_and_a_wrong_one_leaves_the_question_open(
    governed: Path, watcher: Watcher
) -> None:
    waiting = Waiting(governed, "docs/a.md")
    watcher.expect(b"+x")
    watcher.expect(b"[p]roject")
    watcher.type("i=src/**")
    watcher.expect(b"does not cover")
    watcher.expect(b"[p]roject")
    watcher.type("p=docs/*.md")
    assert waiting.answered() == {}
    assert 'pattern = "docs/*.md"' in (governed / ".orchestration" / "remit.toml").read_text()
    assert "project: SCOPE_VIOLATION docs/*.md  remit.toml" in output(governed, "approvals", "list")
    [grant] = data(governed, "approvals", "list")["grants"]
    assert "revoked: SCOPE_VIOLATION docs/*.md" in output(governed, "approvals", "revoke", grant["id"][-8:])
    assert "grants" not in (governed / ".orchestration" / "remit.toml").read_text()


def test_what_was_typed_before_a_card_stood_there_answers_nothing(governed: Path, watcher: Watcher) -> None:
    first = Waiting(governed, "docs/a.md")
    watcher.expect(b"docs/a.md")
    watcher.type("y\ny\ny")
    assert first.answered() == {}
    second = Waiting(governed, "docs/b.md")
    watcher.expect(b"docs/b.md")
    watcher.type("no")  # a word that was still there would have been taken first
    assert second.answered()["permissionDecision"] == "deny"


def test_a_card_in_the_terminal_shows_the_beginning_of_a_long_diff_and_how_much_is_left() -> None:
    lines = shorten_diff("\n".join(f"+{n}" for n in range(100)))
    assert (lines[0], lines[-1], len(lines)) == ("+0", "… and 60 lines more", 41)
    assert shorten_diff("+x\n+y") == ["+x", "+y"]


def test_the_end_of_a_long_command_is_seen_and_long_ones_are_told_apart() -> None:
    def told(middle: str) -> str:
        command = f"echo {'a' * MAX_ACTION_CHARS}{middle}{'b' * 2000}; rm -rf /srv"
        call = ToolCall("claude-code", SessionKey("s"), "Bash", "execute", "/", command=command)
        return describe_call(call, Path("/r"))

    assert told("x").endswith("; rm -rf /srv")
    assert "CHARACTERS LEFT OUT" in told("x")
    assert told("x") != told("y")
    assert len(told("x")) < MAX_ACTION_CHARS + 200
