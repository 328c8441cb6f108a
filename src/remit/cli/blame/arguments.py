"""Parsing of git blame's arguments. Source: git-blame(1), read 2026-11."""

from collections.abc import Iterator, Sequence
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

UNKNOWN_OPTION = "unknown option %r: `remit blame --help` lists the allowed options of git blame"
EMPTY_VALUES = {"L": ",", "S": " "}  # the value that git treats like an empty one: every line; a missing file
SHORT_FLAGS = "sefnltbcwp"


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
        """The file whose content replaces the work tree's; `-` is standard input."""
        return next(iter(self.option_values("--contents")[-1:]), None)

    @property
    def has_reverse_option(self) -> bool:
        """True if lines are traced to the last version containing them, instead of the first."""
        return "--reverse" in self.options

    @property
    def tracing_options(self) -> tuple[str, ...]:
        return tuple(option for option in self.options if option_name(option) not in FORMATTING_OPTIONS)


def parse_arguments(words: Sequence[str], folder: Path) -> BlameArguments:
    """Parse the words as git blame would in `folder`. Raises BlameUsageError."""
    at = list(words).index("--") if "--" in words else None
    tail = None if at is None else words[at + 1 :]
    parsed: list[str] = []
    plain: list[str] = []
    following = iter(words[:at])
    for word in following:
        if word == "-" or not word.startswith("-"):
            plain.append(word)
        elif word.startswith("--"):
            parsed.append(parse_long_option(word, following))
        else:
            parsed += parse_short_options(word, following)
    options: list[str] = []
    for option in parsed:
        if option in NEGATIONS:
            options = [earlier for earlier in options if option_name(earlier) not in NEGATIONS[option]]
        else:
            options.append(option)
    revisions, file = split_revisions_and_file(plain, tail, folder)
    if any(revision.startswith("-") for revision in revisions):
        raise BlameUsageError(f"{revisions[0][:100]!r} is no revision")
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
    """Return the revisions and the file: `[REVISION] FILE`, `[REVISION] -- FILE` or the older `FILE REVISION`. `tail`
    holds the words after `--`. Raises BlameUsageError.
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
    if name not in matching and len(matching) != 1:
        raise BlameUsageError(UNKNOWN_OPTION % word[:100])
    name = name if name in matching else matching[0]
    if name in VALUE_OPTIONS and not equals:
        return f"{name}={take_value(word, following)}"
    return f"{name}{equals}{value}"


def parse_short_options(word: str, following: Iterator[str]) -> Iterator[str]:
    """Yield the options in a word such as `-wML1,2`."""
    for at, letter in enumerate(word[1:], 2):
        if letter == "p":
            yield "--porcelain"
        elif letter in SHORT_FLAGS:
            yield f"-{letter}"
        elif letter in "LS":
            yield f"-{letter}{word[at:] or take_value(word, following) or EMPTY_VALUES[letter]}"
            return
        elif letter in "MC":  # the rest of the word is the score, even if not a number
            yield f"-{letter}{word[at:]}"
            return
        else:
            raise BlameUsageError(UNKNOWN_OPTION % word[:100])


def take_value(word: str, following: Iterator[str]) -> str:
    """Return the next word as the value of an option. Raises BlameUsageError at the end."""
    value = next(following, None)
    if value is None:
        raise BlameUsageError(f"{word[:100]!r} needs a value, for example: -L 10,20 or --date iso")
    return value


def option_name(option: str) -> str:
    return option.partition("=")[0] if option.startswith("--") else option[:2]
