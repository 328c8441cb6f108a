"""Reading `git blame --porcelain`. Source: git-blame(1), read 2026-11."""

import re

from msgspec import Struct

HEADER = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)(?: (\d+))?$")


class Place(Struct, frozen=True):
    """Where git says a line came from: a version of a file, and the version before it.

    `previous` is `<commit> <path>`; None where there was none. `at` is the commit's time, in seconds.
    """

    commit: str
    path: str
    previous: str | None
    at: int = 0

    @property
    def committed(self) -> bool:
        """Whether a commit has it; else it is the working tree's."""
        return bool(self.commit.strip("0"))

    @property
    def name(self) -> str:
        """The version's content, as git names it."""
        return f"{self.commit}:{self.path}"

    @property
    def parent(self) -> str | None:
        """The content of the version before, as git names it."""
        commit, _, path = (self.previous or "").partition(" ")
        return f"{commit}:{path}" if self.previous else None


class GitLine(Struct, frozen=True):
    """One line. `number` is in the version, `line` in the file asked about."""

    place: Place
    number: int
    line: int
    content: bytes


class About(Struct):
    """What is said once of a commit, and again where lines of it come from another file."""

    at: int = 0
    previous: str | None = None
    place: Place | None = None


def read_porcelain(out: bytes) -> list[GitLine]:
    """The lines, in the order of the output."""
    about: dict[str, About] = {}
    found: list[GitLine] = []
    commit, number, line = "", 0, 0
    for raw in out.split(b"\n"):
        if raw.startswith(b"\t"):
            place = about[commit].place
            if place is not None:
                found.append(GitLine(place, number, line, raw[1:]))
        elif header := HEADER.match(raw):
            commit, number, line = header[1].decode(), int(header[2]), int(header[3])
            about.setdefault(commit, About()).previous = None
        elif raw:
            take_in(about[commit], commit, raw.decode("utf-8", "surrogateescape"))
    return found


def take_in(about: About, commit: str, said: str) -> None:
    """One line of what git says of a commit: `previous`, if any, stands before `filename`."""
    key, _, value = said.partition(" ")
    if key == "committer-time":
        about.at = int(value)
    elif key == "previous":
        about.previous = value
    elif key == "filename":
        about.place = Place(commit, value, about.previous, about.at)
