"""The pictures of the README: drawn anew, they say what the ones in the repository say."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "{http://www.w3.org/2000/svg}text"
VARYING = re.compile(
    r"\d{4}-\d\d-\d\d(T[\d:]+Z?)?|\b(demo-)?[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{8,40}\b|\(\d+ s left\)|\d+ \w+ ago"
)


def words_of(picture: Path) -> list[str]:
    """The text of a picture by its lines, without what differs from run to run."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for text in ElementTree.parse(picture).iter(TEXT):
        lines.setdefault(float(text.attrib["y"]), []).append((float(text.attrib["x"]), text.text or ""))
    joined = ["".join(part for _, part in sorted(parts)) for _, parts in sorted(lines.items())]
    return [VARYING.sub("…", line.replace("\xa0", " ")).rstrip() for line in joined]


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    subprocess.run([sys.executable, DOCS / "pictures.py", folder], check=True, timeout=240)
    return folder


@pytest.mark.parametrize("name", ["blame", "why", "approval"])
def test_a_picture_shows_what_the_command_prints_today(drawn: Path, name: str) -> None:
    """Where this fails, the output changed: look at the new picture, and run `python docs/pictures.py`."""
    assert words_of(drawn / f"{name}.svg") == words_of(DOCS / "assets" / f"{name}.svg")


@pytest.mark.parametrize("name", ["blame", "why", "approval"])
def test_a_picture_asks_nothing_of_another_machine(name: str) -> None:
    text = (DOCS / "assets" / f"{name}.svg").read_text("utf-8")
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
