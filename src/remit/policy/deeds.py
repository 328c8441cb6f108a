"""What a command could cost, by the programs that it names: whether it can be undone, and how far it reaches.

This weighs a question for a person and decides nothing: what a command may do, `policy.commands` says.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from remit.core.shell import UnreadableShell, simple_commands
from remit.policy.commands.options import names

LONGEST = 16 * 1024
"""Characters of a command that are looked at; a longer one weighs as one that cannot be read."""

DEEPEST = 3
"""Shells within shells."""

WRAPPERS = names(
    "sudo doas su env xargs find nohup nice ionice timeout time setsid stdbuf command builtin exec eval sh bash dash "
    "zsh ksh parallel watch flock"
)
"""They run what stands behind them."""


class Part(Struct, frozen=True):
    """One part of a risk, and the reason for it."""

    weight: int
    reason: str = ""


NOTHING = Part(0)
UNKNOWN = Part(25, "what a command changes cannot be told from its text")
UNREADABLE = Part(35, "the command cannot be read")


class Deed(Struct, frozen=True):
    """Commands whose words match, joined by blanks: what they cost (0 to 40), how far they reach (0 to 25), and why."""

    words: re.Pattern[str]
    undone: int
    reach: int
    why: str


def deed(words: str, undone: int, reach: int, why: str) -> Deed:
    """One row."""
    return Deed(re.compile(words), undone, reach, why)


DEEDS = (
    deed(r"git push\b.*(?: --force| -\w*f| --delete| -d\b| --mirror| \+)", 40, 25, "it rewrites a shared branch"),
    deed(r"git push\b", 30, 20, "it reaches a shared branch"),
    deed(
        r"git (?:reset\b.* --hard|clean\b|checkout\b.* (?:--|\.)(?: |$)|restore\b|stash (?:drop|clear)|branch\b.* -D|"
        r"filter-\w+|reflog (?:expire|delete)|gc\b.* --prune|update-ref\b.* -d|worktree remove)",
        40,
        0,
        "it discards work that git does not keep",
    ),
    deed(r"git (?:rebase|commit\b.* --amend|merge|cherry-pick|am|revert)\b", 25, 0, "it rewrites or adds history"),
    deed(r"(?:rm|rmdir|shred|unlink|truncate)\b", 40, 0, "it deletes"),
    deed(r"(?:find)\b.* -delete\b", 40, 0, "it deletes"),
    deed(r"(?:dd|mkfs[.\w]*|fdisk|parted|wipefs|mount|umount)\b", 40, 25, "it works on disks"),
    deed(r"(?:sudo|doas|su)\b", 30, 25, "it acts as the administrator"),
    deed(
        r"(?:(?:npm|pnpm|yarn|bun|cargo|uv|poetry|flit|hatch|pdm) publish|twine upload|gem push|docker push|"
        r"gh release)\b",
        40,
        25,
        "it publishes",
    ),
    deed(
        r"(?:kubectl|terraform|tofu|pulumi|helm|ansible[-\w]*|aws|gcloud|az|fly|flyctl|heroku|vercel|netlify)\b",
        35,
        25,
        "it changes systems beyond this machine",
    ),
    deed(r"(?:psql|mysql|mongosh?|redis-cli|sqlite3|dropdb|createdb)\b", 35, 15, "it works on a database"),
    deed(
        r"(?:systemctl|service|launchctl|crontab|at|apt|apt-get|dnf|yum|pacman|brew|snap|useradd|userdel|usermod|passwd|"
        r"iptables|ufw|sysctl|kill|pkill|killall|shutdown|reboot|chown|chgrp|chmod)\b",
        30,
        25,
        "it changes this machine",
    ),
    deed(r"(?:curl|wget|nc|ncat|netcat|ssh|scp|sftp|rsync|ftp|telnet)\b", 25, 15, "it reaches the network"),
    deed(
        r"(?:(?:pip3?|npm|pnpm|yarn|bun|uv|uv pip|poetry|pdm|pipx|cargo|go|gem|bundle|composer|conda)"
        r" (?:install|add|get|i|ci|sync|update|upgrade)|npx|uvx|bunx|docker (?:run|pull|build)|"
        r"git (?:clone|fetch|pull))\b",
        25,
        15,
        "it brings code from the network",
    ),
)
"""Of several that match, the heaviest counts; none weighs less than a command that no row knows."""


def command_weight(command: str) -> tuple[Part, Part]:
    """(what cannot be undone, how far it reaches)."""
    if len(command) > LONGEST:
        return UNREADABLE, NOTHING
    try:
        texts = list(runs(command))
    except UnreadableShell:
        return UNREADABLE, NOTHING
    found = [row for row in DEEDS if any(row.words.match(text) for text in texts)]
    undone = heaviest([*(Part(row.undone, row.why) for row in found), UNKNOWN])
    return undone, heaviest([*(Part(row.reach, row.why) for row in found), NOTHING])


def heaviest(parts: Sequence[Part]) -> Part:
    """The part that weighs most; of equals the first."""
    return max(parts, key=lambda part: part.weight)


def runs(command: str, depth: int = 0) -> Iterator[str]:
    """The words of each program that the text runs, joined; what a wrapper runs, too. Raises UnreadableShell."""
    for one in simple_commands(command):
        words = without_variables(tuple(word.text for word in one.words))
        if not words:
            continue
        yield joined(words)
        if words[0].rpartition("/")[2] in WRAPPERS:
            yield from (joined(words[at:]) for at in range(1, min(len(words), 12)))
            if depth < DEEPEST:
                yield from (text for word in words[1:] if " " in word for text in runs(word, depth + 1))


def without_variables(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words from the program on."""
    at = next((i for i, word in enumerate(words) if not re.match(r"\w+=", word)), len(words))
    return words[at:]


def joined(words: tuple[str, ...]) -> str:
    """The words as the table reads them: the program by its name alone."""
    return " ".join((words[0].rpartition("/")[2], *words[1:]))
