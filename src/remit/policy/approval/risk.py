"""How much an action could cost, 0 to 100, and the two strongest reasons: what a person sees beside a question.

Five parts, each with a most: can it be undone (40), how far it reaches (25), how far from the scope it lies (15),
whether the path matters for security or release (15), and whether the intent has been there before (5).

What a command could cost, by the programs that it names: whether it can be undone, and how far it reaches.

This weighs a question for a person and decides nothing: what a command may do, `policy.commands` says.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts, Target
from remit.core.shell.simple_commands import UnreadableShell, parse_simple_commands
from remit.policy.commands.parse.options import word_set

MAX_COMMAND_CHARS = 16 * 1024
"""Characters of a command that are looked at; a longer one weighs as one that cannot be read."""

MAX_SHELL_DEPTH = 3
"""Shells within shells."""

WRAPPER_PROGRAMS = word_set(
    "sudo doas su env xargs find nohup nice ionice timeout time setsid stdbuf command builtin exec eval sh bash dash "
    "zsh ksh parallel watch flock"
)
"""They run what stands behind them."""


class RiskPart(Struct, frozen=True):
    """One part of a risk, and the reason for it."""

    weight: int
    reason: str = ""


NO_RISK = RiskPart(0)
UNKNOWN_CHANGES = RiskPart(25, "what a command changes cannot be told from its text")
UNREADABLE_COMMAND = RiskPart(35, "the command cannot be read")


class CommandRisk(Struct, frozen=True):
    """Commands whose words match, joined by blanks: what they cost (0 to 40), how far they reach (0 to 25), and why."""

    words: re.Pattern[str]
    irreversibility: int
    reach: int
    why: str


def command_risk(words: str, irreversibility: int, reach: int, reason: str) -> CommandRisk:
    """One row."""
    return CommandRisk(re.compile(words), irreversibility, reach, reason)


COMMAND_RISKS = (
    command_risk(
        r"git push\b.*(?: --force| -\w*f| --delete| -d\b| --mirror| \+)", 40, 25, "it rewrites a shared branch"
    ),
    command_risk(r"git push\b", 30, 20, "it reaches a shared branch"),
    command_risk(
        r"git (?:reset\b.* --hard|clean\b|checkout\b.* (?:--|\.)(?: |$)|restore\b|stash (?:drop|clear)|branch\b.* -D|"
        r"filter-\w+|reflog (?:expire|delete)|gc\b.* --prune|update-ref\b.* -d|worktree remove)",
        40,
        0,
        "it discards work that git does not keep",
    ),
    command_risk(
        r"git (?:rebase|commit\b.* --amend|merge|cherry-pick|am|revert)\b", 25, 0, "it rewrites or adds history"
    ),
    command_risk(r"(?:rm|rmdir|shred|unlink|truncate)\b", 40, 0, "it deletes"),
    command_risk(r"(?:find)\b.* -delete\b", 40, 0, "it deletes"),
    command_risk(r"(?:dd|mkfs[.\w]*|fdisk|parted|wipefs|mount|umount)\b", 40, 25, "it works on disks"),
    command_risk(r"(?:sudo|doas|su)\b", 30, 25, "it acts as the administrator"),
    command_risk(
        r"(?:(?:npm|pnpm|yarn|bun|cargo|uv|poetry|flit|hatch|pdm) publish|twine upload|gem push|docker push|"
        r"gh release)\b",
        40,
        25,
        "it publishes",
    ),
    command_risk(
        r"(?:kubectl|terraform|tofu|pulumi|helm|ansible[-\w]*|aws|gcloud|az|fly|flyctl|heroku|vercel|netlify)\b",
        35,
        25,
        "it changes systems beyond this machine",
    ),
    command_risk(r"(?:psql|mysql|mongosh?|redis-cli|sqlite3|dropdb|createdb)\b", 35, 15, "it works on a database"),
    command_risk(
        r"(?:systemctl|service|launchctl|crontab|at|apt|apt-get|dnf|yum|pacman|brew|snap|useradd|userdel|usermod|passwd|"
        r"iptables|ufw|sysctl|kill|pkill|killall|shutdown|reboot|chown|chgrp|chmod)\b",
        30,
        25,
        "it changes this machine",
    ),
    command_risk(r"(?:curl|wget|nc|ncat|netcat|ssh|scp|sftp|rsync|ftp|telnet)\b", 25, 15, "it reaches the network"),
    command_risk(
        r"(?:(?:pip3?|npm|pnpm|yarn|bun|uv|uv pip|poetry|pdm|pipx|cargo|go|gem|bundle|composer|conda)"
        r" (?:install|add|get|i|ci|sync|update|upgrade)|npx|uvx|bunx|docker (?:run|pull|build)|"
        r"git (?:clone|fetch|pull))\b",
        25,
        15,
        "it brings code from the network",
    ),
)
"""Of several that match, the heaviest counts; none weighs less than a command that no row knows."""


def weigh_command(command: str) -> tuple[RiskPart, RiskPart]:
    """(what cannot be undone, how far it reaches)."""
    if len(command) > MAX_COMMAND_CHARS:
        return UNREADABLE_COMMAND, NO_RISK
    try:
        texts = list(run_texts(command))
    except UnreadableShell:
        return UNREADABLE_COMMAND, NO_RISK
    found = [row for row in COMMAND_RISKS if any(row.words.match(text) for text in texts)]
    undone = heaviest_part([*(RiskPart(row.irreversibility, row.why) for row in found), UNKNOWN_CHANGES])
    return undone, heaviest_part([*(RiskPart(row.reach, row.why) for row in found), NO_RISK])


def heaviest_part(parts: Sequence[RiskPart]) -> RiskPart:
    """The part that weighs most; of equals the first."""
    return max(parts, key=lambda part: part.weight)


def run_texts(command: str, depth: int = 0) -> Iterator[str]:
    """The words of each program that the text runs, joined; what a wrapper runs, too. Raises UnreadableShell."""
    for one in parse_simple_commands(command):
        words = skip_assignments(tuple(word.text for word in one.words))
        if not words:
            continue
        yield join_words(words)
        if words[0].rpartition("/")[2] in WRAPPER_PROGRAMS:
            yield from (join_words(words[at:]) for at in range(1, min(len(words), 12)))
            if depth < MAX_SHELL_DEPTH:
                yield from (text for word in words[1:] if " " in word for text in run_texts(word, depth + 1))


def skip_assignments(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words from the program on."""
    at = next((i for i, word in enumerate(words) if not re.match(r"\w+=", word)), len(words))
    return words[at:]


