"""Reapplied lines keep their authors, and a copy takes nothing from its original."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, allowed, uncontained
from provenance.test_blame import blame, commit, sessions

ME = "session-1"
PATH = "src/stored.py"
BLOCK_LINES = [
    "import os",
    "",
    "def kept_for_long(first, second):",
    "    return first.compare(second)",
    "    # nothing more to say",
    "",
    "def told_by_another(value):",
    "    print(value)",
    "",
]
BLOCK = [
    "def gathered_totals(invoices):",
    "    subtotal = sum_of_invoices(invoices, 17)",
    "    rounding = subtotal.rounded_to(2)",
    "    return rounding",
]
MORE = ["OTHER_WORK = compute_other_work(91)"]


def text(*parts: list[str]) -> str:
    return "".join(f"{line}\n" for part in parts for line in part)


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    (repository / PATH).write_text(text(BLOCK_LINES))
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "long ago")
    found = uncontained(repository, home)
    commit(repository)
    found.read(PATH)
    return found


def write_parts(agent: Agent, *parts: list[str]) -> None:
    agent.read(PATH)
    assert allowed(agent.write(PATH, text(*parts)))


@pytest.mark.parametrize("own", [[], ["PERSONS_OWN = set_by_a_person(5)"]])
def test_a_stash_popped_onto_other_work_keeps_its_authors(agent: Agent, own: list[str]) -> None:
    write_parts(agent, BLOCK_LINES, BLOCK)
    (agent.cwd / PATH).write_text(text(BLOCK_LINES, BLOCK, own))
    run_git(agent.cwd, "stash")
    write_parts(agent, MORE, BLOCK_LINES)
    commit(agent.cwd)
    run_git(agent.cwd, "stash", "pop")
    agent.shell("true")
    expected = [ME, *[None] * len(BLOCK_LINES), *[ME] * len(BLOCK), *[None] * len(own)]
    assert sessions(agent.cwd, PATH) == expected
    write_parts(agent, MORE, BLOCK_LINES, BLOCK, own, ["LAST_OF_ALL = put_below_everything(3)"])
    commit(agent.cwd)
    assert sessions(agent.cwd, PATH) == [*expected, ME]


def test_an_agent_that_pops_a_stash_leaves_every_line_to_its_author(agent: Agent) -> None:
    own = ["PERSONS_OWN = set_by_a_person(5)"]
    write_parts(agent, BLOCK, BLOCK_LINES)
    (agent.cwd / PATH).write_text(text(BLOCK, BLOCK_LINES, own))
    agent.shell("git stash push -q")
    agent.shell("git stash pop -q")
    assert sessions(agent.cwd, PATH) == [*[ME] * len(BLOCK), *[None] * len(BLOCK_LINES), None]


def test_a_persons_text_after_a_discarded_proposal_is_not_a_reapplied_one(agent: Agent) -> None:
    write_parts(agent, BLOCK_LINES, BLOCK)
    run_git(agent.cwd, "checkout", "--", PATH)
    write_parts(agent, MORE, BLOCK_LINES)
    own = [BLOCK[0], "    return invoices.total_of_their_own()", "    return rounding"]
    (agent.cwd / PATH).write_text(text(MORE, BLOCK_LINES, own))
    agent.shell("true")
    assert sessions(agent.cwd, PATH) == [ME, *[None] * len(BLOCK_LINES), None, None, None]


def test_a_copy_that_git_distinguishes_leaves_the_original_to_its_author(agent: Agent) -> None:
    copied = BLOCK_LINES[2:5]
    old, new = text(BLOCK_LINES[1:3]), text(BLOCK_LINES[1:2], copied, BLOCK_LINES[2:3])
    patch = {"oldStart": 3, "oldLines": 0, "newStart": 3, "newLines": 3, "lines": [f"+{line}" for line in copied]}
    given = {"file_path": PATH, "old_string": old, "new_string": new}
    before = agent.ask("Edit", **given)
    (agent.cwd / PATH).write_text(text(BLOCK_LINES).replace(old, new))
    agent.tell("Edit", before["call_id"], {"filePath": PATH, "structuredPatch": [patch]}, **given)
    commit(agent.cwd)
    assert sessions(agent.cwd, PATH) == [None, None, ME, ME, ME, *[None] * (len(BLOCK_LINES) - 2)]
    assert {line.grade for line in blame(agent.cwd, PATH)} == {None, "payload"}


def test_lines_that_an_agent_indents_are_not_its_own_after_the_indentation_is_reverted(agent: Agent) -> None:
    indented = [f"    {line}" if line else line for line in BLOCK_LINES[2:5]]
    write_parts(agent, BLOCK_LINES[:2], indented, BLOCK_LINES[5:])
    commit(agent.cwd)
    run_git(agent.cwd, "revert", "--no-edit", "HEAD")
    assert sessions(agent.cwd, PATH) == [None] * len(BLOCK_LINES)


def test_lines_that_a_person_restores_after_an_agents_indentation_are_not_the_agents(agent: Agent) -> None:
    person = BLOCK
    (agent.cwd / PATH).write_text(text(BLOCK_LINES, person))
    commit(agent.cwd)
    indented = ["if True:", *[f"    {line}" for line in person]]
    write_parts(agent, BLOCK_LINES, indented, MORE)
    commit(agent.cwd)
    assert sessions(agent.cwd, PATH)[len(BLOCK_LINES) :] == [ME] * 6
    (agent.cwd / PATH).write_text(text(BLOCK_LINES, ["OTHERWISE = decided_by_a_person(3)"], person, MORE))
    assert sessions(agent.cwd, PATH)[len(BLOCK_LINES) :] == [None] * 5 + [ME]
