"""What `remit blame` was asked: git blame's own words, told apart. Source: git-blame(1), read 2026-11."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, cast

from msgspec import Struct

Form: TypeAlias = Literal["text", "porcelain", "line-porcelain", "incremental"]

VALUE_OPTIONS = (
    *("--contents", "--date", "--encoding", "--ignore-rev", "--ignore-revs-file", "--since", "--after", "--until"),
    *("--before", "--max-age", "--min-age", "--diff-algorithm"),
)
"""Options whose value may stand in the next word."""

FLAG_OPTIONS = (
    *("--porcelain", "--line-porcelain", "--incremental", "--show-stats", "--reverse", "--root", "--minimal"),
    *("--score-debug", "--show-name", "--show-number", "--show-email", "--first-parent", "--progress"),
    *("--no-progress", "--color-lines", "--color-by-age", "--abbrev", "--indent-heuristic", "--no-indent-heuristic"),
    *("--no-abbrev", "--patience", "--histogram", "--textconv", "--no-textconv", "--ancestry-path", "--not", "--all"),
    *("--no-ignore-rev", "--no-ignore-revs-file", "--no-first-parent", "--merges", "--no-merges"),
    *("--no-porcelain", "--no-line-porcelain", "--no-incremental", "--no-show-stats", "--no-contents", "--no-root"),
    *("--no-minimal", "--no-score-debug", "--no-show-name", "--no-show-number", "--no-show-email"),
    *("--no-color-lines", "--no-color-by-age", "--branches", "--tags", "--remotes"),
)
"""Only these go to git: it would take others too, and `--output=FILE` empties a file, by an agent's hand as well."""

FORMS = ("--incremental", "--line-porcelain", "--porcelain")
"""The forms for programs: of several, git takes the first of these, in whatever order they are asked for."""

NEGATIONS = {
    "--no-porcelain": FORMS[1:],
    "--no-line-porcelain": FORMS[1:],
    "--no-incremental": FORMS[:1],
    "--no-show-stats": ("--show-stats",),
    "--no-contents": ("--contents",),
}
"""What undoes the options before it that are looked at here."""

FORMATTING_OPTIONS = {
    *("-s", "-e", "-f", "-n", "-l", "-t", "-b", "-c", "--show-name", "--show-number", "--show-email", "--abbrev"),
    *("--score-debug", "--color-lines", "--color-by-age", "--date", "--progress", "--no-progress"),
}
"""Options that say how a person's lines look, and nothing of which line came from where."""

EMPTY_VALUES = {"L": ",", "S": " "}
"""What means to git what an empty value means: all lines; a file that is not there."""

SHORT_FLAGS = "sefnltbcwp"
STABLE_REVISION = re.compile(r"\^?(HEAD|@|[0-9a-f]{40}|[0-9a-f]{64})([~^]\d*)*")
FIXED_DATE_FORMATS = {
    "iso",
    "iso8601",
    "iso-strict",
    "iso8601-strict",
    "rfc",
    "rfc2822",
    "short",
    "default",
    "raw",
    "unix",
}
TIME_DEPENDENT_OPTIONS = {
    *("--since", "--after", "--until", "--before", "--max-age", "--min-age"),
    *("--all", "--branches", "--tags", "--remotes"),
}


class BlameUsageError(ValueError):
    """The words do not name a file, or are none that may go to git."""


class BlameArguments(Struct, frozen=True):
    """The words, sorted. Each option is one word: `-L1,2`, `--date=iso`. `file` is as it was given."""

    form: Form
    options: tuple[str, ...]
    revisions: tuple[str, ...]
    file: str
    stats: bool = False

    def option_values(self, name: str) -> tuple[str, ...]:
        """What was given for that option."""
        joined = name if name[:2] != "--" else f"{name}="
        return tuple(o.removeprefix(joined) for o in self.options if o.startswith(joined))

    @property
    def contents(self) -> str | None:
        """The file whose content is asked about in place of the work tree's; `-` is standard input."""
        return next(iter(self.option_values("--contents")[-1:]), None)

    @property
    def has_reverse_option(self) -> bool:
        """Whether the last version is asked for that has a line, and not the first."""
        return "--reverse" in self.options

    @property
    def tracing_options(self) -> tuple[str, ...]:
        """The options that say where a line came from."""
        return tuple(option for option in self.options if option_name(option) not in FORMATTING_OPTIONS)

    @property
    def is_stable(self) -> bool:
        """Whether the same words mean the same while HEAD and the files stay."""
        named = [*self.revisions, *self.option_values("--ignore-rev")]
        dates = set(self.option_values("--date")) <= FIXED_DATE_FORMATS
        parts = [part for word in named for part in re.split(r"\.\.\.?", word) if part]
        moving = TIME_DEPENDENT_OPTIONS & {option_name(option) for option in self.options}
        return all(map(STABLE_REVISION.fullmatch, parts)) and dates and not moving and self.contents != "-"


