"""Tests and pages that mirror a file: `src/a/b.py` has `tests/a/test_b.py`, `b.test.ts` stands beside `b.ts`.

Only names are compared here. Which files there are is for others to find out.

Files that some program loads or runs because of their name alone, without being asked: no build output is called so.

A file of such a name is judged like any other, though git ignores it. Below a folder that git ignores it is not looked
for: installed packages bring files of these names, and nothing loads them there.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

TEST_FOLDERS = frozenset({"tests", "test", "__tests__", "spec", "specs", "unit", "integration"})
DOC_FOLDERS = frozenset({"docs", "doc", "documentation"})
DOC_EXTENSIONS = frozenset({"md", "mdx", "rst", "adoc"})
FOLDER_PAGES = frozenset({"index", "readme", "__init__", "changelog"})
"""Pages that are about a whole folder, and so mirror no file."""

TEST_NAME = re.compile(
    r"test[_-](?P<after>.+)|(?P<before>.+?)[_.-](?:test|tests|spec|specs)|(?P<camel>[A-Z]\w*?)(?:Tests?|Spec|IT)"
)
LANGUAGE_FAMILIES = (
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


def find_mirror(path: str) -> Mirror | None:
    """What the file at `path` mirrors, from its name; None where it is neither a test nor a page."""
    *folders, file = path.split("/")
    stem, _, extension = file.rpartition(".")
    if not stem or not extension:
        return None
    if DOC_FOLDERS & {*folders} and extension in DOC_EXTENSIONS:
        here = tuple(f for f in folders if f not in DOC_FOLDERS)
        return None if stem.lower() in FOLDER_PAGES else Mirror(stem, here, None)
    name = find_tested_name(stem, folders)
    if name is None:
        return None
    family = next((f for f in LANGUAGE_FAMILIES if extension in f), frozenset({extension}))
    return Mirror(name, tuple(f for f in folders if f not in TEST_FOLDERS), family)


def find_tested_name(stem: str, folders: Iterable[str]) -> str | None:
    """The name of what a test is about; None for a file that is no test."""
    found = TEST_NAME.fullmatch(stem)
    if found is not None:
        return next(name for name in found.groups() if name)
    return stem if "__tests__" in folders else None


def select_mirrored_files(mirror: Mirror, files: Iterable[str]) -> tuple[str, ...]:
    """Those of `files` that it is about: of all that fit by name, the ones whose folders agree most."""
    fitting = [(count_common_folders(mirror, file), file) for file in files if matches_mirror(mirror, file)]
    most = max((score for score, _ in fitting), default=0)
    return tuple(file for score, file in fitting if score == most)


def matches_mirror(mirror: Mirror, file: str) -> bool:
    """Whether `file` has the name, and is not itself a test or a page."""
    stem, _, extension = file.rpartition("/")[2].rpartition(".")
    known = mirror.extensions is None or extension in mirror.extensions
    return stem == mirror.name and known and find_mirror(file) is None


def count_common_folders(mirror: Mirror, file: str) -> int:
    """How many folders above the two files are called the same, from the innermost on."""
    ours, theirs = mirror.folders[::-1], file.split("/")[-2::-1]
    agreeing = 0
    for a, b in zip(ours, theirs, strict=False):
        if a != b:
            break
        agreeing += 1
    return agreeing


AUTOLOADED_NAMES = re.compile(
    # the shell, editors, debuggers and pagers
    r"\.envrc|\.exrc|\.n?vimrc|\.nvim\.lua|\.vim|\.dir-locals(?:-2)?\.el|\.editorconfig|\.gdbinit|\.lldbinit|\.lesskey"
    r"|\.autoenv(?:\.zsh)?|\.?mise(?:\..+)?\.toml|\.?mise|\.rtx\.toml|\.tool-versions|\.bashrc|\.zshrc|\.profile"
    r"|\.vscode|\.idea|\.fleet|\.zed|\.devcontainer|\.devcontainer\.json|.+\.code-workspace"
    # git, and services that read a repository
    r"|\.git|\.gitattributes|\.gitmodules|\.githooks|\.husky|\.github|\.gitlab-ci\.yml|\.pre-commit-config\.yaml|lefthook(?:-local)?\.ya?ml"
    # builds and package managers
    r"|gnumakefile|makefile|.+\.mk|justfile|\.justfile|taskfile\.ya?ml|\.bazelrc|\.cargo|build\.rs|cmakeuserpresets\.json"
    r"|\.npmrc|\.yarnrc(?:\.yml)?|\.pnpmfile\.c?js|\.pnp\..*|\.mocharc\..*|\.babelrc.*|\.eslintrc.*|\.prettierrc.*|.+\.config\.[cm]?[jt]s"
    # Python
    r"|conftest\.py|sitecustomize\.py|usercustomize\.py|setup\.(?:py|cfg)|tox\.ini|pytest\.ini|\.pythonrc(?:\.py)?|.+\.pth"
    r"|.+\.pyd"
    # what others load in place of a module of that name
    r"|.+\.(?:so(?:\.[\d.]+)?|dylib|dll)"
    r"|docker-compose\.override\.ya?ml|compose\.override\.ya?ml",
    re.IGNORECASE | re.DOTALL,
)


def is_autoloaded_name(name: str) -> bool:
    """Whether a file or folder of that name, without what is above it, is loaded or run unasked."""
    return AUTOLOADED_NAMES.fullmatch(name) is not None


def is_bytecode(path: str) -> bool:
    """Whether a path is Python's compiled form of a source: whoever imports the source may run it instead."""
    return path.endswith((".pyc", ".pyo")) or "__pycache__" in path.split("/")
