"""Tools that stand in no agent's row, such as those of MCP servers: what their arguments tell about their effects.

The names of tools are other people's; their arguments are what they work on. An argument is a path by its key (`path`,
`relative_path`, `targetFile`, `edits[].path`) or by its value (`/…`, `./…`, `../…`, `~…`, `file:…`).
"""

import re
from collections import deque
from collections.abc import Mapping
from typing import Literal
from urllib.parse import unquote

from msgspec import Struct

from remit.core.untrusted_input import as_array, as_object

KEY_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
PATH_WORDS = frozenset(
    (
        *("path", "paths", "filepath", "filepaths", "pathname", "file", "files", "filename", "filenames"),
        *("dir", "dirs", "directory", "directories", "dirname", "folder", "folders", "workdir", "cwd"),
        *("uri", "uris", "notebook"),
    )
)
PATH_KEYS = frozenset(("source", "sources", "destination", "destinations", "src", "dst", "dest"))
"""Keys that name a path only as a whole: `data_source` names none."""
COMMAND_WORDS = frozenset(
    (
        *("command", "commands", "cmd", "cmdline", "argv", "shell", "script", "scripts", "code", "sql", "patch"),
        *("patches", "diff", "javascript", "python", "bash"),
    )
)
ADDRESS = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:", re.IGNORECASE)
"""The scheme of an address: what such a value names is no file here."""
FILE_ADDRESS = re.compile(r"file:(?://[^/]*(?=/))?", re.IGNORECASE)
PATH_VALUE = re.compile(r"\.{0,2}/|~(?:[\w.-]*)(?:/|\Z)|\.{1,2}\Z|file:", re.IGNORECASE)


PATH_LIKE = re.compile(r"[/\\]|\.\w+\Z")
"""Form of a path among the keys of an object: with a folder, or with a suffix."""


class UnlistedCall(Struct, frozen=True):
    """What the arguments of an unlisted tool name. `guesses` are texts that are paths if they lead to something."""

    has_command: bool = False
    paths: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()

    @property
    def effect(self) -> Literal["execute", "unproved"]:
        """Return the effect as far as the arguments alone tell it."""
        is_named = self.has_command or self.paths or any(text.startswith("/") for text in self.guesses)
        return "execute" if is_named else "unproved"


def classify_unlisted(arguments: Mapping[str, object]) -> UnlistedCall:
    """Return what the arguments of a call name. The tool's name decides nothing: anybody chooses it.

    A call with a path or a command counts as executing; any other is unproved: it passes, and is compared.
    """
    paths: dict[str, None] = {}
    guesses: dict[str, None] = {}
    has_command = False
    waiting: deque[tuple[str, object]] = deque(arguments.items())
    while waiting:
        key, value = waiting.popleft()
        is_path_key = names_path(key)
        waiting.extend((key, item) for item in as_array(value))
        for inner, given in as_object(value).items():
            waiting.append((inner, given))
            # `files: {"src/app.py": "…"}`, but also `file: {"name": "…"}`
            if is_path_key and not names_path(inner) and PATH_LIKE.search(inner):
                paths.setdefault(inner)
            elif is_one_line(inner):
                guesses.setdefault(inner)
        if isinstance(value, str) and value.strip():
            has_command |= names_command(key)
            if is_path_key:
                if not ADDRESS.match(value.strip()):
                    paths.setdefault(read_file_address(value))
            elif is_one_line(value):
                add_value(value.strip(), paths, guesses)
    return UnlistedCall(has_command, tuple(paths), tuple(text for text in guesses if text not in paths))


def add_value(value: str, paths: dict[str, None], guesses: dict[str, None]) -> None:
    if PATH_VALUE.match(value) and not value.startswith("/"):
        paths.setdefault(read_file_address(value))
    elif not ADDRESS.match(value):
        guesses.setdefault(value)


def names_path(key: str) -> bool:
    words = split_key(key)
    return not PATH_WORDS.isdisjoint(words) or key.lower() in PATH_KEYS


def names_command(key: str) -> bool:
    return not COMMAND_WORDS.isdisjoint(split_key(key))


def split_key(key: str) -> list[str]:
    return [word.lower() for word in KEY_WORD.findall(key)]


def is_one_line(text: str) -> bool:
    return 0 < len(text) <= 4096 and not any(character in text for character in "\0\n\r")


def read_file_address(text: str) -> str:
    found = FILE_ADDRESS.match(text.strip())
    return unquote(text.strip()[found.end() :]) if found else text