def parse_arguments(words: Sequence[str], folder: Path) -> BlameArguments:
    """The words as git blame would take them in that folder. Raises NotABlame."""
    head, tail = split_at_dashes(words)
    options: list[str] = []
    plain: list[str] = []
    waiting = iter(head)
    for word in waiting:
        if word == "-" or not word.startswith("-"):
            plain.append(word)
        else:
            options += parse_long_option(word, waiting) if word.startswith("--") else parse_short_options(word, waiting)
    revisions, file = split_revisions_and_file(plain, tail, folder)
    if any(revision.startswith("-") for revision in revisions):
        raise BlameUsageError(f"{revisions[0][:100]!r} is no revision")
    options = drop_negated_options(options)
    form = next((form for form in FORMS if form in options), "text")
    return BlameArguments(
        form=cast("Form", form.removeprefix("--")),
        options=tuple(o for o in options if o not in (*FORMS, "--show-stats")),
        revisions=revisions,
        file=file,
        stats="--show-stats" in options,
    )


def split_at_dashes(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """What stands before and after `--`; None where there is none."""
    if "--" not in words:
        return words, None
    at = list(words).index("--")
    return words[:at], words[at + 1 :]


def split_revisions_and_file(
    plain: Sequence[str], tail: Sequence[str] | None, folder: Path
) -> tuple[tuple[str, ...], str]:
    """The revisions and the file: git takes `[REVISION] FILE`, `[REVISION] -- FILE` and the older `FILE REVISION`."""
    if tail is not None and len(tail) == 1:
        return tuple(plain), tail[0]
    if tail is not None and len(tail) == 2 and not plain:
        return (tail[1],), tail[0]
    if tail is not None or not plain:
        raise BlameUsageError("name one file, for example: remit blame HEAD~1 src/app.py")
    *before, last = plain
    if len(before) == 1 and not (folder / last).exists() and (folder / before[0]).exists():
        return (last,), before[0]
    return tuple(before), last


def parse_long_option(word: str, waiting: Iterator[str]) -> list[str]:
    """A long option with its value; git takes the beginning of a name for the whole where only one fits."""
    given, equals, value = word.partition("=")
    fitting = [name for name in (*VALUE_OPTIONS, *FLAG_OPTIONS) if name.startswith(given)]
    if given not in fitting and len(fitting) != 1:
        raise BlameUsageError(
            f"unknown option {word[:100]!r}: `remit blame --help` lists those of git blame that are taken"
        )
    name = given if given in fitting else fitting[0]
    if name in VALUE_OPTIONS and not equals:
        return [f"{name}={take_value(word, waiting)}"]
    return [f"{name}{equals}{value}"]


def drop_negated_options(options: Iterable[str]) -> list[str]:
    """The options, less those that a later one takes back."""
    found: list[str] = []
    for option in options:
        if option in NEGATIONS:
            found = [one for one in found if option_name(one) not in NEGATIONS[option]]
        else:
            found.append(option)
    return found


def take_value(word: str, waiting: Iterator[str]) -> str:
    """The word after an option that has to have a value. Raises NotABlame."""
    found = next(waiting, None)
    if found is None:
        raise BlameUsageError(f"{word[:100]!r} needs a value, for example: -L 10,20 or --date iso")
    return found


def parse_short_options(word: str, waiting: Iterator[str]) -> list[str]:
    """The options of a word such as `-wML1,2`."""
    found: list[str] = []
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter == "p":
            found.append("--porcelain")
        elif letter in SHORT_FLAGS:
            found.append(f"-{letter}")
        elif letter in "LS":
            found.append(f"-{letter}{letters or take_value(word, waiting) or EMPTY_VALUES[letter]}")
            break
        elif letter in "MC":  # the rest of the word is the score, whatever it is
            found.append(f"-{letter}{letters}")
            break
        else:
            raise BlameUsageError(
                f"unknown option {word[:100]!r}: `remit blame --help` lists those of git blame that are taken"
            )
    return found


def option_name(option: str) -> str:
    """An option's name, without its value."""
    return option.partition("=")[0] if option.startswith("--") else option[:2]
