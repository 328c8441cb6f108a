"""The commits that a command has git send to others, or put into a new working tree, before they were judged.

Source: git-push(1), git-worktree(1) of git 2.51, read 2026-11.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from remit.core.shell.simple_commands import UnreadableShell
from remit.policy.commands.program_calls import find_program_calls

VALUED_OPTIONS = {
    "push": ("-o", "--push-option", "--repo", "--receive-pack", "--exec"),
    "add": ("-b", "-B", "--reason"),
}
GLOBAL_VALUED_OPTIONS = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")
EXPANSION_SIGN = re.compile(r"[$`]")
UNBRANCHED_NAME = re.compile(r"(?i)[0-9a-f]{7,64}|refs/(?!heads/|tags/).+|stash(@.*)?|\w*_HEAD|:.*")
"""Names that no branch or tag has: a commit's own name, or a name that any command may give."""

CURRENT_BRANCH = re.compile(r"\$\(git (branch --show-current|rev-parse --abbrev-ref HEAD)\)")
"""Substitutions by which scripts name the current branch."""

MAX_CHARS = 16 * 1024
MAX_CACHED = 32


@lru_cache(MAX_CACHED)
def find_sent_commits(command: str) -> tuple[str, ...]:
    """Return the names of commits sent by `git push`, and checked out by `git worktree add`."""
    return tuple(dict.fromkeys(name for words in find_git_commands(command) for name in named_commits(words)))


@lru_cache(MAX_CACHED)
def is_fetching(command: str) -> bool:
    """Return True if the command has git fetch from others."""
    return any(words[:1] in (["fetch"], ["pull"]) for words in find_git_commands(command))


def find_git_commands(command: str) -> list[list[str]]:
    """Return the words of each git command from the verb on; none for a text that is too long or unreadable."""
    if len(command) > MAX_CHARS or "git" not in command:
        return []
    try:
        calls = [call for call in find_program_calls(command) if call.name == "git"]
    except UnreadableShell:
        return []
    return [select_operands(call.words, GLOBAL_VALUED_OPTIONS, first=True) for call in calls]


def named_commits(words: Sequence[str]) -> Iterator[str]:
    """Yield the names of commits in one git command, given from the verb on."""
    verb, *rest = words or [""]
    if verb == "push":
        for word in select_operands(rest, VALUED_OPTIONS["push"])[1:]:
            spec = word.removeprefix("+")
            source = spec.rpartition(":")[0] if ":" in spec else spec  # the last colon: `:/words` names a commit, too
            if source and source != "tag":
                yield CURRENT_BRANCH.sub("HEAD", source)
    elif verb == "worktree" and rest[:1] == ["add"]:
        yield from select_operands(rest[1:], VALUED_OPTIONS["add"])[1:2]


def select_operands(words: Sequence[str], valued: Sequence[str], *, first: bool = False) -> list[str]:
    """Return the operands, without the values of `valued` options; with `first`, all words from the first operand."""
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
    return bool(EXPANSION_SIGN.search(name) or UNBRANCHED_NAME.fullmatch(name))
