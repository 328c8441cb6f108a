"""Which words the lines of a program's output are: for what `xargs` and `while read` make of them."""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.policy.commands.changing import found_by
from remit.policy.commands.options import Row, names, take
from remit.policy.commands.patterns import GLOB
from remit.policy.commands.tables import COMMANDS
from remit.policy.commands.words import Refused, Word

Lines: TypeAlias = tuple[Word, ...] | None

PASSING = names("head tail sort uniq tac cat grep egrep fgrep")
"""They drop lines, or order them, and change none."""

PASSING_OPTIONS = re.compile(r"-(?:[viEFwxurzn0-9]+|n)")


def lines_of(name: str, words: Sequence[Word], fed: Lines) -> Lines:
    """The words that each line of the output is one of; None where the text does not tell."""
    if fed is not None and name in PASSING:
        return passed(name, words, fed)
    listing = LISTING.get(name)
    try:
        return listing(name, words) if listing is not None else None
    except Refused:
        return None


def passed(name: str, words: Sequence[Word], fed: tuple[Word, ...]) -> Lines:
    """Some of the lines that come in."""
    options = [word for word in words if word.text.startswith("-") and word.text != "-"]
    operands = [word for word in words if word not in options]
    most = 1 if name.endswith("grep") else 1 if name in ("head", "tail") else 0
    numbered = name.endswith("grep") and any("n" in option.text for option in options)
    if numbered or len(operands) > most or not all(PASSING_OPTIONS.fullmatch(option.text) for option in options):
        return None
    return tuple(replace(word, maybe=True) for word in fed)


def below(folders: Sequence[Word]) -> Lines:
    """Any file in these folders, or these files."""
    found: list[Word] = []
    for folder in folders or (Word("."),):
        if folder.glob is None or folder.splits:
            return None
        fixed = folder.text.rstrip("/") if folder.literal else ""
        text, pattern = f"{fixed}/" if fixed else "", f"{folder.glob.rstrip('/')}/**/*"
        found.append(Word(text, literal=False, many=True, pattern=pattern, maybe=True))
    return tuple(found)


ACTIONS = names("-exec -execdir -printf -ls -delete -fprint")


def _find(name: str, words: Sequence[Word]) -> Lines:
    acts = any(word.text in ACTIONS for word in words)
    if acts and not any(word.text == "-print0" for word in words):
        return None
    at = next((i for i, w in enumerate(words) if w.text[:1] in ("-", "(", "!")), len(words))
    return found_by(words[:at] or (Word("."),), words)


def _grep(name: str, words: Sequence[Word]) -> Lines:
    """`grep -l`: the names of the files that match."""
    taken = take(name, COMMANDS[name], words)
    if not taken.has("-l", "-L", "--files-with-matches", "--files-without-match", "--files"):
        return None
    given = taken.has("-e", "-f", "--regexp", "--file", "--files")
    return below(taken.operands if given else taken.operands[1:])


def _git(name: str, words: Sequence[Word]) -> Lines:
    """`git ls-files`, and `git grep -l`, which name what lies in the present folder."""
    if not words or not words[0].literal or any(word.text.startswith(":") for word in words):
        return None
    if words[0].text == "ls-files":
        taken = take(
            "git ls-files", Row("mcdoz", long=names("modified cached deleted others exclude-standard")), words[1:]
        )
        patterns = any(word.literal and GLOB.search(word.text) for word in taken.operands)
        return below(() if patterns else taken.operands)
    if words[0].text == "grep":
        taken = take("git grep", Row("lniwEFe", long=names("name-only files-with-matches")), words[1:])
        return below(taken.operands[1:]) if taken.has("-l", "--name-only", "--files-with-matches") else None
    return None


def _ls(name: str, words: Sequence[Word]) -> Lines:
    """Names in the present folder, or the operands as they are, where a glob names files."""
    taken = take(name, Row("1dtr"), words)
    if not taken.operands:
        return (Word("", literal=False, many=True, pattern="*", maybe=True),)
    named = all(word.pattern is not None for word in taken.operands) or taken.has("-d")
    return taken.operands if named else None


def _echo(name: str, words: Sequence[Word]) -> Lines:
    """Literal words, without blanks that would make them several."""
    rest = words[1:] if name == "printf" else words
    if name == "printf" and (not words or words[0].text not in ("%s\\n", "%s\\0")):
        return None
    plain = all(
        word.literal and not word.text.startswith("-") and not re.search(r"[\s\\'\"]", word.text) for word in rest
    )
    return tuple(rest) if plain and rest else None


LISTING: dict[str, Callable[[str, Sequence[Word]], Lines]] = {
    "find": _find,
    "grep": _grep,
    "egrep": _grep,
    "fgrep": _grep,
    "rg": _grep,
    "git": _git,
    "ls": _ls,
    "echo": _echo,
    "printf": _echo,
}
