"""The commits that a command's words have git send to others, or put into a new work tree, before anybody looks.

Source: git-push(1), git-worktree(1) of git 2.51, read 2026-11.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from remit.core.shell.simple_commands import UnreadableShell
from remit.policy.commands.dangers import find_program_calls

VALUED_OPTIONS = {
    "push": ("-o", "--push-option", "--repo", "--receive-pack", "--exec"),
    "add": ("-b", "-B", "--reason"),
}
GLOBAL_VALUED_OPTIONS = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")
EXPANSION_SIGN = re.compile(r"[$`]")
UNBRANCHED_NAME = re.compile(r"(?i)[0-9a-f]{7,64}|refs/(?!heads/|tags/).+|stash(@.*)?|\w*_HEAD|:.*")
"""What no branch or tag is called: a commit by its own name, or by a name that any command may give."""

CURRENT_BRANCH = re.compile(r"\$\(git (branch --show-current|rev-parse --abbrev-ref HEAD)\)")
"""How scripts name the branch that they are on."""

MAX_CHARS = 16 * 1024


@lru_cache(32)
def find_sent_commits(command: str) -> tuple[str, ...]:
    """Return the words that name what `git push` sends, and what `git worktree add` checks out."""
    if len(command) > MAX_CHARS or "git" not in command:
        return ()
    try:
        commands = [list(one.words) for one in find_program_calls(command) if one.name == "git"]
    except UnreadableShell:
        return ()
    return tuple(dict.fromkeys(name for words in commands for name in named_commits(words)))


@lru_cache(32)
def is_fetching(command: str) -> bool:
    """Whether the command has git fetch."""
    if len(command) > MAX_CHARS or "git" not in command:
        return False
    try:
        commands = [
            select_operands(one.words, GLOBAL_VALUED_OPTIONS, first=True)
            for one in find_program_calls(command)
            if one.name == "git"
        ]
    except UnreadableShell:
        return False
    return any(words[:1] in (["fetch"], ["pull"]) for words in commands)


def named_commits(words: Sequence[str]) -> Iterator[str]:
    """Yield what one command of git's names."""
    verb, *rest = select_operands(words, GLOBAL_VALUED_OPTIONS, first=True) or [""]
    if verb == "push":
        for word in select_operands(rest, VALUED_OPTIONS["push"])[1:]:
            spec = word.removeprefix("+")
            source = spec.rpartition(":")[0] if ":" in spec else spec  # the last colon: `:/words` names a commit, too
            if source and source != "tag":
                yield CURRENT_BRANCH.sub("HEAD", source)
    elif verb == "worktree" and rest[:1] == ["add"]:
        yield from select_operands(rest[1:], VALUED_OPTIONS["add"])[1:2]


def select_operands(words: Sequence[str], valued: Sequence[str], *, first: bool = False) -> list[str]:
    """Return the words that are no options, and no values of these; with `first`, all from the first such on."""
    found: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*found, *left]
        if word.startswith("-") and word != "-":
            left = left[1:] if word in valued else left
        elif first:
            return [word, *left]
        else:
            found.append(word)
    return found


def is_unbranched_name(name: str) -> bool:
    """Whether a name that git does not know yet could be no branch that the same command makes."""
    return bool(EXPANSION_SIGN.search(name) or UNBRANCHED_NAME.fullmatch(name))
