"""Reading the agents' own transcript files. Hostile text: only what has the expected shape is taken."""

import re
from pathlib import Path

from remit.workspace.versions import read_tail

TAIL = 256 * 1024
MODEL = re.compile(rb'"model"\s*:\s*"([A-Za-z0-9][A-Za-z0-9._:@/\[\]-]{1,120})"')


def last_model(path: Path) -> str | None:
    """The model that the newest answer in a transcript came from; None where that cannot be told.

    Source: Claude Code 2.1.330 writes `message.model` in lines of type `assistant`, read 2026-11.
    """
    for line in reversed(read_tail(path, TAIL).split(b"\n")):
        found = MODEL.search(line) if b'"assistant"' in line else None
        if found:
            return found[1].decode("ascii")
    return None