def join_words(words: tuple[str, ...]) -> str:
    """The words as the table reads them: the program by its name alone."""
    return " ".join((words[0].rpartition("/")[2], *words[1:]))


KEPT_CONTENT_DISCOUNT = 15
"""What it takes off that the content before is kept."""

SENSITIVE_PATH = re.compile(
    r"(?:^|[/._-])(?:o?auth(?:n|z|entication|ori[sz]ation)?|security|secrets?|credentials?|passwords?|tokens?|crypto|"
    r"keys?|certs?|permissions?|"
    r"deploy\w{0,6}|release|infra|terraform|migrations?|workflows|ci|\.?env|dockerfile|makefile|codeowners|"
    r"(?:package-lock|yarn|uv|poetry|cargo|go|pnpm-lock|gemfile)\.(?:lock|sum|json|yaml))(?:$|[/._-])",
    re.IGNORECASE,
)
"""Names of files and folders that people look at twice: whole words of a path, so that `author.py` is none."""


class RiskContext(Struct, frozen=True):
    """What else weighs. `kept`: what the files hold now is kept before the call runs, and can be brought back.

    `familiar` are the folders that the intent has changed before; None where that is not known.
    """

    contents_kept: bool = False
    familiar_folders: frozenset[str] | None = None


NO_CONTEXT = RiskContext()


def weigh_risk(
    call: ToolCall, decision: Decision, facts: Facts, context: RiskContext = NO_CONTEXT
) -> tuple[int, tuple[str, ...]]:
    """0 to 100, and the reasons that weigh most; the heaviest two."""
    undone, reach = weigh_action(call, decision, facts)
    if context.contents_kept and undone.weight:
        undone = RiskPart(max(0, undone.weight - KEPT_CONTENT_DISCOUNT), f"{undone.reason} (what was there is kept)")
    parts = (
        undone,
        reach,
        weigh_distance(decision, facts),
        weigh_importance(decision, facts),
        weigh_novelty(facts, context),
    )
    told = sorted((p for p in parts if p.weight), key=lambda p: -p.weight)
    return sum(p.weight for p in parts), tuple(dict.fromkeys(p.reason for p in told))[:2]


