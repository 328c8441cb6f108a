"""Every act of a person is one of a closed list, and one place judges who asks."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.console.routes import WRITES
from remit.core.acts import Act
from sources import list_modules, name_source

ASKING = {"require_person", "require_terminal"}
JUDGING = {"PeerGrade", "Judgement"}


def read_modules(word: str) -> Iterator[tuple[Path, ast.AST]]:
    """Yield the modules that hold the word, with each of their nodes."""
    for path in list_modules():
        text = path.read_text("utf-8")
        if word in text:
            yield from ((path, node) for node in ast.walk(ast.parse(text)))


def list_calls(name: set[str]) -> list[tuple[Path, ast.Call]]:
    return [
        (path, node)
        for path, node in read_modules("require_")
        if path.name != "person_only.py"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in name
    ]


def find_acts(node: ast.AST) -> list[str]:
    return [
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "Act"
    ]


def test_each_command_for_people_names_its_act() -> None:
    calls = list_calls(ASKING)
    assert len(calls) > 40
    assert [f"{path.name}:{call.lineno}" for path, call in calls if not find_acts(call)] == []


def test_each_act_is_asked_for_somewhere() -> None:
    modules = (node for _, node in read_modules("Act.") if isinstance(node, ast.Module))
    used = {act for module in modules for act in find_acts(module)} - {"__members__"}
    assert used == set(Act.__members__)


def test_no_two_acts_are_the_same() -> None:
    assert len({act.words for act in Act}) == len(Act.__members__) == len(list(Act))


def test_each_writing_action_of_a_page_names_its_act() -> None:
    assert all(isinstance(write.permits, Act) for write in WRITES)


@pytest.mark.parametrize("name", sorted(JUDGING))
def test_only_the_authority_judges(name: str) -> None:
    users = {name_source(path) for path, node in read_modules(name) if isinstance(node, ast.Name) and node.id == name}
    assert users == {"servers/authority.py"}
