"""Lessons reach the next session, and the files they are in stay people's."""

import threading
from pathlib import Path

import pytest

from gate.driving import Agent, body, governed, machine, records, said
from remit.core.call import SessionKey
from remit.core.record import make_uuid7
from remit.gate.gate import Gate
from remit.gate.governing.settings import govern_workspace
from remit.gate.intents.lessons import (
    LessonError,
    LessonsWriter,
    TodoItem,
    find_relevant_lessons,
    read_lessons,
    read_todo_lists,
)
from remit.workspace.agents.marked_blocks import BrainEntry, format_block

ONE = SessionKey("s1")


def writer(root: Path, home: Path) -> tuple[Gate, LessonsWriter]:
    gate = Gate.open(root, machine(home))
    return gate, LessonsWriter(gate)


def test_a_lesson_stands_in_the_file_the_ledger_and_the_next_context(repository: Path, home: Path) -> None:
    gate, lessons = writer(governed(repository), home)
    gate.intents.select(ONE, "a", "INT-001")
    lessons.record_lesson(
        ONE, "a", BrainEntry("lesson", "use tabs", problem="spaces broke make", paths=("src/app.py",))
    )
    text = (repository / ".orchestration" / "AGENT.md").read_text()
    assert "**Intent:** INT-001\n**File:** src/app.py\n**Lesson:** use tabs\n**Problem:** spaces broke make\n" in text
    [record] = [body(r) for r in records(repository, "lesson")]
    assert (record["lesson"]["kind"], record["intent_id"], record["session_id"]) == ("lesson", "INT-001", "s1")
    assert '<lesson kind="lesson">use tabs' in gate.intents.format_block(gate.intents.get("INT-001"))
    assert "<lessons>" not in gate.intents.format_block(gate.intents.get("INT-002"))


def test_the_newest_five_that_touch_the_scope_are_told(repository: Path, home: Path) -> None:
    gate, lessons = writer(governed(repository), home)
    for number in range(7):
        lessons.record_lesson(None, "person", BrainEntry("lesson", f"number {number}", paths=("src/x.py",)))
    lessons.record_lesson(None, "person", BrainEntry("decision", "elsewhere", paths=("docs/x.md",)))
    found = find_relevant_lessons(gate.workspace, gate.intents.get("INT-001"))
    assert [one.text.split(" (")[0] for one in found] == [f"number {n}" for n in (6, 5, 4, 3, 2)]


def test_secrets_do_not_reach_the_file(repository: Path, home: Path) -> None:
    gate, lessons = writer(governed(repository), home)
    lessons.record_lesson(ONE, "a", BrainEntry("lesson", "set password=hunter2hunter2 first"))
    assert "hunter2" not in (repository / ".orchestration" / "AGENT.md").read_text()
    assert b"hunter2" not in b"".join(p.read_bytes() for p in gate.workspace.log_folder.iterdir())


def test_an_empty_lesson_is_refused(repository: Path, home: Path) -> None:
    _, lessons = writer(governed(repository), home)
    with pytest.raises(LessonError, match="empty"):
        lessons.record_lesson(ONE, "a", BrainEntry("lesson", " \u200b\n"))
    assert not (repository / ".orchestration" / "AGENT.md").exists()


def test_bytes_that_are_no_text_stay_as_they_are(repository: Path, home: Path) -> None:
    gate, lessons = writer(governed(repository), home)
    (repository / ".orchestration" / "remit.toml").write_text('mode = "enforce"\n[lessons]\nfile = "CLAUDE.md"\n')
    people = b"# Rules\r\n\xff\xfe no newline at the end"
    (repository / "CLAUDE.md").write_bytes(people)
    lessons.record_lesson(ONE, "a", BrainEntry("constraint", "never push"))
    assert (repository / "CLAUDE.md").read_bytes().startswith(people + b"\n\n<!-- remit:constraint ")
    assert [e.lesson for e in read_lessons(gate.workspace)] == ["never push"]


def test_a_link_to_what_governs_is_not_followed(repository: Path, home: Path) -> None:
    gate, lessons = writer(governed(repository), home)
    (repository / ".orchestration" / "remit.toml").write_text('mode = "enforce"\n[lessons]\nfile = "CLAUDE.md"\n')
    (repository / "CLAUDE.md").symlink_to(".orchestration/active_intents.yaml")
    before = gate.workspace.intents_path.read_bytes()
    with pytest.raises(LessonError, match="is a link"):
        lessons.record_lesson(ONE, "a", BrainEntry("lesson", "x"))
    assert gate.workspace.intents_path.read_bytes() == before
    (repository / "CLAUDE.md").unlink()
    (repository / "AGENTS.md").write_text("# Agents\n")
    (repository / "CLAUDE.md").symlink_to("AGENTS.md")
    lessons.record_lesson(ONE, "a", BrainEntry("lesson", "x"))
    assert (repository / "CLAUDE.md").is_symlink()
    assert "**Lesson:** x" in (repository / "AGENTS.md").read_text()


