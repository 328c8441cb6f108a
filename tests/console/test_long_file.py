"""A long file on the page Code: its beginning is shown as the whole file would be, before the whole is parsed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import run_git
from console.console_world import Browser, serving
from gate.driving import Agent, governed
from remit.console.highlight import find_spans
from remit.console.pages.code import HEAD_LINES, LINES_SHOWN
from remit.console.server import ConsoleServer
from remit.core.code.grammars import parse_tree
from remit.workspace.place.workspace import register_repository, workspace_at

LINES = 4 * HEAD_LINES
TEXT = "class Long:\n" + "".join(f"    def f{n}(self):\n        return 'a'  # {n}\n" for n in range(LINES // 2))


@pytest.fixture
def server(repository: Path, home: Path) -> Iterator[ConsoleServer]:
    governed(repository)
    (repository / "src" / "long.py").write_text(TEXT)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "long")
    register_repository(home, workspace_at(repository, repository))
    with serving(Agent(repository, home).home) as found:
        yield found


@pytest.mark.parametrize("start", [0, 600, 2 * HEAD_LINES])
def test_a_window_has_the_highlighting_of_the_whole_file(repository: Path, server: ConsoleServer, start: int) -> None:
    browser = Browser(server)
    browser.pair()
    page = browser.get(f"/r/{repository.name}/code/src/long.py.json?from={start}").data
    root = parse_tree("python", TEXT.encode(), allow_errors=True)
    assert root is not None
    whole = find_spans(root, start, start + LINES_SHOWN - 1)
    shown = {line["number"] - 1: [tuple(span) for span in line["spans"]] for line in page["lines"]}
    assert {row: spans for row, spans in shown.items() if spans} == whole


def test_the_beginning_is_parsed_without_the_rest(repository: Path, server: ConsoleServer) -> None:
    browser = Browser(server)
    browser.pair()
    assert browser.get(f"/r/{repository.name}/code/src/long.py").status == 200
    (kept,) = server.console.repositories.highlighter.trees.values()
    assert kept.size < len(TEXT) / 2
