"""Commands that look at what agents write: which files they are for, and how they are told which those are.

A file's name never becomes part of a shell's text: it is an argument, whatever is in it.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct, json

from remit.core.contents import sha256
from remit.core.globs import Scope, glob_error, is_absolute_pattern
from remit.core.hooks import Brought, listed

ALL_S = 30.0
"""Seconds that all commands after one call may take together: the agent waits for them."""

ONE, EACH = "{paths}", "{path}"
BARE = re.compile(r"(?<!\S)\{paths?\}(?![^\s;|&)])")
PLACE = re.compile(r"\{paths?\}")


class OnWrite(Struct, frozen=True, forbid_unknown_fields=True):
    """A command that runs after an agent wrote one of `paths` (patterns as in `owned_scope`).

    `command` is text for /bin/sh, or a list of words. A word that is `{paths}` becomes the files, one argument each;
    with `{path}` the command runs once for each file. It has `timeout_s` seconds; all that run after one call, 30.
    """

    paths: str | tuple[str, ...]
    command: str | tuple[str, ...]
    timeout_s: Annotated[float, Meta(gt=0, le=ALL_S)] = 10

    def __post_init__(self) -> None:
        for pattern in listed(self.paths):
            why = "it is absolute" if is_absolute_pattern(pattern) else glob_error(pattern)
            if why is not None:
                raise ValueError(f"[verify] on_write: paths: {pattern!r} cannot be used: {why}")
        if not listed(self.paths):
            raise ValueError("[verify] on_write: paths is empty; expected a pattern such as src/**/*.py")
        if why := wrong_with(self.command):
            raise ValueError(f"[verify] on_write: command {self.command!r:.200} {why}")

    @property
    def text(self) -> str:
        """The command on one line."""
        return self.command if isinstance(self.command, str) else json.encode(self.command).decode()

    def covers(self, path: str) -> bool:
        """Whether the command is for that file."""
        return Scope(listed(self.paths)).matches(path)

    def runs(self, paths: Sequence[str]) -> list[list[str]]:
        """The words of each run for these files, which are relative to where it runs."""
        safe = [path if path[:1].isalnum() else f"./{path}" for path in paths]  # `-x` is an option, `@x` a list of them
        each = EACH in PLACE.findall("\0".join(listed(self.command)))
        return [self.words([path]) for path in safe] if each else [self.words(safe)]

    def words(self, paths: list[str]) -> list[str]:
        """The words of one run."""
        if isinstance(self.command, str):
            text = PLACE.sub(lambda place: '"$@"' if place[0] == ONE else '"$1"', self.command)
            return ["/bin/sh", "-c", text, "sh", *paths]
        return [out for word in self.command for out in (paths if word == ONE else [word.replace(EACH, paths[0])])]


def wrong_with(command: str | tuple[str, ...]) -> str:
    """Why a command cannot be used, as a clause; empty where it can."""
    whole = "".join(command)
    if not whole.strip() or "\0" in whole:
        return "is empty, or holds a NUL"
    places = PLACE.findall(" ".join(listed(command)))
    if len(set(places)) > 1:
        return "asks for {path} and {paths}; expected one of them"
    if isinstance(command, str):
        return "" if not places or stand_alone(command, places) else f"needs {places[0]} as a word of its own, unquoted"
    return "" if all(word == ONE for word in command if ONE in word) else f"needs {ONE} as a word of its own"


def stand_alone(text: str, places: list[str]) -> bool:
    """Whether each place is a plain word of the shell's text: quoted, the shell would read what is in the name."""
    try:
        reader = shlex.shlex(text, posix=True, punctuation_chars=True)
        reader.whitespace_split, reader.commenters = True, ""
        words = list(reader)
    except ValueError:
        return False
    plain = sum(PLACE.fullmatch(word) is not None for word in words)
    return "<<" not in text and len(BARE.findall(text)) == plain == len(places)


def brought_on_write(rules: Sequence[OnWrite]) -> tuple[Brought, ...]:
    """The commands as a person trusts them: with the files that they are for."""
    return tuple(
        Brought(
            "verify",
            f"remit.toml [verify] on_write#{number}",
            f"after a write of {', '.join(listed(rule.paths))}: {rule.text}",
            digest_of(rule),
        )
        for number, rule in enumerate(rules, 1)
    )


def digest_of(rule: OnWrite) -> str:
    """What tells a command from every other."""
    return sha256(b"on_write\0" + json.encode(rule, order="sorted"))
