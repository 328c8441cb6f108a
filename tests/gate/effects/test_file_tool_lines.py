"""What changes in a file while a file tool is under way is the tool's only as far as its arguments tell."""

from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from gate.driving import Agent, governed, records
from gate.effects.test_command_lines import unproved
from provenance.test_blame import ME, sessions
from remit.adapters.claude import parse
from remit.core.agents import ROWS
from remit.core.call import AfterCall
from remit.core.diff.contents import diff_small
from remit.gate.effects.own_lines import count_added_lines, find_own_lines

OLD = "def measured(rows):\n    return sum(rows)\n\n\ndef counted(rows):\n    return len(rows)\n"
EDIT = {"old_string": "    return sum(rows)\n", "new_string": "    total_margin = sum(rows)\n    return total_margin\n"}
NEW = OLD.replace(EDIT["old_string"], EDIT["new_string"])
PERSONS = "the_person_typed_this = 1\n"
PATH = "src/app.py"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent under INT-001, who is about to change a committed file."""
    (repository / PATH).write_text(OLD)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "old")
    found = Agent(governed(repository), home)
    found.select()
    found.send("SessionStart", source="startup")
    return found


def save(agent: Agent, text: str) -> None:
    (agent.cwd / PATH).write_text(text)


def edited(agent: Agent, *texts: str, response: Any = None, **more: str) -> dict[str, list[list[int]] | None]:
    """An Edit while which the file holds one text after the other; what the newest record leaves open."""
    arguments = {"file_path": PATH, **EDIT, **more}
    before = agent.ask("Edit", **{**arguments, **EDIT})
    for text in texts:
        save(agent, text)
    agent.tell("Edit", before["call_id"], response, **arguments)
    return unproved(records(agent.cwd, "mutation")[-1])


def test_what_the_arguments_make_of_the_file_is_the_agents(agent: Agent) -> None:
    assert edited(agent, NEW) == {PATH: None}
    assert sessions(agent.cwd, PATH)[1:3] == [ME, ME]


@pytest.mark.parametrize("between", [(OLD + PERSONS,), ()], ids=["before the tool wrote", "after it"])
def test_a_person_who_saves_the_file_meanwhile_is_not_the_agent(agent: Agent, between: tuple[str, ...]) -> None:
    assert edited(agent, *between, NEW + PERSONS) == {PATH: [[8, 8]]}
    assert sessions(agent.cwd, PATH) == [None, ME, ME, *[None] * 5]


def test_nor_are_their_lines_between_the_agents(agent: Agent) -> None:
    own = NEW.replace("    return total_margin", "    persons_log(total_margin)\n    return total_margin")
    assert edited(agent, own) == {PATH: [[3, 3]]}


def test_an_empty_line_that_a_person_puts_in_meanwhile_is_not(agent: Agent) -> None:
    assert edited(agent, NEW, NEW.replace("def counted", "\ndef counted")) == {PATH: [[4, 4]]}


def test_of_a_call_that_failed_nothing_is_the_agents(agent: Agent) -> None:
    before = agent.ask("Edit", file_path=PATH, **EDIT)
    save(agent, OLD.replace("sum(rows)", "persons_sum(rows)"))
    agent.send(
        "PostToolUseFailure",
        tool_name="Edit",
        tool_input={"file_path": PATH, **EDIT},
        tool_use_id=before["call_id"],
        error="String to replace not found in file.",
    )
    assert unproved(records(agent.cwd, "mutation")[-1]) == {PATH: [[2, 2]]}


@pytest.mark.parametrize(("left", "found"), [(NEW, None), (OLD + PERSONS, [[7, 7]]), (NEW + PERSONS, [[2, 3], [8, 8]])])
def test_of_one_that_never_came_back_what_it_was_going_to_leave_is(
    agent: Agent, left: str, found: list[list[int]] | None
) -> None:
    agent.ask("Edit", file_path=PATH, **EDIT)
    save(agent, left)
    agent.send("SessionEnd", reason="other")
    assert unproved(records(agent.cwd, "mutation")[-1]) == {PATH: found}


def test_what_an_editor_lays_out_anew_is_still_the_agents(agent: Agent) -> None:
    assert edited(agent, NEW.replace("total_margin = sum(rows)", "total_margin=sum( rows )")) == {PATH: None}


def test_a_persons_line_in_another_layout_is_not(agent: Agent) -> None:
    assert edited(agent, NEW.replace("return len(rows)", "return len( rows )")) == {PATH: [[7, 7]]}


def test_a_proposal_that_a_person_changed_first_is_the_agents_but_for_that(agent: Agent) -> None:
    left = NEW.replace("    return total_margin", "    persons_log(total_margin)\n    return total_margin")
    assert edited(agent, left, response={"userModified": True}) == {PATH: [[3, 3]]}


def test_where_the_arguments_were_changed_too_nobody_can_tell(agent: Agent) -> None:
    new = "    total_margin = sum(rows)\n    persons_log(total_margin)\n    return total_margin\n"
    left = OLD.replace(EDIT["old_string"], new)
    assert edited(agent, left, response={"userModified": True}, new_string=new) == {PATH: [[2, 4]]}


def test_two_calls_that_were_asked_for_at_once_each_have_their_own(agent: Agent) -> None:
    other = {"file_path": PATH, "old_string": "len(rows)", "new_string": "agents_count(rows)"}
    first, second = agent.ask("Edit", file_path=PATH, **EDIT), agent.ask("Edit", **other)
    save(agent, NEW)
    agent.tell("Edit", first["call_id"], file_path=PATH, **EDIT)
    save(agent, NEW.replace("len(rows)", "agents_count(rows)"))
    agent.tell("Edit", second["call_id"], **other)
    assert [unproved(record) for record in records(agent.cwd, "mutation")] == [{PATH: None}, {PATH: None}]
    assert sessions(agent.cwd, PATH) == [None, ME, ME, None, None, None, ME]


def test_so_they_have_where_both_had_written_before_either_was_told(agent: Agent) -> None:
    other = {"file_path": PATH, "old_string": "len(rows)", "new_string": "agents_count(rows)"}
    first, second = agent.ask("Edit", file_path=PATH, **EDIT), agent.ask("Edit", **other)
    save(agent, NEW.replace("len(rows)", "agents_count(rows)") + PERSONS)
    agent.tell("Edit", first["call_id"], file_path=PATH, **EDIT)
    agent.tell("Edit", second["call_id"], **other)
    assert unproved(records(agent.cwd, "mutation")[-1]) == {PATH: [[8, 8]]}
    assert sessions(agent.cwd, PATH) == [None, ME, ME, None, None, None, ME, None]


def test_what_a_person_wrote_in_their_editor_is_told_by_the_arguments() -> None:
    payload = (
        b'{"hook_event_name":"PostToolUse","session_id":"s","cwd":"/","tool_name":"write_file","tool_use_id":"c",'
        b'"tool_input":{"file_path":"/a","content":"a\\nb\\n","ai_proposed_content":"a\\n","modified_by_user":true}}'
    )
    event = parse(ROWS["qwen"], payload)
    assert isinstance(event, AfterCall)
    assert event.call.proposal == "a\n"


LINES: list[tuple[str, str, str, list[int]]] = [
    ("a\nb\n", "a\nx\nb\n", "a\nx\nb\n", [2]),
    ("a\nb\n", "a\nx\nb\n", "p\na\nx\nb\np\n", [3]),
    ("a\nb\n", "a\nf(x, y)\nb\n", "a\nf(\n  x,\n  y,\n)\nb\n", [2, 3, 4, 5]),
    ("a\nb\n", "a\nx\nb\n", "a\nb\n", []),
    ("a\nb\n", "a\nx\ny\nb\n", "a\nx\np\ny\nb\n", [2, 4]),
    ("", "x\ny\n", "x\nz\n", [1]),
    ("a b\n", "a b\nx\n", "ab\nx\n", [2]),
]


@pytest.mark.parametrize(("before", "told", "after", "found"), LINES)
def test_own_lines_are_those_that_the_call_would_have_put_there(
    before: str, told: str, after: str, found: list[int]
) -> None:
    own = find_own_lines(before.encode(), told.encode(), after.encode(), lambda a, b: diff_small(a, b) or ())
    assert list(own) == found


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "utf-8-sig", "shift_jis"])
def test_a_tool_that_keeps_the_encoding_of_a_file_wrote_what_it_was_told(agent: Agent, encoding: str) -> None:
    sign = "語" if encoding == "shift_jis" else "é"
    text = NEW.replace("total", f"t{sign}tal")
    arguments = {"file_path": PATH, "content": text}
    agent.read(PATH)
    before = agent.ask("Write", **arguments)
    (agent.cwd / PATH).write_bytes(text.encode(encoding))
    agent.tell("Write", before["call_id"], **arguments)
    [left] = unproved(records(agent.cwd, "mutation")[-1]).values()
    assert not any(first <= number <= last for first, last in left or () for number in (2, 3))


@pytest.mark.parametrize("more", [b"", b"the_person_typed_this = 1\n"], ids=["the call's alone", "and a person's"])
def test_of_two_places_that_a_patch_may_mean_its_tool_may_have_taken_the_other(more: bytes) -> None:
    one, two, own = b"def one():\n    return 0\n", b"def two():\n    return 0\n", b"def own():\n    return 1\n"
    before, told, after = one + two, one + own + two, one + two + own + more
    same = count_added_lines(told, diff_small(before, told) or ()) == count_added_lines(
        after, diff_small(before, after) or ()
    )
    assert same == (not more)
