"""Lines of a notebook cell that a tool edits are the agent's, in whatever form the tool saves the notebook."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from gate.driving import Agent, governed, records
from gate.effects.test_command_lines import unproved
from provenance.test_blame import ME, blame
from remit.adapters import parse
from remit.core.call import BeforeCall
from remit.core.diff.notebooks import CellEdit

PATH = "src/n.ipynb"
SOURCE = "import math\nradius = 3\nprint(math.pi * radius ** 2, 'größe')"


def cell(name: str, source: list[str], **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"cell_type": "code", "execution_count": None, "id": name, "metadata": {}, "outputs": []}
    return {**found, "source": source, **more}


def notebook(*cells: dict[str, Any], **form: Any) -> str:
    found: dict[str, Any] = {"cells": list(cells), "metadata": {"kernelspec": {"name": "python3"}}}
    options: dict[str, Any] = {"indent": 1, "ensure_ascii": False, **form}
    return json.dumps({**found, "nbformat": 4, "nbformat_minor": 5}, **options) + "\n"


def as_lines(source: str) -> list[str]:
    return source.splitlines(keepends=True)


PERSONS = cell("c1", as_lines("import sys\nsys.exit(3)\n"))
OLD = cell("c2", as_lines("x = 1\n"))


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    (repository / PATH).write_text(notebook(PERSONS, OLD))
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "old")
    found = Agent(governed(repository), home)
    found.select()
    return found


def edited(agent: Agent, after: str, **arguments: str) -> dict[str, list[list[int]] | None]:
    """A NotebookEdit that leaves this file; what its record leaves open."""
    given = {"notebook_path": str(agent.cwd / PATH), "new_source": SOURCE, **arguments}
    before = agent.ask("NotebookEdit", **given)
    (agent.cwd / PATH).write_text(after)
    agent.tell("NotebookEdit", before["call_id"], **given)
    return unproved(records(agent.cwd, "mutation")[-1])


def agents_lines(agent: Agent) -> list[str]:
    return [line.content.strip() for line in blame(agent.cwd, PATH) if line.session_id == ME]


JSON_LINES = [json.dumps(line, ensure_ascii=False) for line in as_lines(SOURCE)]
FORMS: list[dict[str, Any]] = [{}, {"sort_keys": True}, {"indent": 2}, {"indent": "\t"}, {"ensure_ascii": True}]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_each_line_of_a_replaced_cell_is_the_agents(agent: Agent, form: dict[str, Any]) -> None:
    (agent.cwd / PATH).write_text(notebook(PERSONS, OLD, **form))
    run_git(agent.cwd, "commit", "-qam", "form", "--allow-empty")
    after = notebook(PERSONS, cell("c2", as_lines(SOURCE)), **form)
    assert edited(agent, after, cell_id="c2") == {PATH: None}
    written = [json.dumps(line, ensure_ascii=form.get("ensure_ascii", False)) for line in as_lines(SOURCE)]
    assert agents_lines(agent) == [f"{written[0]},", f"{written[1]},", written[2]]
    assert {line.grade for line in blame(agent.cwd, PATH) if line.session_id} == {"exact"}


def test_of_an_inserted_cell_its_drawn_name_is_the_agents_too(agent: Agent) -> None:
    drawn = cell("d166c508", as_lines(SOURCE))
    assert edited(agent, notebook(PERSONS, drawn, OLD), cell_id="c1", edit_mode="insert") == {PATH: None}
    assert '"id": "d166c508",' in agents_lines(agent)


@pytest.mark.parametrize("cell_id", ["c2", "cell-1"])
def test_what_a_person_does_to_another_cell_meanwhile_is_not(agent: Agent, cell_id: str) -> None:
    persons = cell("c1", as_lines("import sys\nsys.exit('the person typed this')\n"))
    edited(agent, notebook(persons, cell("c2", as_lines(SOURCE))), cell_id=cell_id)
    assert agents_lines(agent) == [f"{JSON_LINES[0]},", f"{JSON_LINES[1]},", JSON_LINES[2]]


def test_nor_is_what_the_person_puts_into_the_same_cell(agent: Agent) -> None:
    lines = as_lines(SOURCE)
    after = [lines[0], "the_person_typed_this = 1\n", *lines[1:]]
    edited(agent, notebook(PERSONS, cell("c2", after)), cell_id="c2")
    assert agents_lines(agent) == [f"{JSON_LINES[0]},", f"{JSON_LINES[1]},", JSON_LINES[2]]


def test_nor_a_cell_or_its_outputs_that_the_person_adds(agent: Agent) -> None:
    output = {"name": "stdout", "output_type": "stream", "text": ["persons output\n"]}
    persons = cell("c9", as_lines("the_person_typed_this = 1\n"))
    after = notebook(persons, PERSONS, cell("c2", as_lines(SOURCE), outputs=[output], execution_count=7))
    edited(agent, after, cell_id="c2")
    assert agents_lines(agent) == [f"{JSON_LINES[0]},", f"{JSON_LINES[1]},", JSON_LINES[2]]


@pytest.mark.parametrize("after", ["", "[]", '{"cells": [[]]}', '{"cells": 1}', '{"cells": ["x"]}', "[" * 5000])
def test_a_file_that_is_no_notebook_any_more_breaks_nothing(agent: Agent, after: str) -> None:
    edited(agent, after, cell_id="c2")
    assert agents_lines(agent) == []


def test_each_line_of_several_edits_at_once_is_the_agents(agent: Agent) -> None:
    (agent.cwd / "src/app.py").write_text("import os\n\nfirst = 1\nagain = 1\n")
    run_git(agent.cwd, "commit", "-qam", "app")
    agent.read("src/app.py")
    steps = [
        {"old_string": "import os\n", "new_string": "import os\nimport sys\n"},
        {"old_string": "1", "new_string": "len(sys.argv)", "replace_all": True},
    ]
    given: dict[str, Any] = {"file_path": "src/app.py", "edits": steps}
    before = agent.ask("MultiEdit", **given)
    text = "import os\nimport sys\n\nfirst = len(sys.argv)\nagain = len(sys.argv)\n"
    (agent.cwd / "src/app.py").write_text(text + "persons = 1\n")
    agent.tell("MultiEdit", before["call_id"], **given)
    assert [line.session_id for line in blame(agent.cwd, "src/app.py")] == [None, ME, None, ME, ME, None]


def test_qwens_tool_has_the_same_arguments() -> None:
    given = {"notebook_path": "/w/n.ipynb", "cell_id": "c1", "new_source": "x", "edit_mode": "insert"}
    payload = {"session_id": "s", "cwd": "/w", "hook_event_name": "PreToolUse", "tool_name": "notebook_edit"}
    event = parse("qwen", json.dumps({**payload, "tool_input": given}).encode())
    assert isinstance(event, BeforeCall)
    assert event.call.edit == CellEdit("x", "c1", None, "insert")
