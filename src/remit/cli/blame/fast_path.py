"""`remit blame FILE` without the command line: git is started first, and what reads its answer is loaded meanwhile.

Only the plainest words come this way, and only where Remit governs; all others, and all that goes wrong, go to the
command line, which begins again and says what there is to say.
"""

import os
from collections.abc import Iterator, Sequence

from remit.servers.environ_checks import drop_git_variables
from remit.workspace.git import early_start

OUTPUT_FORMS = ("--json", "--porcelain", "--line-porcelain")
TRACING_FLAGS = ("-w", "-M", "-C")
FILTER_OPTIONS = {"--intent": "intent_id", "--class": "mutation_class", "--min-grade": "min_grade", "--grade": "grade"}
"""Options that choose lines, each with a value, and what `Only` calls it."""


class PlainArguments:
    """Plain words, sorted: the form, `options` as git takes them, the revision and file, and which lines are wanted."""

    def __init__(self) -> None:
        self.forms: list[str] = []
        self.options: list[str] = []
        self.positionals: list[str] = []
        self.filters: dict[str, str] = {}

    @property
    def form(self) -> str:
        """The form that was asked for; empty for the one for people."""
        return "".join(self.forms)

    @property
    def git_arguments(self) -> list[str]:
        """Git's words, as `blame_arguments.sorted_words` puts them."""
        return [*self.options, *self.positionals[:-1], "--", self.positionals[-1]]

    def take_word(self, word: str, waiting: Iterator[str]) -> bool:
        """Take one word, and its value from those after it; whether it is one of the plain ones."""
        name, equals, value = word.partition("=")
        if word in OUTPUT_FORMS:
            self.forms.append(word)
        elif name in FILTER_OPTIONS:
            self.filters[FILTER_OPTIONS[name]] = value if equals else next(waiting, "")
        elif word in TRACING_FLAGS:
            self.options.append(word)
        elif word.startswith("-L"):
            self.options.append(word if word != "-L" else f"-L{next(waiting, '')}")
        elif word.startswith("-"):
            return False
        else:
            self.positionals.append(word)
        return True


def answer_directly(words: Sequence[str]) -> bool:
    """Answer, where these words are among the plain ones; whether that was done."""
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
    """The words, sorted; None for others than these: one file, which is there, a revision, options that choose lines
    or say where they are traced to.
    """
    found = PlainArguments()
    waiting = iter(words)
    taken = all(found.take_word(word, waiting) for word in waiting)
    if (
        not taken
        or len(found.forms) > 1
        or len(found.positionals) not in (1, 2)
        or not os.path.lexists(found.positionals[-1])
    ):
        return None
    return None if found.filters and found.form.endswith("porcelain") else found


def find_repository(folder: str) -> str | None:
    """The folder around this one whose repository's settings are plain; None for any other kind of place."""
    while not os.path.lexists(f"{folder}/.git"):
        if folder == "/" or os.path.lexists(f"{folder}/HEAD"):
            return None
        folder = folder.rpartition("/")[0] or "/"
    return folder if early_start.has_plain_settings(folder) else None


def start_git(root: str, plain: PlainArguments) -> None:
    """Start all that git will be asked: with the words that `blame_output` and `provenance.origins` use."""
    here = os.getcwd()  # noqa: PTH109
    form = plain.form if plain.form.endswith("porcelain") else "--porcelain"
    early_start.start_git(os.environ, here, "blame", form, *plain.git_arguments)
    early_start.start_git(os.environ, here, "config", "--list", "--show-scope", "--show-origin", "-z")
    early_start.start_git(os.environ, root, "cat-file", "--batch-check=%(objectname) %(objecttype)", asks=True)
    if not plain.form:
        early_start.start_git(
            os.environ, here, "rev-list", "--no-walk=unsorted", "--abbrev-commit", "--stdin", asks=True
        )


def finish_answer(words: Sequence[str], plain: PlainArguments) -> bool:
    """Answer with what was started; whether that went well."""
    import gc

    gc.disable()  # this process ends before there is anything to collect
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
    """Load it without `typing_extensions`: it falls back on `typing`, which has the same since Python 3.11 and is
    loaded anyway. Of a Python's start this is as much again.
    """
    import sys
    from importlib import import_module
    from typing import cast

    if "typing_extensions" not in sys.modules:
        cast("dict[str, object]", sys.modules)["typing_extensions"] = None
        import_module("msgspec")
        del sys.modules["typing_extensions"]
