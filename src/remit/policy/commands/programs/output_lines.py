"""Which words the lines of a program's output are: for what `xargs` and `while read` make of them."""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, parse_options, word_set
from remit.policy.commands.parse.words import GLOB_CHARACTER, UnprovedCommand, Word
from remit.policy.commands.programs.readers import READERS
from remit.policy.commands.programs.special_writers import found_files

OutputLines: TypeAlias = tuple[Word, ...] | None

FILTERS = word_set("head tail sort uniq tac cat grep egrep fgrep")
"""They drop lines, or order them, and change none."""

FILTER_OPTION = re.compile(r"-(?:[viEFwxurzn0-9]+|n)")


def list_output(name: str, words: Sequence[Word], input_lines: OutputLines) -> OutputLines:
    """The words that each line of the output is one of; None where the text does not tell."""
    if input_lines is not None and name in FILTERS:
        return filter_lines(name, words, input_lines)
    listing = LISTERS.get(name)
    try:
        return listing(name, words) if listing is not None else None
    except UnprovedCommand:
        return None


def filter_lines(name: str, words: Sequence[Word], input_lines: tuple[Word, ...]) -> OutputLines:
    """Some of the lines that come in."""
    options = [word for word in words if word.text.startswith("-") and word.text != "-"]
    operands = [word for word in words if word not in options]
    most = 1 if name.endswith("grep") else 1 if name in ("head", "tail") else 0
    numbered = name.endswith("grep") and any("n" in option.text for option in options)
    if numbered or len(operands) > most or not all(FILTER_OPTION.fullmatch(option.text) for option in options):
        return None
    return tuple(replace(word, is_optional=True) for word in input_lines)


def files_below(folders: Sequence[Word]) -> OutputLines:
    """Any file in these folders, or these files."""
    found: list[Word] = []
    for folder in folders or (Word("."),):
        if folder.glob is None or folder.may_split:
            return None
        fixed = folder.text.rstrip("/") if folder.is_literal else ""
        text, pattern = f"{fixed}/" if fixed else "", f"{folder.glob.rstrip('/')}/**/*"
        found.append(Word(text, is_literal=False, may_be_several=True, pattern=pattern, is_optional=True))
    return tuple(found)


FIND_ACTIONS = word_set("-exec -execdir -printf -ls -delete -fprint")


def list_find(name: str, words: Sequence[Word]) -> OutputLines:
    acts = any(word.text in FIND_ACTIONS for word in words)
    if acts and not any(word.text == "-print0" for word in words):
        return None
    at = next((i for i, w in enumerate(words) if w.text[:1] in ("-", "(", "!")), len(words))
    return found_files(words[:at] or (Word("."),), words)


def list_grep(name: str, words: Sequence[Word]) -> OutputLines:
    """`grep -l`: the names of the files that match."""
    taken = parse_options(name, READERS[name], words)
    if not taken.has_option("-l", "-L", "--files-with-matches", "--files-without-match", "--files"):
        return None
    given = taken.has_option("-e", "-f", "--regexp", "--file", "--files")
    return files_below(taken.operands if given else taken.operands[1:])


def list_git(name: str, words: Sequence[Word]) -> OutputLines:
    """`git ls-files`, and `git grep -l`, which name what lies in the present folder."""
    if not words or not words[0].is_literal or any(word.text.startswith(":") for word in words):
        return None
    if words[0].text == "ls-files":
        taken = parse_options(
            "git ls-files",
            OptionRow("mcdoz", long=word_set("modified cached deleted others exclude-standard")),
            words[1:],
        )
        patterns = any(word.is_literal and GLOB_CHARACTER.search(word.text) for word in taken.operands)
        return files_below(() if patterns else taken.operands)
    if words[0].text == "grep":
        taken = parse_options(
            "git grep", OptionRow("lniwEFe", long=word_set("name-only files-with-matches")), words[1:]
        )
        return (
            files_below(taken.operands[1:]) if taken.has_option("-l", "--name-only", "--files-with-matches") else None
        )
    return None


def list_ls(name: str, words: Sequence[Word]) -> OutputLines:
    """Names in the present folder, or the operands as they are, where a glob names files."""
    taken = parse_options(name, OptionRow("1dtr"), words)
    if not taken.operands:
        return (Word("", is_literal=False, may_be_several=True, pattern="*", is_optional=True),)
    named = all(word.pattern is not None for word in taken.operands) or taken.has_option("-d")
    return taken.operands if named else None


def list_echo(name: str, words: Sequence[Word]) -> OutputLines:
    """Literal words, without blanks that would make them several."""
    rest = words[1:] if name == "printf" else words
    if name == "printf" and (not words or words[0].text not in ("%s\\n", "%s\\0")):
        return None
    plain = all(
        word.is_literal and not word.text.startswith("-") and not re.search(r"[\s\\'\"]", word.text) for word in rest
    )
    return tuple(rest) if plain and rest else None


LISTERS: dict[str, Callable[[str, Sequence[Word]], OutputLines]] = {
    "find": list_find,
    "grep": list_grep,
    "egrep": list_grep,
    "fgrep": list_grep,
    "rg": list_grep,
    "git": list_git,
    "ls": list_ls,
    "echo": list_echo,
    "printf": list_echo,
}
