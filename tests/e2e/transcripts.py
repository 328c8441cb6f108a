"""Documentation that runs: the `console` blocks of a page, and the shell that plays them.

A block holds commands behind `$ `, continued behind `> `, each followed by exactly what it prints. A `…` in a
line stands for any text, a line that is only `…` for any lines.
"""

import os
import re
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path

from msgspec import Struct

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
ANY_LINES = "…"


class Step(Struct, frozen=True):
    """One command and the lines that the page shows below it."""

    command: str
    shown: tuple[str, ...]


class Played(Struct, frozen=True):
    """What a command printed, both streams, and its exit code."""

    step: Step
    code: int
    printed: tuple[str, ...]

    @property
    def as_shown(self) -> bool:
        """Whether it came out as the page says."""
        return self.code == 0 and fits(self.step.shown, self.printed)


def steps(page: str) -> list[Step]:
    """The commands of a page, in order."""
    return [step for block in BLOCK.findall(page) for step in steps_of(block)]


def steps_of(block: str) -> list[Step]:
    """The commands of one block."""
    found: list[tuple[list[str], list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif line.startswith("> ") and not found[-1][1]:
            found[-1][0].append(line[2:])
        else:
            found[-1][1].append(line)
    return [Step("\n".join(command), tuple(shown)) for command, shown in found]


def files(page: str) -> dict[str, str]:
    """The files that a page asks the reader to save: blocks with a title."""
    return dict(FILE.findall(page))


def fits(shown: tuple[str, ...], printed: tuple[str, ...]) -> bool:
    """Whether the printed lines are what the page shows."""
    pattern = "".join(r"(?:[^\n]*\n)*" if line == ANY_LINES else f"{line_pattern(line)}\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def line_pattern(line: str) -> str:
    """One shown line as a pattern."""
    return "[^\n]*".join(map(re.escape, line.split("…")))


def play(page: str, folder: Path) -> list[Played]:
    """Run a page's commands in one shell in `folder`, with this installation's `remit` on the path."""
    asked = steps(page)
    mark = "=====step ended with"
    script = "".join(f"{step.command}\nprintf '\\n{mark} %d\\n' $?\n" for step in asked)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
    )
    parts = re.split(rf"\n{mark} (\d+)\n", done.stdout)
    return [
        Played(step, int(code or 1), tuple((printed or "").splitlines()))
        for step, printed, code in zip_longest(asked, parts[0:-1:2], parts[1::2])
    ]


def report(played: list[Played]) -> str:
    """Where a page and the world part, for people; empty where they agree."""
    wrong = next((p for p in played if not p.as_shown), None)
    if wrong is None:
        return ""
    shown, printed = ("\n".join(lines) for lines in (wrong.step.shown, wrong.printed))
    return f"$ {wrong.step.command}\nexit code {wrong.code}\n--- the page shows\n{shown}\n--- printed\n{printed}"
