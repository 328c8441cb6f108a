"""Roles of files that follow from their names: tests and pages of another file, files loaded unasked, source code.

`src/a/b.py` has `tests/a/test_b.py`; `b.test.ts` stands beside `b.ts`. Only names are compared; callers supply existing
files, and need not load `code.languages`.
"""

import re
from collections.abc import Iterable
from itertools import takewhile

from msgspec import Struct

TEST_FOLDERS = frozenset({"tests", "test", "__tests__", "spec", "specs", "unit", "integration"})
DOC_FOLDERS = frozenset({"docs", "doc", "documentation"})
DOC_EXTENSIONS = frozenset({"md", "mdx", "rst", "adoc"})
FOLDER_PAGES = frozenset({"index", "readme", "__init__", "changelog"})
"""Pages about a whole folder, which mirror no single file."""
TEST_NAME = re.compile(
    r"test[_-](?P<after>.+)|(?P<before>.+?)[_.-](?:test|tests|spec|specs)|(?P<camel>[A-Z]\w*?)(?:Tests?|Spec|IT)"
)
MAX_COMMIT_FILES = 25
"""Files of a commit above which it says nothing of what belongs together: a rename, a new licence."""
LANGUAGE_FAMILIES = (
    frozenset({"js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"}),
    frozenset({"c", "h", "cc", "hh", "cpp", "hpp", "cxx", "hxx", "m", "mm"}),
    frozenset({"java", "kt", "groovy", "scala"}),
    frozenset({"py", "pyi", "pyx"}),
)
"""Extensions of languages whose tests may be written in one another."""


class Mirror(Struct, frozen=True):
    """The subject of a test or page: files called `name` below `folders`.

    `extensions` limits the subject's extension; None allows any.
    """

    name: str
    folders: tuple[str, ...]
    extensions: frozenset[str] | None


def find_mirror(path: str) -> Mirror | None:
    """Return the subject of the file at `path`, or None for a file that is neither test nor page."""
    *folders, file = path.split("/")
    stem, _, extension = file.rpartition(".")
    if not stem or not extension:
        return None
    if DOC_FOLDERS & {*folders} and extension in DOC_EXTENSIONS:
        subject_folders = tuple(f for f in folders if f not in DOC_FOLDERS)
        return None if stem.lower() in FOLDER_PAGES else Mirror(stem, subject_folders, None)
    match = TEST_NAME.fullmatch(stem)
    if match is None and "__tests__" not in folders:
        return None
    name = next(name for name in match.groups() if name) if match is not None else stem
    family = next((f for f in LANGUAGE_FAMILIES if extension in f), frozenset({extension}))
    return Mirror(name, tuple(f for f in folders if f not in TEST_FOLDERS), family)


def select_mirrored_files(mirror: Mirror, files: Iterable[str]) -> tuple[str, ...]:
    """Return the files matching a mirror, keeping the files with most folders in common with the test or page.

    Folder names are compared from the innermost outwards.
    """
    fitting: list[tuple[int, str]] = []
    for file in files:
        stem, _, extension = file.rpartition("/")[2].rpartition(".")
        allowed = mirror.extensions is None or extension in mirror.extensions
        if stem == mirror.name and allowed and find_mirror(file) is None:
            pairs = zip(mirror.folders[::-1], file.split("/")[-2::-1], strict=False)
            fitting.append((sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)), file))
    best = max((score for score, _ in fitting), default=0)
    return tuple(file for score, file in fitting if score == best)


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
    """Return whether programs load or run files of this base name unasked.

    Autoloaded files are judged although git ignores them. Files below an ignored folder are exempt: installed packages
    bring autoloaded names, and no program loads them from there.
    """
    return AUTOLOADED_NAMES.fullmatch(name) is not None


def is_bytecode(path: str) -> bool:
    """Return whether a path is compiled Python, which an import of the source may run instead."""
    return path.endswith((".pyc", ".pyo")) or "__pycache__" in path.split("/")


FILE_NAMES = frozenset({"Gemfile", "Rakefile"})
SUFFIXES = frozenset(
    """
    .bash .c .cc .cjs .cpp .cs .cts .cxx .gemspec .go .h .hh .hpp .hxx .ipp .java .js .json .jsx .markdown .md .mjs .mts
    .php .py .pyi .pyw .rake .rb .rs .sh .toml .ts .tsx .yaml .yml
    """.split()  # noqa: SIM905  a list of quoted suffixes takes forty lines
)


def has_known_language(path: str) -> bool:
    name = path.rpartition("/")[2]
    dot = name.rfind(".")
    return name in FILE_NAMES or (dot > 0 and name[dot:].lower() in SUFFIXES)
