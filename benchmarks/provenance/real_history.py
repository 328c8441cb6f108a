"""A stretch of a repository's own history: its commits, the files that they change, and git's differences."""

import random
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .code import is_text

FILES = ("100644", "100755")
MOST_BYTES = 200_000
LEFT_OUT = (".min.js", ".pem", ".key")
"""What no agent writes, and what Remit refuses to let one write."""

HEAD = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Changed:
    """A file that a commit changes; its path before and after, None where it was not, or is no more."""

    old: str | None
    new: str | None


@dataclass(frozen=True)
class Difference:
    """A hunk of a diff. `at` and `to` are where it begins in the old and the new lines, from 0."""

    at: int
    count: int
    to: int
    size: int
    signed: tuple[bytes, ...]

    @property
    def head(self) -> bytes:
        """The line that it begins with in a diff; a side with no lines is counted from the line before it."""
        starts = self.at + bool(self.count), self.to + bool(self.size)
        return b"@@ -%d,%d +%d,%d @@" % (starts[0], self.count, starts[1], self.size)


class Repository:
    """What a repository's commits changed, and the files that they hold."""

    def __init__(self, path: Path) -> None:
        self.run = ["git", "-C", str(path)]

    def out(self, *words: str) -> bytes:
        return subprocess.run([*self.run, *words], check=True, capture_output=True).stdout

    def changed(self, old: str, new: str) -> Iterator[Changed]:
        """The text files that differ between two commits, renames seen."""
        said = self.out("diff", "--raw", "-z", "-M", "--no-abbrev", old, new).decode("utf-8", "surrogateescape")
        fields = iter(said.split("\0"))
        for about in fields:
            if not about:
                return
            modes, kind = about[1:].split(" ")[:2], about.rpartition(" ")[2][0]
            path = next(fields)
            other = next(fields) if kind in "RC" else path
            if (modes[1] if kind != "D" else modes[0]) in FILES and is_played(path) and is_played(other):
                yield Changed(None if kind in "AC" else path, None if kind == "D" else other)

    def lines(self, commit: str, path: str) -> list[bytes] | None:
        """The lines of a file there, the last one ended; None where it is none, or none that an agent can be told."""
        done = subprocess.run([*self.run, "cat-file", "blob", f"{commit}:{path}"], check=False, capture_output=True)
        found = done.stdout.removesuffix(b"\n").split(b"\n") if done.stdout else []
        good = not done.returncode and len(done.stdout) <= MOST_BYTES and all(map(is_line, found))
        return found if good else None

    def text(self, commit: str, path: str) -> list[bytes] | None:
        """The same where the last line is ended there, so that the lines tell the file to the byte."""
        found = self.lines(commit, path)
        if found is None:
            return None
        size = int(self.out("cat-file", "-s", f"{commit}:{path}"))
        return found if size == sum(len(line) + 1 for line in found) else None


class History(Repository):
    """`commits` first-parent commits of a repository, from a place that the seed tells; `names` has one more before."""

    def __init__(self, repository: Path, rng: random.Random, commits: int) -> None:
        super().__init__(repository)
        names = self.out("rev-list", "--first-parent", "--reverse", "HEAD").decode().split()
        start = rng.randrange(max(1, len(names) - commits))
        self.names = names[start : start + commits + 1]

    def touched(self) -> set[str]:
        """Every path that a commit of the stretch changes."""
        steps = zip(self.names, self.names[1:], strict=False)
        return {path for a, b in steps for c in self.changed(a, b) for path in (c.old, c.new) if path}


def is_played(path: str) -> bool:
    return not path.startswith(".git") and not path.endswith(LEFT_OUT) and path.isascii() and path.isprintable()


def is_line(line: bytes) -> bool:
    return is_text(line.removesuffix(b"\r")) and b"\0" not in line


def differences(old: Sequence[bytes], new: Sequence[bytes], context: int, algorithm: str = "myers") -> list[Difference]:
    """What git says differs between two texts."""
    with tempfile.TemporaryDirectory(prefix="provbench-") as folder:
        for name, lines in (("old", old), ("new", new)):
            (Path(folder) / name).write_bytes(whole(lines))
        words = ["diff", "--no-index", "--no-color", f"-U{context}", f"--diff-algorithm={algorithm}", "old", "new"]
        said = subprocess.run(["git", *words], cwd=folder, check=False, capture_output=True).stdout
    return list(hunks(said.removesuffix(b"\n").split(b"\n")))


def hunks(said: Sequence[bytes]) -> Iterator[Difference]:
    """The hunks of a diff's lines."""
    heads = [(n, head) for n, line in enumerate(said) if (head := HEAD.match(line))]
    for (n, head), end in zip(heads, [*(n for n, _ in heads[1:]), len(said)], strict=True):
        at, count, to, size = (int(word) if word else 1 for word in head.groups())
        yield Difference(at - bool(count), count, to - bool(size), size, tuple(said[n + 1 : end]))


def whole(lines: Sequence[bytes]) -> bytes:
    """The file that has these lines."""
    return b"".join(line + b"\n" for line in lines)
