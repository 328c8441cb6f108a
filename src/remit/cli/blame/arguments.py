"""Parsing of git blame's arguments. Source: git-blame(1), read 2026-11."""

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
"""Options that take the next word as their value."""

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
"""The allowed options: git knows more, and `--output=FILE` would let an agent empty a file."""

FORMS = ("--incremental", "--line-porcelain", "--porcelain")
"""Forms for programs, in git's precedence, whatever their order on the command line."""

NEGATIONS = {
    "--no-porcelain": FORMS[1:],
    "--no-line-porcelain": FORMS[1:],
    "--no-incremental": FORMS[:1],
    "--no-show-stats": ("--show-stats",),
    "--no-contents": ("--contents",),
}
"""Options that negate earlier ones, limited to those that Remit reads itself."""

FORMATTING_OPTIONS = {
    *("-s", "-e", "-f", "-n", "-l", "-t", "-b", "-c", "--show-name", "--show-number", "--show-email", "--abbrev"),
    *("--score-debug", "--color-lines", "--color-by-age", "--date", "--progress", "--no-progress"),
}
"""Options that format lines for people, without effect on their origin."""

EMPTY_VALUES = {"L": ",", "S": " "}
"""The value that git treats like an empty one: every line; a missing file."""

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
    """The arguments name no file, or contain an option that may not go to git."""


class BlameArguments(Struct, frozen=True):
    """Parsed arguments. Each option is one word: `-L1,2`, `--date=iso`. `file` is unchanged."""

    form: Form
    options: tuple[str, ...]
    revisions: tuple[str, ...]
    file: str
    stats: bool = False

    def option_values(self, name: str) -> tuple[str, ...]:
        prefix = name if name[:2] != "--" else f"{name}="
        return tuple(option.removeprefix(prefix) for option in self.options if option.startswith(prefix))

    @property
    def contents(self) -> str | None:
        """Return the file whose content replaces the work tree's; `-` is standard input."""
        return next(iter(self.option_values("--contents")[-1:]), None)

    @property
    def has_reverse_option(self) -> bool:
        """Return whether lines are traced to the last version containing them, instead of the first."""
        return "--reverse" in self.options

    @property
    def tracing_options(self) -> tuple[str, ...]:
        return tuple(option for option in self.options if option_name(option) not in FORMATTING_OPTIONS)

    @property
    def is_stable(self) -> bool:
        """Return whether equal arguments mean the same while HEAD and the files stay unchanged."""
        words = [*self.revisions, *self.option_values("--ignore-rev")]
        revisions = [part for word in words for part in re.split(r"\.\.\.?", word) if part]
        return (
            all(map(STABLE_REVISION.fullmatch, revisions))
            and set(self.option_values("--date")) <= FIXED_DATE_FORMATS
            and not TIME_DEPENDENT_OPTIONS & {option_name(option) for option in self.options}
            and self.contents != "-"
        )


def parse_arguments(words: Sequence[str], folder: Path) -> BlameArguments:
    """Parse the words as git blame would in `folder`. Raises BlameUsageError."""
    at = list(words).index("--") if "--" in words else None
    tail = None if at is None else words[at + 1 :]
    options: list[str] = []
    plain: list[str] = []
    following = iter(words[:at])
    for word in following:
        if word == "-" or not word.startswith("-"):
            plain.append(word)
        elif word.startswith("--"):
            options.append(parse_long_option(word, following))
        else:
            options += parse_short_options(word, following)
    revisions, file = split_revisions_and_file(plain, tail, folder)
    if any(revision.startswith("-") for revision in revisions):
        raise BlameUsageError(f"{revisions[0][:100]!r} is no revision")
    options = drop_negated_options(options)
    form = next((form for form in FORMS if form in options), "text")
    return BlameArguments(
        form=cast("Form", form.removeprefix("--")),
        options=tuple(option for option in options if option not in (*FORMS, "--show-stats")),
        revisions=revisions,
        file=file,
        stats="--show-stats" in options,
    )


def split_revisions_and_file(
    plain: Sequence[str], tail: Sequence[str] | None, folder: Path
) -> tuple[tuple[str, ...], str]:
    """Return the revisions and the file: `[REVISION] FILE`, `[REVISION] -- FILE` or the older `FILE REVISION`.

    `tail` holds the words after `--`. Raises BlameUsageError.
    """
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


def parse_long_option(word: str, following: Iterator[str]) -> str:
    """Return a long option with its value; an unambiguous prefix stands for the full name, as in git."""
    name, equals, value = word.partition("=")
    matching = [option for option in (*VALUE_OPTIONS, *FLAG_OPTIONS) if option.startswith(name)]
    if name not in matching:
        if len(matching) != 1:
            raise unknown_option(word)
        name = matching[0]
    if name in VALUE_OPTIONS and not equals:
        return f"{name}={take_value(word, following)}"
    return f"{name}{equals}{value}"


def parse_short_options(word: str, following: Iterator[str]) -> list[str]:
    """Return the options in a word such as `-wML1,2`."""
    options: list[str] = []
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter == "p":
            options.append("--porcelain")
        elif letter in SHORT_FLAGS:
            options.append(f"-{letter}")
        elif letter in "LS":
            options.append(f"-{letter}{letters or take_value(word, following) or EMPTY_VALUES[letter]}")
            break
        elif letter in "MC":  # the rest of the word is the score, even if not a number
            options.append(f"-{letter}{letters}")
            break
        else:
            raise unknown_option(word)
    return options


def take_value(word: str, following: Iterator[str]) -> str:
    """Return the next word as the value of an option. Raises BlameUsageError at the end."""
    value = next(following, None)
    if value is None:
        raise BlameUsageError(f"{word[:100]!r} needs a value, for example: -L 10,20 or --date iso")
    return value


def unknown_option(word: str) -> BlameUsageError:
    return BlameUsageError(
        f"unknown option {word[:100]!r}: `remit blame --help` lists the allowed options of git blame"
    )


def drop_negated_options(options: Iterable[str]) -> list[str]:
    """Return the options without those negated by a later one."""
    kept: list[str] = []
    for option in options:
        if option in NEGATIONS:
            kept = [earlier for earlier in kept if option_name(earlier) not in NEGATIONS[option]]
        else:
            kept.append(option)
    return kept


def option_name(option: str) -> str:
    return option.partition("=")[0] if option.startswith("--") else option[:2]
