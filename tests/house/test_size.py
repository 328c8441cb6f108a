"""Figures of the code's shape that may only fall: a change that lowers one lowers its bound here."""

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import PurePath

import pytest

from sources import ROOT, list_modules, name_source

MAX_FILES_OF_CALL = {"Write": 52, "Bash": 76, "Read": 45}
"""Source files that both hooks of one tool call run through, in a fresh process."""

MAX_MODULES_OF_FOLDER = 20


@pytest.fixture(scope="module")
def traces() -> dict[str, dict[str, int]]:
    """The rows of `benchmarks/one_call.py`, by tool."""
    run = [sys.executable, str(ROOT / "benchmarks" / "one_call.py"), "--json"]
    done = subprocess.run(run, check=True, capture_output=True, text=True)
    rows: dict[str, dict[str, int]] = json.loads(done.stdout)
    return rows


@pytest.mark.parametrize("tool", MAX_FILES_OF_CALL)
def test_a_tool_call_runs_through_no_more_files_than_before(tool: str, traces: dict[str, dict[str, int]]) -> None:
    assert traces[tool]["files"] <= MAX_FILES_OF_CALL[tool]


def test_no_folder_holds_more_modules_than_a_reader_takes_in() -> None:
    sizes = Counter(PurePath(name_source(path)).parent for path in list_modules())
    assert {str(folder): size for folder, size in sizes.items() if size > MAX_MODULES_OF_FOLDER} == {}


def test_a_public_class_name_stands_for_one_class() -> None:
    names = Counter(
        node.name
        for path in list_modules()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    shared = sorted(name for name, times in names.items() if times > 1)
    assert shared == []
