"""The intent map is a function of the records."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import run_git
from forked_commands import run_command
from gate.driving import Agent, governed
from remit.gate.gate import Gate
from remit.ledger.index.index import Index
from remit.provenance.map.change_classes import read_map_entries
from remit.provenance.map.map_text import ChangedPart, MapEntry, render_map

TEXT = """\
import os


def first(a):
    total = 1
    return total


class B:
    def m(self):
        return 2
"""
ODD = [
    "`",
    "\n",
    "#",
    "*",
    "<b>",
    "](x)",
    " ",
    "\\",
    "&#32;",
    "·",
    "é",
    "\u202e",
    "\x1b",
    "|",
    "_",
    ": ",
    "## ",
    "a",
    "B",
]
texts = st.lists(st.sampled_from(ODD), max_size=6).map("".join) | st.text(max_size=8)
hashes = st.sampled_from(["", "sha256:00", "sha256:ff"])


@st.composite
def parts(draw: st.DrawFn) -> ChangedPart:
    start = draw(st.integers(0, 3))
    named = draw(st.booleans())
    return ChangedPart(
        start,
        start + draw(st.integers(0, 2)) if start else 0,
        draw(hashes),
        draw(texts) if named else "",
        draw(texts) if named else "",
        draw(st.sampled_from(["2026-02-21", "", "x y"])),
        draw(texts),
        draw(st.booleans()),
    )


files = st.lists(st.tuples(texts, st.lists(parts(), max_size=3).map(tuple)), max_size=3).map(tuple)
records = st.builds(MapEntry, texts, st.none() | texts, files)


@given(st.lists(records, max_size=6), st.randoms())
def test_the_order_of_changes_does_not_matter(found: list[MapEntry], random: Random) -> None:
    unnamed = [MapEntry(one.intent, None, one.files) for one in found]
    shuffled = list(unnamed)
    random.shuffle(shuffled)
    assert render_map(unnamed) == render_map(shuffled)


@given(st.lists(records, max_size=4))
def test_foreign_text_stays_on_one_line_and_marks_nothing_up(found: list[MapEntry]) -> None:
    text = render_map(found)
    assert all(c == "\n" or c.isprintable() for c in text)
    for line in text.split("\n")[2:]:
        assert not line or line.startswith(("## ", "### Files", "#### ", "- **"))
        assert not set(line.lstrip("# ").partition("`")[0]) & set("<>[]|~!\\#") or line.startswith(("- ", "##"))
    assert text.count("\n## ") == len({one.intent for one in found})


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("a/__init__.py", "a/&#95;&#95;init&#95;&#95;.py"),
        ("my_file_2.py", "my_file_2.py"),
        ("_a_b_", "&#95;a_b&#95;"),
        ("http://x.org", "http&#58;//x.org"),
        ("WWW.x.org", "WWW&#46;x.org"),
    ],
)
def test_a_path_is_not_read_as_emphasis_or_as_a_link(path: str, written: str) -> None:
    part = ChangedPart(1, 2, created="2026-01-01")
    assert f"\n#### {written}\n" in render_map([MapEntry("INT-001", files=((path, (part,)),))])


def test_the_shape_is_that_of_the_contracts() -> None:
    part = ChangedPart(15, 45, "sha256:c7", "function", "Weather.get", "2026-02-21", "t_1")
    text = render_map([MapEntry("INT-001", "Weather"), MapEntry("INT-001", None, (("src/api/weather.py", (part,)),))])
    assert text == (
        "# Intent Map\n\n## INT-001: Weather\n\n### Files\n\n#### src/api/weather.py\n\n"
        "- **Lines 15-45** (`sha256:c7`) function `Weather.get` · created 2026-02-21 · trace t_1\n"
    )


@pytest.fixture
def worked(repository: Path, home: Path) -> Path:
    """Return a repository in which an agent made, changed, refactored and removed definitions."""
    (repository / "src/`x`\n# y.txt").write_text("")  # a person's: an agent makes no such name
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/new.py", TEXT)
    agent.write("src/new.py", TEXT.replace("= 1", "= 5"))
    agent.write("src/new.py", TEXT.replace("= 1", "= 5  # more").replace("total", "amount"))
    agent.write("src/`x`\n# y.txt", "one\n")
    agent.write("src/new.py", "import os\n")
    return repository


def remit(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_command(words, repository)


def test_every_change_is_in_the_map_and_refactorings_are_not(worked: Path) -> None:
    done = remit(worked, "map", "--json")
    assert done.returncode == 0, done.stderr
    text = Path(json.loads(done.stdout)["data"]["path"]).read_text()
    shown = [re.sub(r" \(`sha256:[0-9a-f]{64}`\)| · .*", "", line) for line in text.splitlines() if line[:2] == "- "]
    assert shown == [
        "- **Lines 1-1**",
        "- **Changed**",
        "- **Lines 1-1**",
        "- **Lines 4-6** function `first`",
        "- **Lines 5-5** function `first`",
        "- **Lines 9-11** class `B`",
    ]
    assert "amount" not in text
    assert "#### src/&#96;x&#96;&#10;&#35; y.txt" in text


def test_the_map_is_made_anew_byte_for_byte(worked: Path) -> None:
    remit(worked, "map")
    path = worked / ".orchestration" / "intent_map.md"
    before = path.read_bytes()
    assert remit(worked, "map", "--check").returncode == 0
    path.unlink()
    assert remit(worked, "map", "--check").returncode == 1
    (worked / ".git" / "remit" / "index.db").unlink()
    remit(worked, "map")
    assert path.read_bytes() == before
    run_git(worked, "add", "-A", "src")
    run_git(worked, "commit", "-qm", "work")
    assert remit(worked, "map", "--check").returncode == 0


def test_without_contents_the_lines_stand_without_names(worked: Path) -> None:
    gate = Gate.open(worked)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        documents = index.find(event="mutation", limit=1000)

    shutil.rmtree(gate.workspace.state / "contents")
    text = render_map(read_map_entries(documents, gate.contents))
    assert "function" not in text
    assert "- **Lines 1-11** (`sha256:" in text
