"""Moved, reindented and wrapped lines keep their author; copies and a person's lines do not gain one."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, governed
from provenance.test_blame import blame, commit

ME = "session-1"

BLOCK = """\
def compute_total(items, discount):
    total = sum(item.price for item in items)
    return total - discount
"""
HUMAN = "import decimal\n\nGREETING = 'hello there'\nFAREWELL = 'see you later'\n"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    (repository / "src" / "human.py").write_text(HUMAN)
    commit(repository)
    return found


def origins(root: Path, path: str) -> list[tuple[str | None, str | None]]:
    return [(line.session_id, line.grade) for line in blame(root, path)]


def test_a_block_that_a_person_moves_in_its_file_stays_the_agents(agent: Agent) -> None:
    path = agent.cwd / "src/human.py"
    agent.read("src/human.py")
    agent.write("src/human.py", BLOCK + HUMAN)
    commit(agent.cwd)
    path.write_text(HUMAN + BLOCK)
    assert (
        origins(agent.cwd, "src/human.py")[4:] == [(ME, "moved")] * 3
        or [who for who, _ in origins(agent.cwd, "src/human.py")] == [None] * 4 + [ME] * 3
    )
    commit(agent.cwd)
    assert [who for who, _ in origins(agent.cwd, "src/human.py")] == [None] * 4 + [ME] * 3


def test_a_block_that_a_person_moves_to_another_file_stays_the_agents(agent: Agent) -> None:
    agent.write("src/new.py", BLOCK + "\n\nLEFT_BEHIND = compute_total([], 0)\n")
    commit(agent.cwd)
    (agent.cwd / "src/new.py").write_text("LEFT_BEHIND = compute_total([], 0)\n")
    (agent.cwd / "src/human.py").write_text(HUMAN + BLOCK)
    assert [who for who, _ in origins(agent.cwd, "src/human.py")] == [None] * 4 + [ME] * 3
    commit(agent.cwd)
    assert origins(agent.cwd, "src/human.py") == [(None, None)] * 4 + [(ME, "moved")] * 3


def test_a_block_that_a_person_indents_anew_stays_the_agents(agent: Agent) -> None:
    agent.write("src/new.py", BLOCK)
    commit(agent.cwd)
    (agent.cwd / "src/new.py").write_text("class Till:\n" + "".join(f"    {line}\n" for line in BLOCK.splitlines()))
    commit(agent.cwd)
    assert [who for who, _ in origins(agent.cwd, "src/new.py")] == [None, ME, ME, ME]


def test_a_call_that_a_formatter_wraps_stays_the_agents(agent: Agent) -> None:
    agent.write("src/new.py", "answer = compute_total(first_list, second_discount)\nother = 'x'\n")
    commit(agent.cwd)
    wrapped = 'answer = compute_total(\n    first_list,\n    second_discount,\n)\nother = "x"\n'
    (agent.cwd / "src/new.py").write_text(wrapped)
    commit(agent.cwd)
    assert [who for who, _ in origins(agent.cwd, "src/new.py")] == [ME] * 5


def test_a_line_that_a_person_changes_is_not_the_agents(agent: Agent) -> None:
    agent.write("src/new.py", BLOCK)
    commit(agent.cwd)
    (agent.cwd / "src/new.py").write_text(BLOCK.replace("total - discount", "total * discount"))
    commit(agent.cwd)
    assert [who for who, _ in origins(agent.cwd, "src/new.py")] == [ME, ME, None]


def test_the_same_lines_in_a_persons_file_are_the_persons(agent: Agent) -> None:
    header = "# Copyright 2026 The Example Authors, all rights reserved\n# Licensed under the Example License\n"
    agent.write("src/new.py", header + BLOCK)
    commit(agent.cwd)
    (agent.cwd / "src/second.py").write_text(header + "VALUE = 1\n")
    (agent.cwd / "src/new.py").write_text(header + BLOCK + "MORE = 1\n")
    commit(agent.cwd)
    assert [who for who, _ in origins(agent.cwd, "src/second.py")] == [None] * 3


def test_a_rejected_proposal_leaves_no_claims(agent: Agent) -> None:
    agent.read("src/human.py")
    agent.write("src/human.py", HUMAN + "try:\n    load()\nexcept OSError:\n    pass\n")
    run_git(agent.cwd, "checkout", "--", "src/human.py")
    (agent.cwd / "src/human.py").write_text(HUMAN + "try:\n    fetch()\nexcept OSError:\n    raise\n")
    commit(agent.cwd)
    assert [who for who, _ in origins(agent.cwd, "src/human.py")] == [None] * 8


def test_a_persons_lines_between_two_writes_are_the_persons(agent: Agent) -> None:
    agent.send("SessionStart", source="startup")
    agent.write("src/new.py", BLOCK)
    (agent.cwd / "src/new.py").write_text(BLOCK + "\n\nPERSONAL_CONSTANT = 'typed by hand'\n")
    agent.read("src/new.py")
    agent.write("src/new.py", BLOCK + "\n\nPERSONAL_CONSTANT = 'typed by hand'\nAGENT_CONSTANT = 2\n")
    commit(agent.cwd)
    found = [line.origin for line in blame(agent.cwd, "src/new.py")]
    assert found == ["ai"] * 3 + ["human"] * 3 + ["ai"]


def test_a_stash_that_a_person_takes_back_makes_nothing_theirs(agent: Agent) -> None:
    agent.send("SessionStart", source="startup")
    agent.read("src/human.py")
    agent.write("src/human.py", HUMAN + BLOCK)
    agent.send("Stop")
    run_git(agent.cwd, "stash")
    agent.send("UserPromptSubmit", prompt="look")
    agent.send("Stop")
    run_git(agent.cwd, "stash", "pop")
    with (agent.cwd / "src/human.py").open("a") as file:
        file.write("TYPED_AFTERWARDS = 'by the person'\n")
    agent.send("UserPromptSubmit", prompt="and now")
    commit(agent.cwd)
    found = [line.origin for line in blame(agent.cwd, "src/human.py")]
    assert found[4:7] in (["ai"] * 3, ["unknown"] * 3)
    assert found[7] == "human"


def test_a_block_that_a_person_moves_between_turns_is_not_the_persons(agent: Agent) -> None:
    agent.send("SessionStart", source="startup")
    agent.write("src/new.py", BLOCK + "\n\nLEFT_BEHIND = compute_total([], 0)\n")
    agent.send("Stop")
    (agent.cwd / "src/new.py").write_text("LEFT_BEHIND = compute_total([], 0)\n")
    (agent.cwd / "src/human.py").write_text(HUMAN + BLOCK)
    agent.send("UserPromptSubmit", prompt="and now")
    commit(agent.cwd)
    assert [line.origin for line in blame(agent.cwd, "src/human.py")][4:] == ["ai"] * 3


TRIED = "    except OSError:\n        pass\n    return None\n"


def test_the_common_end_of_a_moved_block_moves_along_despite_equal_lines_at_the_source(agent: Agent) -> None:
    """git takes the end for an older copy, because more consecutive lines agree there."""
    path = agent.cwd / "src/human.py"
    path.write_text("def shut(door):\n    try:\n        door.shut()\n" + TRIED + "\n\n" + HUMAN)
    commit(agent.cwd)
    own = "def measured(wall):\n    height = tape_along(wall, 28)\n    try:\n        wall.note(height)\n" + TRIED
    agent.write("src/new.py", own + "\nLEFT_BEHIND = measured(0)\n")
    commit(agent.cwd)
    (agent.cwd / "src/new.py").write_text("LEFT_BEHIND = measured(0)\n")
    path.write_text(path.read_text() + "\n" + own)
    commit(agent.cwd)
    assert [who for who, _ in origins(agent.cwd, "src/human.py")[13:]] == [ME] * 7


def test_a_common_end_that_stayed_does_not_move_with_the_block(agent: Agent) -> None:
    path = agent.cwd / "src/human.py"
    own = "def measured(wall):\n    try:\n        wall.measured_height()\n"
    agent.write("src/new.py", own + TRIED)
    commit(agent.cwd)
    (agent.cwd / "src/new.py").write_text("def other():\n    try:\n        other()\n" + TRIED)
    path.write_text(HUMAN + "\n" + own + TRIED)
    commit(agent.cwd)
    assert [who for who, _ in origins(agent.cwd, "src/human.py")[8:]] == [None] * 3


def test_a_common_end_from_before_the_block_does_not_move_with_it(agent: Agent) -> None:
    """A person reformats the agent's line together with the tag below, which existed before the agent's line."""
    path = agent.cwd / "src/page.html"
    link, head = (
        '<a href="https://shop.example.org/licence">Buy the printed handbook</a>\n',
        "<p>\n  Welcome.\n</p>\n\n",
    )
    path.write_text(f"{head}<h3>Donate</h3>\n <p>\n     Support the author.\n </p>\n\n<p>Bye.</p>\n")
    commit(agent.cwd)
    agent.read("src/page.html")
    agent.write("src/page.html", f"{head}<h3>Donate</h3>\n <p>\n     {link} </p>\n\n<p>Bye.</p>\n")
    commit(agent.cwd)
    path.write_text(f"{head}<p>\n  {link}</p>\n\n<p>Bye.</p>\n")
    commit(agent.cwd)
    assert [who for who, _ in origins(agent.cwd, "src/page.html")] == [None] * 5 + [ME] + [None] * 3


@pytest.mark.parametrize("later", ["", "    # And one more line.\n"])
def test_a_persons_lines_from_another_branch_did_not_move(agent: Agent, later: str) -> None:
    path, line = agent.cwd / "src/human.py", "    # The redirected request calls both hooks once more.\n"
    parts = [
        f"def test_{name}():\n    hooks = {{}}\n    assert called(hooks, {name!r})\n" for name in ("sync", "async")
    ]
    path.write_text("\n\n".join(parts))
    commit(agent.cwd)
    run_git(agent.cwd, "checkout", "-q", "-b", "other")
    agent.read("src/human.py")
    agent.write("src/human.py", "\n\n".join([parts[0].replace("():\n", f"():\n{line}"), parts[1]]))
    if later:
        agent.write("src/human.py", "\n\n".join([parts[0].replace("():\n", f"():\n{line}{later}"), parts[1]]))
    commit(agent.cwd)
    run_git(agent.cwd, "checkout", "-q", "-")
    path.write_text("\n\n".join([parts[0], parts[1].replace("():\n", f"():\n{line}")]))
    commit(agent.cwd)
    run_git(agent.cwd, "merge", "-q", "--no-ff", "-m", "both", "other")
    agent.read("src/human.py")
    found = [line for line, _ in origins(agent.cwd, "src/human.py")]
    assert found == [None, ME, *[ME] * bool(later), *[None] * 8]


def test_a_copy_in_a_renamed_file_leaves_the_original_to_those_who_had_it(agent: Agent) -> None:
    (agent.cwd / "src/old.py").write_text(BLOCK)
    commit(agent.cwd)
    run_git(agent.cwd, "mv", "src/old.py", "src/new.py")
    commit(agent.cwd)
    agent.read("src/new.py")
    agent.write("src/new.py", BLOCK + "\n\n# The same for the other till.\n" + BLOCK)
    commit(agent.cwd)
    assert [who for who, _ in origins(agent.cwd, "src/new.py")] == [None] * 3 + [ME] * 6


def test_lines_that_a_commit_left_in_the_work_tree_have_not_moved_to_another_file(agent: Agent) -> None:
    agent.write("src/new.py", BLOCK)
    (agent.cwd / "src/human.py").write_text(HUMAN + BLOCK)
    run_git(agent.cwd, "add", "src/human.py")
    run_git(agent.cwd, "commit", "-q", "-m", "a part")
    agent.read("src/new.py")
    assert [who for who, _ in origins(agent.cwd, "src/human.py")] == [None] * 7
    commit(agent.cwd)
    assert [who for who, _ in origins(agent.cwd, "src/human.py")] == [None] * 7


def test_a_single_line_has_the_author_that_the_whole_file_shows(agent: Agent) -> None:
    path = agent.cwd / "src/human.py"
    own = "def measured(wall):\n    height = tape_along(wall, 28)\n    try:\n        wall.note(height)\n" + TRIED
    agent.write("src/new.py", own + "\nLEFT_BEHIND = measured(0)\n")
    commit(agent.cwd)
    (agent.cwd / "src/new.py").write_text("LEFT_BEHIND = measured(0)\n")
    path.write_text("def shut(door):\n    try:\n        door.shut()\n" + TRIED + "\n\n" + HUMAN + "\n" + own)
    commit(agent.cwd)
    whole = blame(agent.cwd, "src/human.py")
    assert [line.session_id for line in whole[-7:]] == [ME] * 7
    alone = [line for n in range(1, len(whole) + 1) for line in blame(agent.cwd, "src/human.py", f"-L{n},{n}")]
    assert [(line.line, line.session_id, line.grade) for line in alone] == [
        (line.line, line.session_id, line.grade) for line in whole
    ]
