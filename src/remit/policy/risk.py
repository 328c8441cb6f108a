"""The risk of an action, 0 to 100, with the two strongest reasons, shown to a person beside a question.

The risk has five parts, each with a maximum: whether the action can be undone (40), how far the action reaches (25),
the distance from the scope (15), whether the path matters for security or release (15), and whether the intent has
worked there before (5). The risk weighs a question for a person without deciding; `policy.commands` decides on
commands.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from remit.core.call import ToolCall
from remit.core.decision import Decision, Facts
from remit.core.shell_commands import UnreadableShell
from remit.core.untrusted_input import sanitise_line
from remit.policy.commands.parsed_command import parse_command
from remit.policy.commands.programs.table import has_role


class RiskPart(Struct, frozen=True):
    """A part of a risk, and the reason."""

    weight: int
    reason: str = ""


NO_RISK = RiskPart(0)
UNKNOWN_CHANGES = RiskPart(25, "what a command changes cannot be told from its text")
UNREADABLE_COMMAND = RiskPart(35, "the command cannot be read")
KEPT_CONTENT_DISCOUNT = 15  # Subtracted if the contents before the call are kept


class RiskContext(Struct, frozen=True):
    """Circumstances of a call. `contents_kept`: the files' contents are kept before the call and can be restored.

    `familiar_folders`: the folders that the intent has changed before; None if unknown.
    """

    contents_kept: bool = False
    familiar_folders: frozenset[str] | None = None


NO_CONTEXT = RiskContext()


def weigh_risk(
    call: ToolCall, decision: Decision, facts: Facts, context: RiskContext = NO_CONTEXT
) -> tuple[int, tuple[str, ...]]:
    """Return the risk, and its two heaviest reasons."""
    codes = {finding.code for finding in decision.findings}
    # What cannot be undone, and how far it reaches
    undone, reach = weigh_command(call.command) if call.command is not None else (NO_RISK, NO_RISK)
    losses, reaches = [undone], [reach]
    if "STALE_FILE" in codes:
        losses.append(RiskPart(35, "it would overwrite a change that this session has not seen"))
    if call.effect == "delete":
        losses.append(RiskPart(30, "it deletes"))
    if call.command is None and (call.whole_workspace or call.effect == "execute"):
        losses.append(RiskPart(25, "what it changes cannot be told from its text"))
    if any(target.sha256 is not None for target in facts.targets):
        losses.append(RiskPart(15, "it changes what is there"))
    if any(target.path is None and not target.tolerated for target in facts.targets):
        reaches.append(RiskPart(25, "it reaches files outside the workspace"))
    if call.effect == "network" or (call.effect == "execute" and call.command is None):
        reaches.append(RiskPart(15, "it may reach beyond this machine"))
    undone = heaviest_part(losses)
    if context.contents_kept and undone.weight:
        undone = RiskPart(max(0, undone.weight - KEPT_CONTENT_DISCOUNT), f"{undone.reason} (what was there is kept)")
    # Whether the path matters, and whether the intent has worked there before
    names = target_paths(facts)
    sensitive = next(filter(is_sensitive_path, names), None)
    importance = NO_RISK
    if codes & {"PROTECTED_PATH", "INTENTIGNORE_PATH_BLOCKED"}:
        importance = RiskPart(15, "the path is protected or barred by .intentignore")
    elif sensitive is not None:
        importance = RiskPart(15, f"{sanitise_line(sensitive, 80)} is security- or release-relevant")
    familiar = context.familiar_folders
    known = familiar is None or all(parent_folder(name) in familiar for name in names)
    novelty = NO_RISK if known else RiskPart(5, "the intent has changed nothing there before")
    parts = (undone, heaviest_part(reaches), weigh_distance(decision, facts), importance, novelty)
    heaviest = sorted((part for part in parts if part.weight), key=lambda part: -part.weight)
    return sum(part.weight for part in parts), tuple(dict.fromkeys(part.reason for part in heaviest))[:2]


def weigh_distance(decision: Decision, facts: Facts) -> RiskPart:
    """Return the distance from the scope: 0 to 15."""
    codes = {finding.code for finding in decision.findings if finding.verdict != "allow"}
    if "MISSING_OR_INVALID_INTENT" in codes:
        return RiskPart(15, "it works under no intent")
    if codes & {"INTENT_CLOSED", "INTENT_NOT_FOUND", "INTENT_BLOCKED", "INTENT_IGNORED"}:
        return RiskPart(12, "its intent is not open")
    if "SCOPE_VIOLATION" not in codes:
        return NO_RISK
    owned = facts.active.owned_scope if facts.active else ()
    first = {pattern.partition("/")[0] for pattern in owned if not pattern.startswith("!")}
    near = all(str(target.path).partition("/")[0] in first for target in facts.targets if target.path is not None)
    return RiskPart(8, "it lies beside the scope") if near else RiskPart(12, "it lies outside the intent's scope")


def target_paths(facts: Facts) -> tuple[str, ...]:
    return tuple(str(t.path or t.resolved) for t in facts.targets)


def parent_folder(path: str) -> str:
    return path.rpartition("/")[0]


SENSITIVE_PATH = re.compile(
    r"(?:^|[/._-])(?:o?auth(?:n|z|entication|ori[sz]ation)?|security|secrets?|credentials?|passwords?|tokens?|crypto|"
    r"keys?|certs?|permissions?|"
    r"deploy\w{0,6}|release|infra|terraform|migrations?|workflows|ci|\.?env|dockerfile|makefile|codeowners|"
    r"(?:package-lock|yarn|uv|poetry|cargo|go|pnpm-lock|gemfile)\.(?:lock|sum|json|yaml))(?:$|[/._-])",
    re.IGNORECASE,
)
"""Names of files and folders that people look at twice: whole words of a path, so that `author.py` is none."""


def is_sensitive_path(path: str) -> bool:
    return SENSITIVE_PATH.search(path) is not None


MAX_COMMAND_CHARS = 16 * 1024  # Characters of a command; a longer command weighs as much as an unreadable one
MAX_SHELL_DEPTH = 3  # Shells within shells
MAX_WRAPPED_STARTS = 12  # Words of a wrapper at which the command that it runs may begin


class CommandRisk(Struct, frozen=True):
    """The risk of commands whose words, joined by blanks, match: `irreversibility` 0 to 40, `reach` 0 to 25."""

    words: str
    irreversibility: int
    reach: int
    why: str


COMMAND_RISKS = (
    CommandRisk(r"git push\b.*(?: --force| -\w*f| --delete| -d\b| --mirror| \+)", 40, 25,
        "it rewrites a shared branch"),
    CommandRisk(r"git push\b", 30, 20, "it reaches a shared branch"),
    CommandRisk(
        r"git (?:reset\b.* --hard|clean\b|checkout\b.* (?:--|\.)(?: |$)|restore\b|stash (?:drop|clear)|branch\b.* -D|"
        r"filter-\w+|reflog (?:expire|delete)|gc\b.* --prune|update-ref\b.* -d|worktree remove)",
        40, 0, "it discards work that git does not keep"
    ),
    CommandRisk(r"git (?:rebase|commit\b.* --amend|merge|cherry-pick|am|revert)\b", 25, 0,
        "it rewrites or adds history"),
    CommandRisk(r"(?:rm|rmdir|shred|unlink|truncate)\b", 40, 0, "it deletes"),
    CommandRisk(r"(?:find)\b.* -delete\b", 40, 0, "it deletes"),
    CommandRisk(r"(?:dd|mkfs[.\w]*|fdisk|parted|wipefs|mount|umount)\b", 40, 25, "it works on disks"),
    CommandRisk(r"(?:sudo|doas|su)\b", 30, 25, "it acts as the administrator"),
    CommandRisk(
        r"(?:(?:npm|pnpm|yarn|bun|cargo|uv|poetry|flit|hatch|pdm) publish|twine upload|gem push|docker push|"
        r"gh release)\b", 40, 25, "it publishes"
    ),
    CommandRisk(
        r"(?:kubectl|terraform|tofu|pulumi|helm|ansible[-\w]*|aws|gcloud|az|fly|flyctl|heroku|vercel|netlify)\b",
        35, 25, "it changes systems beyond this machine"
    ),
    CommandRisk(r"(?:psql|mysql|mongosh?|redis-cli|sqlite3|dropdb|createdb)\b", 35, 15, "it works on a database"),
    CommandRisk(
        r"(?:systemctl|service|launchctl|crontab|at|apt|apt-get|dnf|yum|pacman|brew|snap|useradd|userdel|usermod|passwd|"
        r"iptables|ufw|sysctl|kill|pkill|killall|shutdown|reboot|chown|chgrp|chmod)\b",
        30, 25, "it changes this machine"
    ),
    CommandRisk(r"(?:curl|wget|nc|ncat|netcat|ssh|scp|sftp|rsync|ftp|telnet)\b", 25, 15, "it reaches the network"),
    CommandRisk(
        r"(?:(?:pip3?|npm|pnpm|yarn|bun|uv|uv pip|poetry|pdm|pipx|cargo|go|gem|bundle|composer|conda)"
        r" (?:install|add|get|i|ci|sync|update|upgrade)|npx|uvx|bunx|docker (?:run|pull|build)|"
        r"git (?:clone|fetch|pull))\b", 25, 15, "it brings code from the network"
    ),
)  # fmt: skip
"""Of several matches the heaviest counts; none weighs less than an unknown command."""


def weigh_command(command: str) -> tuple[RiskPart, RiskPart]:
    """Return (what cannot be undone, how far the command reaches)."""
    if len(command) > MAX_COMMAND_CHARS:
        return UNREADABLE_COMMAND, NO_RISK
    try:
        texts = list(find_program_texts(command))
    except UnreadableShell:
        return UNREADABLE_COMMAND, NO_RISK
    found = [row for row in COMMAND_RISKS if any(re.match(row.words, text) for text in texts)]
    undone = heaviest_part([*(RiskPart(row.irreversibility, row.why) for row in found), UNKNOWN_CHANGES])
    return undone, heaviest_part([*(RiskPart(row.reach, row.why) for row in found), NO_RISK])


def heaviest_part(parts: Sequence[RiskPart]) -> RiskPart:
    return max(parts, key=lambda part: part.weight)


def find_program_texts(command: str, depth: int = 0) -> Iterator[str]:
    """Yield the words of each program, joined, and of the commands that wrappers may run. Raises UnreadableShell."""
    for simple_command in parse_command(command).commands:
        words = [word.text for word in simple_command.words]
        while words and re.match(r"\w+=", words[0]):
            words = words[1:]
        wraps = bool(words) and has_role(words[0].rpartition("/")[2], "runner")
        for at in range(min(len(words), MAX_WRAPPED_STARTS if wraps else 1)):
            yield " ".join((words[at].rpartition("/")[2], *words[at + 1 :]))
        if wraps and depth < MAX_SHELL_DEPTH:
            yield from (text for word in words[1:] if " " in word for text in find_program_texts(word, depth + 1))
