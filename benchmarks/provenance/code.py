"""Blocks of code to write: made up by seed, or cut from the files of a repository that a person names."""

import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

SYLLABLES = "ba co du fe gi ho ju ka le mo nu pi ra se ti vo wa xe yo zu".split()  # noqa: SIM905  shorter to read

SUFFIXES = (".py", ".go", ".c", ".h", ".js", ".ts", ".rs", ".java", ".md", ".toml", ".yml")

Block = tuple[bytes, ...]


class Code:
    """Blocks that nobody else gets: each real one is handed out once, then they are made up."""

    def __init__(self, rng: random.Random, real: Sequence[Block] = ()) -> None:
        self.rng = rng
        self.real = list(real)
        rng.shuffle(self.real)

    def block(self) -> list[bytes]:
        """A block, with a blank line after it."""
        return [*(self.real.pop() if self.real else function(self.rng)), b""]

    def blocks(self, count: int) -> list[bytes]:
        return [line for _ in range(count) for line in self.block()]

    def line(self) -> bytes:
        """One line that says something of its own."""
        return f"{name(self.rng)} = {name(self.rng)}({name(self.rng)}, {self.rng.randrange(1000)})".encode()


def name(rng: random.Random) -> str:
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(2, 4)))


def function(rng: random.Random) -> Block:
    """A function as anybody writes it: some lines of its own, some that every function has."""
    a, b, c = name(rng), name(rng), name(rng)
    body = [
        f"    {name(rng)} = {name(rng)}({rng.choice((a, b))}, {rng.randrange(100)})" for _ in range(rng.randint(1, 4))
    ]
    guard = [f"    if {a} is None:", "        return None"] if rng.random() < 0.5 else []
    tried = ["    try:", f"        {b}.{c}()", "    except OSError:", "        pass"] if rng.random() < 0.4 else []
    loop = [f"    for item in {b}:", f"        {c}(item)", "    }"] if rng.random() < 0.2 else []
    lines = [
        f"def {name(rng)}({a}, {b}):",
        *guard,
        *body,
        *tried,
        *loop,
        "    return None" if rng.random() < 0.3 else f"    return {c}",
    ]
    return tuple(line.encode() for line in lines)


def blocks_of(repository: Path, most: int = 4000) -> list[Block]:
    """Blocks of 3 to 40 lines from the text files at a repository's HEAD, in the order of their paths."""
    run = ["git", "-C", str(repository)]
    listed = subprocess.run(
        [*run, "ls-tree", "-r", "-z", "--name-only", "HEAD"], check=True, capture_output=True
    ).stdout
    found: list[Block] = []
    for path in sorted(listed.decode("utf-8", "surrogateescape").split("\0")):
        if path.endswith(SUFFIXES) and len(found) < most:
            found += cut(
                subprocess.run([*run, "cat-file", "blob", f"HEAD:{path}"], check=True, capture_output=True).stdout
            )
    return found[:most]


def cut(content: bytes) -> list[Block]:
    """A file as blocks: each begins where a line stands at the margin after a blank one."""
    found: list[list[bytes]] = []
    blank = True
    for raw in content.split(b"\n"):
        line = raw.removesuffix(b"\r")
        if not line.strip():
            blank = True
            continue
        if (blank and not line[:1].isspace()) or not found:
            found.append([])
        elif blank:
            found[-1].append(b"")
        found[-1].append(line)
        blank = False
    good = (b for b in found if 3 <= len(b) <= 40 and all(is_text(line) for line in b))
    return [tuple(block) for block in good]


def is_text(line: bytes) -> bool:
    """Whether an agent's payload can carry the line as it is."""
    try:
        return line.decode().isprintable() or b"\t" in line
    except UnicodeDecodeError:
        return False
