"""Documentation that cannot fall behind the code."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sources import PACKAGES, REMIT

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAMED = re.compile(r"`((?:src|packages|tests)/[\w/-]+\.py):([\w.]+)`")
THREATS = DOCS / "explanation" / "threat-model.md"
STEPS = DOCS / "explanation" / "one-tool-call.md"


def definitions(path: Path) -> set[str]:
    """What a module defines at its top, and what its classes define, as `name` and `Class.name`."""
    body = ast.parse(path.read_text("utf-8")).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    inner = {f"{c.name}.{n.name}" for c in classes for n in c.body if isinstance(n, ast.FunctionDef)}
    functions = {n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    plain = {t.id for n in body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    typed = {n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    return functions | inner | plain | typed


@pytest.mark.live
def test_the_reference_equals_the_code() -> None:
    done = subprocess.run(
        [sys.executable, DOCS / "generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda p: str(p.relative_to(DOCS)))
def test_functions_that_a_page_names_exist(page: Path) -> None:
    gone = [
        f"{path}:{name}"
        for path, name in NAMED.findall(page.read_text("utf-8"))
        if not (ROOT / path).is_file() or name not in definitions(ROOT / path)
    ]
    assert gone == []


def test_each_promise_of_the_threat_model_names_a_test() -> None:
    held, found, _ = re.split(r"^## What it (?:finds|does not see).*$", THREATS.read_text("utf-8"), flags=re.MULTILINE)
    promises = [line for line in held.splitlines() if line.startswith("| ")][1:]
    promises += [line for line in found.splitlines() if line.startswith("- ")]
    assert len(promises) > 25
    assert [line for line in promises if "tests/" not in "".join(path for path, _ in NAMED.findall(line))] == []


def test_one_tool_call_tells_eight_steps_and_where_each_is_taken() -> None:
    sections = re.split(r"^## (\d)\. .*$", STEPS.read_text("utf-8"), flags=re.MULTILINE)[1:]
    assert sections[::2] == list("12345678")
    assert all(NAMED.search(text) for text in sections[1::2])


def test_every_page_stands_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))
    assert {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")} == listed


def test_decisions_are_numbered_without_a_gap_and_listed() -> None:
    pages = sorted(p.name for p in (DOCS / "decisions").glob("0*.md"))
    assert [int(name[:4]) for name in pages] == list(range(1, len(pages) + 1))
    index = (DOCS / "decisions" / "index.md").read_text("utf-8")
    assert [name for name in pages if f"({name})" not in index] == []


def test_agents_md_stays_short_and_names_what_exists() -> None:
    text = (ROOT / "AGENTS.md").read_text("utf-8")
    assert len(text.splitlines()) <= 80
    rooms = {p.parent.name for p in REMIT.glob("*/__init__.py")} | {package.name for package in PACKAGES[1:]}
    assert rooms <= set(re.findall(r"^\| `(\w+)/`", text, re.MULTILINE))
    named = re.findall(r"`(tests/[\w/]+(?:\.py)?)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []
