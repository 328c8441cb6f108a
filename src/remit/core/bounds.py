"""Bounds of input, one row each: every door for the same kind of input asks here.

A bound that a second door lacks is no bound: a file tool once made 1,900 nested folders, forbidden to contained
commands, and never returned. `doors` names the callers of a row; `tests/house/test_bounds.py` finds the place of each,
or the reason for its absence.
"""

from typing import Literal, TypeAlias

from msgspec import Struct

Door: TypeAlias = Literal[
    "file tools", "own agent", "take-over", "bare undo", "hooks", "acp", "mcp", "console", "attempt", "landing",
    "patch", "intents file",
]  # fmt: skip


class Bound(Struct, frozen=True):
    """The largest value that is let in, and the code of a refusal. `unit` follows a number in a sentence."""

    name: str
    value: int
    unit: str
    code: str
    doors: tuple[Door, ...]


PATH_DOORS: tuple[Door, ...] = ("file tools", "own agent", "take-over", "mcp", "acp", "attempt", "landing", "patch")

PATH_DEPTH = Bound("path depth", 200, "folders in one another", "INVALID_ARGUMENTS", PATH_DOORS)
"""Most programs, git among them, fail with deeper nesting, and each step of a walk costs more than the one before."""
PATH_BYTES = Bound("path length", 3500, "bytes of a path", "INVALID_ARGUMENTS", PATH_DOORS)
"""With the root, the path must stay below Linux's limit of 4,096."""
WHOLE_PATH_BYTES = Bound("whole path", 4096, "characters of a path", "INVALID_ARGUMENTS", PATH_DOORS)
"""No file has a longer one, and each link on the way is followed. Source: path_resolution(7), read 2026-11."""
NAME_BYTES = Bound("name length", 255, "bytes of a name", "INVALID_ARGUMENTS", PATH_DOORS)
"""The limit of most file systems. Source: pathname(7), read 2026-11."""
ODD_CHARACTERS = Bound("odd characters", 0, "control or direction characters", "INVALID_ARGUMENTS", PATH_DOORS)
"""Such a name shows as another one, or as two lines, wherever it is listed."""
COMMAND_BYTES = Bound("command length", 120_000, "bytes of a command", "COMMAND_BLOCKED", ("hooks", "own agent"))
"""Of the launcher's command line: Linux takes no argument of 128 KiB (MAX_ARG_STRLEN, execve(2))."""
PAYLOAD_BYTES = Bound("payload size", 64 << 20, "bytes of a payload", "HOOK_BLOCKED", ("hooks", "attempt"))
"""No agent writes a file of this size in one call."""
FILE_BYTES = Bound("file size", 4 << 30, "bytes of a file", "COMMAND_BLOCKED", ("take-over",))
INTENT_FILES = Bound("intent files", 2000, "files of open intents", "INTENTS_FILE_INVALID", ("intents file",))
"""Each call looks at the files of all open intents; ended ones may lie in `intents/closed/`, as many as there are."""
INTENTS_BYTES = Bound("intents size", 64 << 20, "bytes of intents", "INTENTS_FILE_INVALID", ("intents file",))
REQUEST_BYTES = Bound("request size", 8 << 10, "bytes of a request", "USAGE", ())
"""A person's own words to begin with, or an issue that they name: a model reads all of it."""

BOUNDS = (
    PATH_DEPTH,
    PATH_BYTES,
    WHOLE_PATH_BYTES,
    NAME_BYTES,
    ODD_CHARACTERS,
    COMMAND_BYTES,
    PAYLOAD_BYTES,
    FILE_BYTES,
    INTENT_FILES,
    INTENTS_BYTES,
    REQUEST_BYTES,
)
