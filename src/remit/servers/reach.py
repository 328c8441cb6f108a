"""Which workspaces a shell command reaches, as far as its text names places: standing elsewhere is no way round."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from remit.core.call import ToolCall
from remit.gate.gate import Gate
from remit.gate.observed import observed_head
from remit.gate.remembering import is_destructive
from remit.workspace.place import FOLDER, Workspace, locate

WORD = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^\s'\"|;&<>()`]+)")
HOME = re.compile(r"\A(?:~|\$HOME|\$\{HOME\})(?=/|\Z)")
MOST = 200
"""Places of one command that are looked up."""

PLACE_CHARS = 4096


def named_workspaces(call: ToolCall, governs: Workspace | None, home: Path) -> list[Workspace]:
    """The governed workspaces, beside the one that governs already, that hold a place named in the call's command.

    Variables other than HOME are not known, and what a program makes of its input is not either: changes that come
    about so are found in that workspace when it is next compared.
    """
    if call.command is None:
        return []
    own = str(governs.root) if governs is not None and governs.governed else None
    named = islice(dict.fromkeys(places(call.command, call.cwd, str(home), named_only=own is not None)), MOST)
    known: dict[str, str | None] = {}
    roots = dict.fromkeys(marked(place, known) for place in named)
    near = [locate(Path(root)) for root in roots if root is not None and root != own]
    found = {w.root: w for w in near if w is not None and w.governed and str(w.root) != own}
    return list(found.values())


def began_with(gate: Gate, call: ToolCall) -> bool:
    """Whether the workspace came to be by this call, which came back: a work tree that it added. Raises StateError.

    Nobody was asked there before the call, nor ever looked.
    """
    if not is_destructive(call) or observed_head(gate.state) is not None:
        return False
    return gate.state.peek_call(call.session, call.call_id, call.tool, call.arguments_sha256)[1] is None


def words_of_new(root: Path) -> str:
    """What an agent is told of a workspace that its call made."""
    return (
        f"Remit: {root} is a work tree of its own now, governed as this one is. Select an intent there to work in it."
    )


def marked(place: str, known: dict[str, str | None]) -> str | None:
    """The nearest folder at or above `place` where a workspace may begin; `known` holds the answers so far."""
    below: list[str] = []
    while place not in known:
        below.append(place)
        above = os.path.dirname(place)  # noqa: PTH120
        here = any(os.path.lexists(f"{place}/{name}") for name in (".git", FOLDER))
        if here or above == place:
            known[place] = place if here else None
        else:
            place = above
    known.update(dict.fromkeys(below, known[place]))
    return known[place]


def places(command: str, cwd: str, home: str, *, named_only: bool) -> Iterator[str]:
    """What the words of the command may name, links followed.

    A word without a `/` lies in `cwd`: `named_only` leaves those out.
    """
    for word in words(command):
        for text in dict.fromkeys((word, word.rpartition("=")[2])):
            expanded = HOME.sub(lambda _: home, text)
            if (named_only and "/" not in expanded and expanded != "..") or not 0 < len(expanded) <= PLACE_CHARS:
                continue
            if "\0" not in expanded:
                with suppress(OSError):  # /proc/PID/root of another's process: no place that this user can name
                    yield os.path.realpath(os.path.join(cwd, expanded))  # noqa: PTH118  a Path would tidy `..` away


def words(command: str) -> Iterator[str]:
    """The words of the command, and those within its quotes: a script of another shell may stand there."""
    for single, double, plain in WORD.findall(command):
        quoted = single or double
        yield plain or quoted
        if " " in quoted:
            yield from (part for _, _, part in WORD.findall(quoted.replace("'", " ").replace('"', " ")) if part)
