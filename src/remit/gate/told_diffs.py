"""What the diffs in a command's text add, file by file: `git apply <<'E'`, `patch -p1 <<'E'`, `apply_patch <<'E'`.

Where a file's new lines are among those, each as often as it is added there, nobody else put in any, however plain.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

APPLIES = re.compile(r"(?<![\w-])(?:apply|patch|apply_patch)(?!\w)")
FILE = re.compile(r"(?:\+\+\+ (?:[bw]/)?|\*\*\* (?:Update|Add) File: )([^\t\n]+)")

Added = Mapping[str, Counter[bytes]]
"""By path as the diff names it, how often it adds each line; lines without the white space around them."""


def told_diffs(command: str) -> Added:
    """What a command's text says that it adds; nothing where it applies none."""
    found: dict[str, Counter[bytes]] = {}
    if not APPLIES.search(command):
        return found
    for path, line in added_lines(command.split("\n")):
        found.setdefault(path, Counter())[line.encode("utf-8", "surrogateescape").strip()] += 1
    return found


def added_lines(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The added lines, each with the file that it goes to."""
    path = ""
    for line in lines:
        if named := FILE.match(line):
            path = named[1].strip()
        elif path and line.startswith("+"):
            yield path, line[1:]


def beside_diffs(command: str) -> str:
    """The text less what its diffs add: they say which file that goes to."""
    inside, left = False, list[str]()
    for line in command.split("\n"):
        inside = inside or FILE.match(line) is not None
        if not (inside and line.startswith("+")):
            left.append(line)
    return "\n".join(left)


def all_added(new: Iterable[bytes], told: Counter[bytes]) -> bool:
    """Whether the diff adds all these lines."""
    return Counter(line.strip() for line in new) <= told