def weigh_action(call: ToolCall, decision: Decision, facts: Facts) -> tuple[RiskPart, RiskPart]:
    """What cannot be undone (0 to 40), and how far it reaches (0 to 25)."""
    undone, reach = weigh_command(call.command) if call.command is not None else (NO_RISK, NO_RISK)
    return heaviest_part([undone, *find_losses(call, decision, facts)]), heaviest_part(
        [reach, *find_reach(call, facts)]
    )


def find_losses(call: ToolCall, decision: Decision, facts: Facts) -> list[RiskPart]:
    """What a call of a file tool, or of one that nobody knows, may lose."""
    found = [NO_RISK]
    if any(f.code == "STALE_FILE" for f in decision.findings):
        found.append(RiskPart(35, "it would overwrite a change that this session has not seen"))
    if call.effect == "delete":
        found.append(RiskPart(30, "it deletes"))
    if call.command is None and (call.whole_workspace or call.effect == "execute"):
        found.append(RiskPart(25, "what it changes cannot be told from its text"))
    if any(t.sha256 is not None for t in facts.targets):
        found.append(RiskPart(15, "it changes what is there"))
    return found


def find_reach(call: ToolCall, facts: Facts) -> list[RiskPart]:
    """How far a call goes beyond the workspace."""
    found = [NO_RISK]
    if any(t.path is None and not t.tolerated for t in facts.targets):
        found.append(RiskPart(25, "it reaches files outside the workspace"))
    if call.effect == "network" or (call.effect == "execute" and call.command is None):
        found.append(RiskPart(15, "it may reach beyond this machine"))
    return found


def weigh_distance(decision: Decision, facts: Facts) -> RiskPart:
    """How far from the scope it lies: 0 to 15."""
    codes = {f.code for f in decision.findings if f.verdict != "allow"}
    if "MISSING_OR_INVALID_INTENT" in codes:
        return RiskPart(15, "it works under no intent")
    if codes & {"INTENT_CLOSED", "INTENT_NOT_FOUND", "INTENT_BLOCKED", "INTENT_IGNORED"}:
        return RiskPart(12, "its intent is not open")
    if "SCOPE_VIOLATION" not in codes:
        return NO_RISK
    owned = facts.active.owned_scope if facts.active else ()
    first = {pattern.partition("/")[0] for pattern in owned if not pattern.startswith("!")}
    near = all(str(t.path).partition("/")[0] in first for t in facts.targets if t.path is not None)
    return RiskPart(8, "it lies beside the scope") if near else RiskPart(12, "it lies outside the intent's scope")


def weigh_importance(decision: Decision, facts: Facts) -> RiskPart:
    """Whether the path is one that people look at twice: 0 to 15."""
    if any(f.code in ("PROTECTED_PATH", "INTENTIGNORE_PATH_BLOCKED") for f in decision.findings):
        return RiskPart(15, "the path is protected or barred by .intentignore")
    named = next((t for t in facts.targets if is_sensitive_path(target_name(t))), None)
    if named is None:
        return NO_RISK
    return RiskPart(15, f"{sanitise_line(target_name(named), 80)} is security- or release-relevant")


def weigh_novelty(facts: Facts, context: RiskContext) -> RiskPart:
    """Whether the intent changed anything there before: 0 to 5."""
    if context.familiar_folders is None:
        return NO_RISK
    new = next((t for t in facts.targets if parent_folder(target_name(t)) not in context.familiar_folders), None)
    return NO_RISK if new is None else RiskPart(5, "the intent has changed nothing there before")


def target_name(target: Target) -> str:
    """The target as people name it."""
    return str(target.path if target.path is not None else target.resolved)


def parent_folder(path: str) -> str:
    """The folder of a path; empty at the top."""
    return path.rpartition("/")[0]


def is_sensitive_path(path: str) -> bool:
    """Whether a path, or a pattern of paths, is one that people look at twice."""
    return SENSITIVE_PATH.search(path) is not None
