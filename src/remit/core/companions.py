"""Tests and pages that mirror a file: `src/a/b.py` has `tests/a/test_b.py`, `b.test.ts` stands beside `b.ts`.

Only names are compared here. Which files there are is for others to find out.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

TEST_FOLDERS = frozenset({"tests", "test", "__tests__", "spec", "specs", "unit", "integration"})
DOC_FOLDERS = frozenset({"docs", "doc", "documentation"})
PAGES = frozenset({"md", "mdx", "rst", "adoc"})
NO_SUBJECT = frozenset({"index", "readme", "__init__", "changelog"})
"""Pages that are about a whole folder, and so mirror no file."""

TEST_NAME = re.compile(
    r"test[_-](?P<after>.+)|(?P<before>.+?)[_.-](?:test|tests|spec|specs)|(?P<camel>[A-Z]\w*?)(?:Tests?|Spec|IT)"
)
FAMILIES = (
    frozenset({"js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"}),
    frozenset({"c", "h", "cc", "hh", "cpp", "hpp", "cxx", "hxx", "m", "mm"}),
    frozenset({"java", "kt", "groovy", "scala"}),
    frozenset({"py", "pyi", "pyx"}),
)
"""Languages whose tests are written in each other."""


class Mirror(Struct, frozen=True):
    """What a test or a page is about: files called `name`, in `folders` or folders that end so.

    `extensions` are those that such a file may have; None: any.
    """

    name: str
    folders: tuple[str, ...]
    extensions: frozenset[str] | None


def mirror_of(path: str) -> Mirror | None:
    """What the file at `path` mirrors, from its name; None where it is neither a test nor a page."""
    *folders, file = path.split("/")
    stem, _, extension = file.rpartition(".")
    if not stem or not extension:
        return None
    if DOC_FOLDERS & {*folders} and extension in PAGES:
        here = tuple(f for f in folders if f not in DOC_FOLDERS)
        return None if stem.lower() in NO_SUBJECT else Mirror(stem, here, None)
    name = tested(stem, folders)
    if name is None:
        return None
    family = next((f for f in FAMILIES if extension in f), frozenset({extension}))
    return Mirror(name, tuple(f for f in folders if f not in TEST_FOLDERS), family)


def tested(stem: str, folders: Iterable[str]) -> str | None:
    """The name of what a test is about; None for a file that is no test."""
    found = TEST_NAME.fullmatch(stem)
    if found is not None:
        return next(name for name in found.groups() if name)
    return stem if "__tests__" in folders else None


def mirrored(mirror: Mirror, files: Iterable[str]) -> tuple[str, ...]:
    """Those of `files` that it is about: of all that fit by name, the ones whose folders agree most."""
    fitting = [(agreement(mirror, file), file) for file in files if fits(mirror, file)]
    most = max((score for score, _ in fitting), default=0)
    return tuple(file for score, file in fitting if score == most)


def fits(mirror: Mirror, file: str) -> bool:
    """Whether `file` has the name, and is not itself a test or a page."""
    stem, _, extension = file.rpartition("/")[2].rpartition(".")
    known = mirror.extensions is None or extension in mirror.extensions
    return stem == mirror.name and known and mirror_of(file) is None


def agreement(mirror: Mirror, file: str) -> int:
    """How many folders above the two files are called the same, from the innermost on."""
    ours, theirs = mirror.folders[::-1], file.split("/")[-2::-1]
    agreeing = 0
    for a, b in zip(ours, theirs, strict=False):
        if a != b:
            break
        agreeing += 1
    return agreeing
