"""`remit blame FILE` without click: git starts first, and Python modules load while git works.

Only simple arguments in a governed repository take this path. Everything else, and every error, falls back to the full
command line, which starts over and reports the error.
"""

import os
from collections.abc import Iterator, Sequence

from remit.servers.environ_checks import drop_git_variables
from remit.workspace.git import early_start

OUTPUT_FORMS = ("--json", "--porcelain", "--line-porcelain")
TRACING_FLAGS = ("-w", "-M", "-C")
FILTER_OPTIONS = {"--intent": "intent_id", "--class": "mutation_class", "--min-grade": "min_grade", "--grade": "grade"}
"""Filter options with a value, and their field in `LineFilter`."""


class PlainArguments:
    """Simple blame arguments: output form, git options, revision and file, and line filters."""

    def __init__(self) -> None:
        self.forms: list[str] = []
        self.options: list[str] = []
        self.positionals: list[str] = []
        self.filters: dict[str, str] = {}

    @property
    def form(self) -> str:
        return "".join(self.forms)

    @property
    def git_arguments(self) -> list[str]:
        return [*self.options, *self.positionals[:-1], "--", self.positionals[-1]]

    def take_word(self, word: str, following: Iterator[str]) -> bool:
        """Store one word and its value; return False for a word that needs the full command line."""
        name, equals, value = word.partition("=")
        if word in OUTPUT_FORMS:
            self.forms.append(word)
        elif name in FILTER_OPTIONS:
            self.filters[FILTER_OPTIONS[name]] = value if equals else next(following, "")
        elif word in TRACING_FLAGS:
            self.options.append(word)
        elif word.startswith("-L"):
            self.options.append(word if word != "-L" else f"-L{next(following, '')}")
        elif word.startswith("-"):
            return False
        else:
            self.positionals.append(word)
        return True


def answer_directly(words: Sequence[str]) -> bool:
    """Answer if the arguments are simple; return whether an answer was written."""
    plain = parse_plain_arguments(words)
    if plain is None:
        return False
    drop_git_variables()
    root = find_repository(os.getcwd())  # noqa: PTH109  pathlib is loaded while git works
    if root is None or not os.path.lexists(f"{root}/.git/remit/governed"):
        return False
    start_git(root, plain)
    return finish_answer(words, plain)


def parse_plain_arguments(words: Sequence[str]) -> PlainArguments | None:
    """Return the parsed words; None unless they are one existing file, a revision, and filter or tracing options."""
    plain = PlainArguments()
    following = iter(words)
    if not all(plain.take_word(word, following) for word in following):
        return None
    if len(plain.forms) > 1 or len(plain.positionals) not in (1, 2) or not os.path.lexists(plain.positionals[-1]):
        return None
    return None if plain.filters and plain.form.endswith("porcelain") else plain


def find_repository(folder: str) -> str | None:
    """Return the enclosing repository folder with plain git settings; None for any other layout."""
    while not os.path.lexists(f"{folder}/.git"):
        if folder == "/" or os.path.lexists(f"{folder}/HEAD"):
            return None
        folder = folder.rpartition("/")[0] or "/"
    return folder if early_start.has_plain_settings(folder) else None


def start_git(root: str, plain: PlainArguments) -> None:
    """Start every git command that `git_output` and `provenance.origins` will ask for, with the same arguments."""
    here = os.getcwd()  # noqa: PTH109
    form = plain.form if plain.form.endswith("porcelain") else "--porcelain"
    early_start.start_git(os.environ, here, "blame", form, *plain.git_arguments)
    early_start.start_git(os.environ, here, "config", "--list", "--show-scope", "--show-origin", "-z")
    early_start.start_git(os.environ, root, "cat-file", "--batch-check=%(objectname) %(objecttype)", asks=True)
    if not plain.form:
        abbreviate = ("rev-list", "--no-walk=unsorted", "--abbrev-commit", "--stdin")
        early_start.start_git(os.environ, here, *abbreviate, asks=True)


def finish_answer(words: Sequence[str], plain: PlainArguments) -> bool:
    """Write the answer from the started git processes; return False on failure."""
    import gc

    gc.disable()  # the process ends before garbage accumulates
    load_msgspec()
    from pathlib import Path

    from remit.cli.blame.answer import (  # loaded while git works
        MIN_GRADES,
        MUTATION_CLASSES,
        LineFilter,
        read_question,
        write_answer,
    )
    from remit.cli.failure import Failure
    from remit.workspace.git.command import GitError
    from remit.workspace.place.workspace import locate_workspace

    workspace = locate_workspace(Path())
    only = LineFilter(**plain.filters)
    if workspace is None or not workspace.is_governed:
        return False
    if only.min_grade not in (None, *MIN_GRADES) or only.mutation_class not in (None, *MUTATION_CLASSES):
        return False
    forms = (plain.form,) if plain.form.endswith("porcelain") else ()
    try:
        question = read_question([*forms, *plain.git_arguments], workspace, Path())
        write_answer(words, question, only, "auto", as_json=plain.form == "--json")
    except (Failure, GitError, OSError, ValueError):
        return False
    return True


def load_msgspec() -> None:
    """Import msgspec without `typing_extensions`, which msgspec replaces with `typing` if missing.

    The import would double the start-up time of this command.
    """
    import sys
    from importlib import import_module
    from typing import cast

    if "typing_extensions" not in sys.modules:
        cast("dict[str, object]", sys.modules)["typing_extensions"] = None
        import_module("msgspec")
        del sys.modules["typing_extensions"]
