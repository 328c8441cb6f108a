"""Draw `docs/assets/architecture.svg` from the import contracts and the folders: rooms by layer, with their sub-rooms.

`docs/generate.py` writes the picture, and compares it with `--check`.
"""

import ast
import re
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "remit"
LAYERS_CONTRACT = "rooms point one way"

WIDTH, MARGIN, GAP = 960, 24, 14
HEADER_HEIGHT, LINE_HEIGHT, PADDING = 46, 17, 12
CHARACTER_WIDTH = 6.6
"""Widths and heights in pixels; the width of a character is that of the 12-pixel font."""

STYLE = """
  <style>
    .page { fill: #ffffff; } .box { fill: #f6f8fa; stroke: #57606a; stroke-width: 1.5; }
    .name { fill: #1f2328; font: 600 16px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
    .job { fill: #57606a; font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
    .sub { fill: #0a5dc2; font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, monospace; }
    .arrow { stroke: #57606a; stroke-width: 1.8; fill: none; } .tip { fill: #57606a; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117; } .box { fill: #161b22; stroke: #8d96a0; } .name { fill: #e6edf3; }
      .job { fill: #9da7b3; } .sub { fill: #79c0ff; } .arrow { stroke: #8d96a0; } .tip { fill: #8d96a0; }
    }
  </style>"""


def read_layers() -> list[list[str]]:
    """Return the rooms of each layer, top first, as the import contract orders them, below the packages."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["name"] == LAYERS_CONTRACT)
    rooms = [[name.strip(" ()") for name in layer.split("|")] for layer in layers]
    present = [[name for name in layer if find_folder(name).joinpath("__init__.py").exists()] for layer in rooms]
    packages = sorted(folder.name for folder in ROOT.glob("packages/*/src/*") if (folder / "__init__.py").exists())
    return [packages, *(layer for layer in present if layer)]


def find_folder(room: str) -> Path:
    """Return the folder of a room, or of a package that stands on Remit."""
    return next(ROOT.glob(f"packages/*/src/{room}"), SOURCE / room)


def read_job(room: str) -> str:
    """Return the first sentence of a room's docstring, without its leading label."""
    text = ast.get_docstring(ast.parse((find_folder(room) / "__init__.py").read_text("utf-8"))) or ""
    sentence = re.split(r"(?<=[.])\s", " ".join(text.split()))[0]
    return re.sub(r"^[A-Z ]+: ", "", sentence)


def list_sub_rooms(room: str) -> list[str]:
    """Return the names of a room's sub-packages, sorted."""
    return sorted(folder.parent.name for folder in find_folder(room).glob("*/__init__.py"))


def wrap_words(words: list[str], width: float) -> list[str]:
    """Join words into lines that fit a width in pixels."""
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and len(longer) * CHARACTER_WIDTH > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [line for line in lines if line]


def draw_architecture() -> str:
    """Return the picture as SVG text."""
    shapes: list[str] = []
    top = MARGIN
    left = MARGIN + 24
    for layer in read_layers():
        width = (WIDTH - MARGIN - left - GAP * (len(layer) - 1)) / len(layer)
        inner = width - 2 * PADDING
        texts = {room: (wrap_words(read_job(room).split(), inner), list_sub_rooms(room)) for room in layer}
        lines = {room: (job, wrap_words([f"{sub}/" for sub in subs], inner)) for room, (job, subs) in texts.items()}
        height = HEADER_HEIGHT - LINE_HEIGHT + LINE_HEIGHT * max(len(job) + len(subs) for job, subs in lines.values())
        for column, room in enumerate(layer):
            x = left + column * (width + GAP)
            shapes.append(f'<rect class="box" x="{x:.0f}" y="{top}" width="{width:.0f}" height="{height}" rx="6"/>')
            job, subs = lines[room]
            rows = [("name", f"{room}/"), *(("job", line) for line in job), *(("sub", line) for line in subs)]
            shapes += [
                f'<text class="{kind}" x="{x + PADDING:.0f}" y="{top + 22 + LINE_HEIGHT * row}">{escape(line)}</text>'
                for row, (kind, line) in enumerate(rows)
            ]
        top += height + GAP
    bottom = top - GAP
    shapes.append(f'<path class="arrow" d="M {MARGIN + 6} {MARGIN} V {bottom - 8}"/>')
    shapes.append(f'<path class="tip" d="M {MARGIN} {bottom - 10} h 12 l -6 10 z"/>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + MARGIN}" role="img"'
        ' aria-labelledby="title text">\n  <title id="title">The rooms of Remit</title>\n'
        '  <desc id="text">Rooms in layers; imports point down only: '
        + "; ".join(" and ".join(layer) for layer in read_layers())
        + f'.</desc>{STYLE}\n  <rect class="page" width="{WIDTH}" height="{bottom + MARGIN}"/>\n  '
    )
    return head + "\n  ".join(shapes) + "\n</svg>\n"
