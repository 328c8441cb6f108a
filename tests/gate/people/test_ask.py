"""Questions, their askers and their answers: who waits, who is gone, what an answer that comes late is good for."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gate.driving import Agent, allowed, body, governed, machine, records, refusal
from gate.people.test_watchers import watching
from remit.cli.policy.approvals import SIGN_INTERVAL_S
from remit.core.clock import Clock
from remit.gate.gate import Gate
from remit.gate.people.ask import ApprovalRequests
from remit.gate.people.questions import LATE_ANSWER_S, NEWS, ApprovalReply, Question, QuestionStore, tell_news
from remit.gate.state.database import SCHEMA_VERSION
from remit.gate.state.workspace_state import State
from remit.workspace.processes.process_tracking import has_process_ended, identify_this_process, process_start_time
from remit.workspace.system_clock import SYSTEM_CLOCK
from stepped_clock import SteppedClock
from waiting import WAIT_S, wait_until


class Person:
    """Somebody at a terminal who gives the same answer to every question; None leaves it."""

    def __init__(self, root: Path, home: Path, reply: ApprovalReply | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self.questions = Gate.open(root, machine(home, clock)).questions
        self.reply = reply or ApprovalReply(True)
        self.asked: list[Question] = []
        self.is_gone = False
        self.questions.mark_watcher_present()
        self.thread = threading.Thread(target=self.attend)
        self.thread.start()

    def attend(self) -> None:
        while not self.is_gone:
            self.questions.mark_watcher_present()
            with NEWS:
                NEWS.wait_for(lambda: self.is_gone or self.questions.list_open_questions(), SIGN_INTERVAL_S)
            for question in self.questions.list_open_questions():
                self.asked.append(question)
                self.questions.answer_question(question.id, self.reply)

    def __enter__(self) -> "Person":
        return self

    def __exit__(self, *_: object) -> None:
        self.is_gone = True
        tell_news()
        self.thread.join()
        self.questions.mark_watcher_gone()


class World:
    """One workspace with a threshold, an agent in it, and the gate that people use."""

    def __init__(
        self, root: Path, home: Path, threshold: int | None, mode: str = "enforce", clock: Clock | None = None
    ) -> None:
        self.root, self.home = governed(root, mode), home
        self.clock = clock or SteppedClock()
        self.agent = Agent(root, home, clock=self.clock)
        self.agent.select()
        if threshold is not None:
            with (root / ".orchestration/remit.toml").open("a") as file:
                file.write(f"\n[approvals]\nthreshold = {threshold}\n")
        self.gate = Gate.open(root, self.agent.environment)

    @property
    def approvals(self) -> QuestionStore:
        return self.gate.questions

    def person(self, reply: ApprovalReply | None = None) -> Person:
        return Person(self.root, self.home, reply, self.clock)

    def answers(self) -> list[dict[str, Any]]:
        return [body(r)["approval"] for r in records(self.root, "approval_answered")]


@pytest.fixture
def world(repository: Path, home: Path) -> Callable[..., World]:
    def made(threshold: int | None = None, mode: str = "enforce", clock: Clock | None = None) -> World:
        return World(repository, home, threshold, mode, clock)

    return made


# -- the threshold ------------------------------------------------------------------------------------------


def test_without_a_threshold_what_the_rules_allow_is_allowed(world: Callable[..., World]) -> None:
    assert allowed(world().agent.write("src/a.py", "x\n"))


def test_zero_asks_about_every_change_and_with_nobody_there_denies_and_says_how_to_answer(
    world: Callable[..., World],
) -> None:
    found = world(0)
    answer = found.agent.write("src/a.py", "x\n")
    assert refusal(answer) == "USER_REJECTED"
    assert "remit approvals watch" in answer["permissionDecisionReason"]
    assert allowed(found.agent.read("src/app.py"))
    assert allowed(found.agent.ask("Bash", command="git status"))
    assert allowed(found.agent.ask("Bash", command="remit intent clear"))


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_where_nothing_is_enforced_nothing_is_asked(world: Callable[..., World], mode: str) -> None:
    found = world(0, mode)
    assert allowed(found.agent.write("src/a.py", "x\n"))
    assert [body(r)["decision"]["verdict"] for r in records(found.root, "tool_use")][-1] == "ask"
    assert records(found.root, "approval_requested") == []


def test_a_yes_lets_this_call_pass_and_the_next_one_is_asked_again(world: Callable[..., World]) -> None:
    found = world(0)
    with found.person() as person:
        assert allowed(found.agent.write("src/a.py", "x\n"))
        assert allowed(found.agent.write("src/a.py", "y\n"))
    assert [q.path for q in person.asked] == ["src/a.py", "src/a.py"]
    use = [body(r)["decision"] for r in records(found.root, "tool_use")][-1]
    assert (use["approved_by"], use["grant"]) == ("person", "once")


def test_what_a_yes_let_through_says_so_in_the_record_of_the_change_too(world: Callable[..., World]) -> None:
    found = world()
    with found.person(ApprovalReply(True, extent="session")):
        assert allowed(found.agent.write("docs/a.md", "x\n"))
    assert allowed(found.agent.write("docs/b.md", "x\n"))
    assert allowed(found.agent.write("src/a.py", "x\n"))
    [grant] = found.gate.active_grants(found.gate.rules)
    told = [body(r)["decision"] for r in records(found.root, "mutation")]
    assert [(d["approved_by"], d["grant"]) for d in told] == [("person", grant.id)] * 2 + [(None, None)]


def test_what_a_person_let_a_command_write_is_not_undone(world: Callable[..., World]) -> None:
    found = world()
    with found.person():
        told = found.agent.shell("cp src/app.py top.py")
    assert allowed(told), told
    assert (found.root / "top.py").read_bytes() == (found.root / "src/app.py").read_bytes()
    with found.person(ApprovalReply(True, extent="session")):
        assert allowed(found.agent.write("docs/a.md", "x\n"))
    assert allowed(found.agent.shell("cp src/app.py docs/b.py"))
    assert (found.root / "docs/b.py").exists()


def test_a_person_sees_what_would_change_without_secrets(world: Callable[..., World]) -> None:
    found = world()
    (found.root / "docs").mkdir()
    (found.root / "docs/a.md").write_text("one\ntwo\n-- three\n")
    with found.person(ApprovalReply(False)) as person:
        found.agent.write("docs/a.md", "one\n2\x1b[2J\nAKIAIOSFODNN7EXAMPLE\n")
        found.agent.write("docs/new.md", "x\n" * 100)
        found.agent.write(".env.docs", "PASSWORD=hunter2\n")
    first, second, third = (question.diff.splitlines() for question in person.asked)
    assert first == ["@@ -1,3 +1,3 @@", " one", "-two", "--- three", "+2\\x1b[2J", "+[redacted]"]
    assert (second[1], second[-1], len(second)) == ("+x", "+x", 101)
    assert third == []
    log = found.gate.workspace.log_folder
    assert not any(b"three" in line for file in log.rglob("*") if file.is_file() for line in [file.read_bytes()])


def test_a_no_is_told_in_the_persons_words(world: Callable[..., World]) -> None:
    found = world(0)
    with found.person(ApprovalReply(False, "not today")):
        answer = found.agent.write("src/a.py", "x\n")
    assert (refusal(answer), "not today" in answer["permissionDecisionReason"]) == ("USER_REJECTED", True)


def test_only_what_weighs_as_much_is_asked_about(world: Callable[..., World]) -> None:
    found = world(30)
    assert allowed(found.agent.write("src/a.py", "x\n"))
    assert allowed(found.agent.ask("Bash", command="make x"))
    assert refusal(found.agent.ask("Bash", command='rm -rf "$OLD"')) == "USER_REJECTED"


def test_a_wider_yes_covers_the_folder(world: Callable[..., World]) -> None:
    found = world(0)
    with found.person(ApprovalReply(True, extent="intent")) as person:
        assert allowed(found.agent.write("src/a.py", "x\n"))
        assert allowed(found.agent.write("src/b.py", "x\n"))
    assert allowed(found.agent.write("src/deep/c.py", "x\n"))
    assert [q.path for q in person.asked] == ["src/a.py"]
    assert [g.pattern for g in found.gate.active_grants(found.gate.rules)] == ["src/**"]


def test_a_wider_yes_to_a_command_covers_its_first_words_and_no_pipe(world: Callable[..., World]) -> None:
    found = world(0)
    with found.person(ApprovalReply(True, extent="session")) as person:
        assert allowed(found.agent.ask("Bash", command="make test"))
        assert allowed(found.agent.ask("Bash", command="make test -j4"))
        assert len(person.asked) == 1
    assert [g.command for g in found.gate.active_grants(found.gate.rules)] == [("make", "test")]
    for command in ("make test | sh", "make test > x", "make install", "X=1 make test", "make test $(x)"):
        assert refusal(found.agent.ask("Bash", command=command)) in ("USER_REJECTED", "CIRCUIT_OPEN"), command


@pytest.mark.parametrize("command", ["git push --force", "python x.py", "make a | sh"])
def test_high_risk_and_words_that_say_too_little_are_allowed_once_whatever_the_answer_says(
    world: Callable[..., World], command: str
) -> None:
    found = world(0)
    with found.person(ApprovalReply(True, extent="project", pattern="git")):
        assert allowed(found.agent.ask("Bash", command=command))
    assert found.gate.active_grants(found.gate.rules) == ()
    assert refusal(found.agent.ask("Bash", command=command)) in ("USER_REJECTED", "COMMAND_BLOCKED")


def test_a_wider_yes_does_not_reach_what_weighs_more(world: Callable[..., World]) -> None:
    found = world(0)
    with found.person(ApprovalReply(True, extent="session")):
        assert allowed(found.agent.ask("Bash", command="git push origin main"))
    assert [g.command for g in found.gate.active_grants(found.gate.rules)] == [("git", "push")]
    assert allowed(found.agent.ask("Bash", command="git push origin main"))
    assert refusal(found.agent.ask("Bash", command="git push origin main --force")) == "COMMAND_BLOCKED"


def test_a_yes_to_a_command_without_an_intent_covers_that_command_alone(world: Callable[..., World]) -> None:
    found = world()
    found.agent.ask("Bash", command="remit intent clear")
    with found.person(ApprovalReply(True, extent="session")):
        assert allowed(found.agent.ask("Bash", command="make test"))
    assert allowed(found.agent.ask("Bash", command="make test"))
    assert refusal(found.agent.ask("Bash", command="make install")) == "MISSING_OR_INVALID_INTENT"


@pytest.mark.parametrize("value", ["-1", "101", '"high"', "1.5"])
def test_a_threshold_that_is_no_risk_is_an_error(repository: Path, home: Path, value: str) -> None:
    found = World(repository, home, None)
    (repository / ".orchestration/remit.toml").write_text(f'mode = "enforce"\n[approvals]\nthreshold = {value}\n')
    assert refusal(found.agent.write("src/a.py", "x\n")) == "CONFIG_INVALID"


# -- askers that are gone -----------------------------------------------------------------------------------


ASK = """
import sys, json
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[3])
from gate.people.test_watchers import watching
from gate.driving import Agent
print(Agent(Path(sys.argv[1]), Path(sys.argv[2])).ask("Write", file_path="docs/a.md", content="x"), flush=True)
"""


class Asker:
    """A hook in a process of its own, which waits for an answer."""

    def __init__(self, found: World) -> None:
        self.found = found
        command = [sys.executable, "-c", ASK, str(found.root), str(found.home), msgspec.json.encode(sys.path).decode()]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def question(self) -> Question:
        waiting: list[Question] = []

        def has_asked() -> bool:
            self.found.approvals.mark_watcher_present()
            waiting.extend(self.found.approvals.list_open_questions())
            return bool(waiting)

        wait_until(has_asked, "nothing was asked")
        return waiting[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def orphaned(world: Callable[..., World]) -> tuple[World, Question]:
    """A question whose asker was killed."""
    found = world(clock=SYSTEM_CLOCK)  # as in the asker's process
    found.approvals.mark_watcher_present()
    asker = Asker(found)
    question = asker.question()
    asker.kill()
    return found, question


def close(found: World) -> None:
    ApprovalRequests(found.gate).close_orphaned_questions(found.gate.rules)


def test_a_question_whose_asker_was_killed_is_closed_at_the_next_sight(orphaned: tuple[World, Question]) -> None:
    found, question = orphaned
    close(found)
    close(found)
    assert [(a.question.id, a.status) for a in found.approvals.list_unanswered()] == [(question.id, "expired")]
    [answer] = found.answers()
    assert (answer["id"], answer["by"], answer["answer"]) == (question.id, "nobody", "deny")


def test_a_late_yes_serves_the_same_call_once(orphaned: tuple[World, Question]) -> None:
    found, question = orphaned
    close(found)
    found.approvals.mark_watcher_gone()
    answered = found.approvals.answer_question(question.id, ApprovalReply(True))
    assert answered is not None
    assert answered.status == "expired"
    assert refusal(found.agent.ask("Write", file_path="docs/other.md", content="x")) == "SCOPE_VIOLATION"
    assert refusal(found.agent.ask("Write", file_path="docs/a.md", content="other")) == "SCOPE_VIOLATION"
    other = Agent(found.root, found.home, session="session-2")
    other.select()
    assert refusal(other.ask("Write", file_path="docs/a.md", content="x")) == "SCOPE_VIOLATION"
    assert allowed(found.agent.ask("Write", file_path="docs/a.md", content="x"))
    assert refusal(found.agent.ask("Write", file_path="docs/a.md", content="x")) == "SCOPE_VIOLATION"


def test_an_answer_that_reached_nobody_is_recorded_and_serves_the_same_call(orphaned: tuple[World, Question]) -> None:
    found, question = orphaned
    assert found.approvals.answer_question(question.id, ApprovalReply(True)) is not None
    found.approvals.mark_watcher_gone()
    assert allowed(found.agent.ask("Write", file_path="docs/a.md", content="x"))
    assert [(a["id"], a["by"], a["answer"]) for a in found.answers()] == [(question.id, "person", "allow")]


def test_a_late_yes_is_for_the_file_as_it_was(orphaned: tuple[World, Question]) -> None:
    found, question = orphaned
    close(found)
    found.approvals.mark_watcher_gone()
    found.approvals.answer_question(question.id, ApprovalReply(True))
    (found.root / "docs").mkdir()
    (found.root / "docs/a.md").write_text("a person wrote this\n")
    assert refusal(found.agent.ask("Write", file_path="docs/a.md", content="x")) == "SCOPE_VIOLATION"


def test_a_late_yes_ends(orphaned: tuple[World, Question]) -> None:
    found, question = orphaned
    close(found)
    now = found.clock.now()
    early = QuestionStore(found.gate.state, SteppedClock(now))
    digest = found.gate.state.fetch_rows("SELECT digest FROM approvals")[0][0]
    early.answer_question(question.id, ApprovalReply(True))
    assert QuestionStore(found.gate.state, SteppedClock(now + LATE_ANSWER_S + 1)).take_late_approval(digest) is None
    assert early.take_late_approval(digest) is not None
    assert early.take_late_approval(digest) is None


def test_a_late_no_serves_nothing(orphaned: tuple[World, Question]) -> None:
    found, question = orphaned
    close(found)
    found.approvals.mark_watcher_gone()
    found.approvals.answer_question(question.id, ApprovalReply(False, "no"))
    assert refusal(found.agent.ask("Write", file_path="docs/a.md", content="x")) == "SCOPE_VIOLATION"
    assert found.approvals.list_unanswered() == []


def test_one_that_waits_is_let_be(world: Callable[..., World]) -> None:
    found = world(clock=SYSTEM_CLOCK)
    asker = Asker(found)
    with watching(found.approvals, "somebody"):
        question = asker.question()
        close(found)
        assert [(a.question.id, a.status) for a in found.approvals.list_unanswered()] == [(question.id, "open")]
        found.approvals.answer_question(question.id, ApprovalReply(True))
        out, _ = asker.process.communicate(timeout=WAIT_S)
    assert "permissionDecision" not in out
    assert [a["by"] for a in found.answers()] == ["person"]


def test_a_process_of_another_time_with_the_same_id_is_gone() -> None:
    own = identify_this_process()
    assert has_process_ended(own) is False
    assert has_process_ended(msgspec.structs.replace(own, started="1")) is True
    assert has_process_ended(msgspec.structs.replace(own, world="pid:[1]")) is None
    child = subprocess.Popen(["sleep", "60"])
    found = msgspec.structs.replace(own, pid=child.pid, started=process_start_time(child.pid) or "")
    assert has_process_ended(found) is False
    child.kill()
    child.wait()
    assert has_process_ended(found) is True


def test_one_that_cannot_be_seen_is_gone_when_it_is_silent(world: Callable[..., World]) -> None:
    clock = SteppedClock()
    found = world(clock=clock)
    question = Question("q", "s", "a", None, "SCOPE_VIOLATION", "x", "m", expires_at=clock.now() + 500)
    found.approvals.put_question(question, "digest")
    foreign = msgspec.json.encode(msgspec.structs.replace(identify_this_process(), world="pid:[1]"))
    with found.gate.state.transaction() as connection:
        connection.execute("UPDATE approvals SET owner=?", (foreign,))
    clock.advance(5)
    assert found.approvals.close_orphans() == []
    clock.advance(55)
    assert len(found.approvals.close_orphans()) == 1


# -- the state file -----------------------------------------------------------------------------------------


def test_a_state_file_of_an_older_version_keeps_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    old = sqlite3.connect(path)
    old.execute(
        "CREATE TABLE approvals(id TEXT PRIMARY KEY, workspace TEXT, question BLOB, reply BLOB, expires_at REAL,"
        " closed INTEGER DEFAULT 0)"
    )
    clock = SteppedClock()
    question = Question("q", "s", "a", None, "SCOPE_VIOLATION", "x", "m", expires_at=clock.now() + 500)
    row = ("q", str(tmp_path), msgspec.json.encode(question), question.expires_at)
    old.execute("INSERT INTO approvals(id, workspace, question, expires_at) VALUES(?,?,?,?)", row)
    old.execute("PRAGMA user_version=2")
    old.commit()
    old.close()
    for _ in range(2):
        state = State(path, tmp_path)
        assert state.fetch_row("PRAGMA user_version") == (SCHEMA_VERSION,)
        found = QuestionStore(state, clock)
        assert [q.id for q in found.list_open_questions()] == ["q"]
        assert found.close_orphans() == []
        state.close()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (ApprovalReply(False, "not today"), "The person was asked and said no: not today"),
        (ApprovalReply(False), "The person was asked and said no."),
        (ApprovalReply(False, "nobody answered in time", "nobody"), "The person was asked: nobody answered in time"),
    ],
)
def test_after_a_no_the_hint_does_not_ask_the_person_the_same_again(
    world: Callable[..., World], reply: ApprovalReply, said: str
) -> None:
    found = world()
    with found.person(reply) as person:
        answer = found.agent.write("docs/other.md", "x\n")
    assert len(person.asked) == 1
    reason = answer["permissionDecisionReason"]
    assert said in reason
    assert "request_scope_expansion" not in reason
    assert "Do: choose_another_path" in reason