def test_a_folder_that_is_gone_is_not_made_again(repository: Path, home: Path) -> None:
    gate, lessons = writer(governed(repository), home)
    gate.notice_rules(gate.rules)
    (repository / ".orchestration").rename(repository / "elsewhere")
    with pytest.raises(LessonError, match="missing"):
        lessons.record_lesson(ONE, "a", BrainEntry("lesson", "x"))
    assert not (repository / ".orchestration").exists()


def test_writers_at_once_lose_nothing(repository: Path, home: Path) -> None:
    root = governed(repository)

    def write(name: str) -> None:
        _, lessons = writer(root, home)
        for number in range(5):
            lessons.record_lesson(SessionKey(name), "a", BrainEntry("lesson", f"{name} {number}"))

    threads = [threading.Thread(target=write, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {e.lesson for e in read_lessons(Gate.open(root).workspace)}
    assert found == {f"t{n} {k}" for n in range(4) for k in range(5)}


def test_what_is_written_down_already_is_not_written_again(repository: Path, home: Path) -> None:
    """The hook writes an agent's lesson; its shell then runs the command, maybe where no agent is to be seen."""
    gate, lessons = writer(governed(repository), home)
    session = SessionKey("session-1")
    gate.intents.select(session, "claude-code", "INT-001")
    first = lessons.record_lesson(session, "claude-code", BrainEntry("lesson", "use tabs", problem="make broke"))
    assert first.intent_id == "INT-001"
    assert lessons.record_lesson(None, "person", BrainEntry("lesson", " use  tabs", problem="make broke")) == first
    assert (
        lessons.record_lesson(session, "claude-code", BrainEntry("lesson", "use tabs", problem="make broke")) == first
    )
    assert [e.id for e in read_lessons(gate.workspace)] == [first.id]
    assert len(records(repository, "lesson")) == 1
    other = lessons.record_lesson(
        SessionKey("session-2"), "codex", BrainEntry("lesson", "use tabs", problem="make broke")
    )
    assert other.intent_id is None
    lessons.record_lesson(session, "claude-code", BrainEntry("decision", "use tabs", problem="make broke"))
    assert len(read_lessons(gate.workspace)) == 3


def test_a_person_says_for_all_what_was_learned_under_one_intent_long_ago(repository: Path, home: Path) -> None:
    gate, lessons = writer(governed(repository), home)
    old = BrainEntry("lesson", "use tabs", id=make_uuid7(1, b"0123456789"), date="2026-01-01", intent_id="INT-001")
    (repository / ".orchestration" / "AGENT.md").write_text(format_block(old))
    lessons.record_lesson(None, "person", BrainEntry("lesson", "use tabs"))
    assert [e.intent_id for e in read_lessons(gate.workspace)] == ["INT-001", None]


def test_each_session_has_one_block_of_todos(repository: Path, home: Path) -> None:
    gate, lessons = writer(governed(repository), home)
    odd = SessionKey("<!-- /remit -->\n", "sub")
    lessons.write_todo(ONE, "claude-code", [TodoItem("read", "done"), TodoItem("write --> it", "in_progress")])
    lessons.write_todo(odd, "codex", [TodoItem("other")])
    lessons.write_todo(ONE, "claude-code", [TodoItem("ship")])
    [(first, mine), (second, other)] = read_todo_lists(gate.workspace)
    assert (first, mine) == ("s1", "## claude-code, no intent\n- [ ] ship")
    assert (len(second), other.splitlines()[1]) == (32, "- [ ] other")
    lessons.write_todo(odd, "codex", [])
    assert [name for name, _ in read_todo_lists(gate.workspace)] == ["s1"]


def test_without_an_orchestration_folder_of_its_own_a_fresh_workspace_writes_there(tmp_path: Path, home: Path) -> None:
    (tmp_path / ".orchestration").mkdir()
    gate = Gate.open(tmp_path, machine(home))
    govern_workspace(gate.workspace)
    LessonsWriter(gate).record_lesson(None, "person", BrainEntry("lesson", "x"))
    assert [e.lesson for e in read_lessons(gate.workspace)] == ["x"]


def test_a_session_that_begins_is_told_of_the_lists_that_wait(repository: Path, home: Path) -> None:
    governed(repository)
    agent = Agent(repository, home)
    agent.ask("Bash", command="remit todo '[x] read' '[~] write the parser' 'ship <it>'")
    told = started(agent, "resume")
    assert "your list in .orchestration/TODO.md has 2 open items:\n- [~] write the parser\n- [ ] ship <it>" in told
    other = Agent(repository, home, session="session-2")
    assert "TODO.md holds open items of other sessions: session-1 (2). Read it" in started(other, "startup")
    agent.ask("Bash", command="remit todo '[x] read' '[x] write' '[x] ship'")
    assert "TODO.md" not in started(other, "startup")
    assert "TODO.md" not in started(agent, "resume")


def test_in_observe_no_list_is_told(repository: Path, home: Path) -> None:
    governed(repository, "observe")
    agent = Agent(repository, home)
    agent.ask("Bash", command="remit todo 'write'")
    assert "TODO.md" not in started(agent, "resume")


def started(agent: Agent, source: str) -> str:
    """What the session is told when it begins."""
    return str(said(agent.send("SessionStart", source=source)).get("additionalContext", ""))
