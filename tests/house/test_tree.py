"""Rules about the files of the repository themselves."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import run_git
from remit.core.agents import ROWS
from remit.policy.decide import CHECKS

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)")
HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)
MACHINE_PATHS = ("/" + "work/main", "/" + "work/shared", "/" + "root/")


def tracked() -> list[Path]:
    """The files that are, or are about to be, in the repository."""
    listed = run_git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return sorted(p for name in set(listed.split("\0")) - {""} if (p := ROOT / name).is_file())


FILES = tracked()
PYTHON = [p for p in FILES if p.suffix == ".py"]
PAGES = [p for p in FILES if p.suffix == ".md"]


def holding(needles: tuple[str, ...], files: list[Path]) -> list[str]:
    """The files that hold one of these, with the line."""
    return [
        f"{path.relative_to(ROOT)}:{n}: {line.strip()[:100]}"
        for path in files
        for n, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if any(needle in line for needle in needles)
    ]


def test_there_are_files_to_look_at() -> None:
    assert len(PYTHON) > 50
    assert len(PAGES) > 20


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    assert holding(MACHINE_PATHS, FILES) == []


def test_no_test_uses_a_mock() -> None:
    tests = [p for p in PYTHON if "tests" in p.parts and p != Path(__file__)]
    assert holding(("unittest.mock", "monkeypatch.setattr", "pytest_mock"), tests) == []


def test_no_body_is_left_for_later() -> None:
    source = [p for p in PYTHON if "src" in p.parts]
    assert holding(("NotImplementedError", "TODO:", "FIXME", "XXX:"), source) == []


def links(page: Path) -> Iterator[str]:
    """The targets that a page links to, those in code left out."""
    yield from LINK.findall(CODE.sub("", FENCE.sub("", page.read_text("utf-8"))))


def anchors(page: Path) -> set[str]:
    """The addresses of a page's headings, as viewers make them."""
    titles = HEADING.findall(FENCE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def leads_somewhere(page: Path, target: str) -> bool:
    """Whether a link inside the repository names a file there, and a heading of it."""
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    return found.exists() and found.is_relative_to(ROOT) and (not anchor or anchor in anchors(found))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    inside = [target for target in links(page) if "://" not in target and not target.startswith("mailto:")]
    assert [target for target in inside if not leads_somewhere(page, target)] == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    page = ROOT / "README.md"
    assert not leads_somewhere(page, "docs/no-such-page.md")
    assert not leads_somewhere(page, "docs/index.md#no-such-heading")
    assert not leads_somewhere(page, "../elsewhere")
    assert leads_somewhere(page, "docs/index.md#get-it")


def test_every_check_is_in_the_engines_table() -> None:
    folder = ROOT / "src" / "remit" / "policy" / "checks"
    texts = (path.read_text() for path in folder.glob("*.py"))
    functions = {name for text in texts for name in re.findall(r"^def check_(\w+)", text, re.M)}
    assert functions == set(CHECKS)


def test_every_agent_has_captured_payloads() -> None:
    folder = ROOT / "tests" / "compat" / "payloads"
    assert {agent for agent in ROWS if not list((folder / agent).glob("*.json"))} == set()


NAMES_ELSEWHERE = {
    "remit/core/config.py": "a value of `[lessons] file` is the name of a file, whoever reads it",
    "models/endpoints.py": "providers of models share names with agents",
    "remit_hook/__main__.py": "the client imports nothing of ours; `test_clients_send_each_variable_of_the_table`",
}
"""Files besides the rows with an agent's name in a string, and why."""

AGENT_NAME = re.compile("|".join(row.binary for row in ROWS.values()), re.IGNORECASE)


def names_an_agent(source: str) -> bool:
    """Whether a string besides the docstrings holds the name of an agent."""
    if AGENT_NAME.search(source) is None:
        return False
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return any(
        isinstance(node, ast.Constant) and id(node) not in docstrings and AGENT_NAME.search(str(node.value)) is not None
        for node in nodes
    )


def test_an_agents_name_stands_in_its_row_only() -> None:
    shipped = [p for p in PYTHON if "src" in p.parts and "core/agents" not in p.parent.as_posix()]
    found = [str(p) for p in shipped if not AGENT_NAME.search(p.stem) and names_an_agent(p.read_text("utf-8"))]
    elsewhere = [path for path in found if not path.endswith(tuple(NAMES_ELSEWHERE))]
    assert elsewhere == []
    assert len(found) == len(NAMES_ELSEWHERE), "a reason for which there is no file"


def test_a_name_in_a_string_is_found() -> None:
    assert names_an_agent("if agent == 'Claude-Code': pass")
    assert names_an_agent("VARIABLE = b'QWEN_HOME'")
    assert not names_an_agent("""'''What Codex does.'''\ncodex = 1""")
