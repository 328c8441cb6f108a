"""What a person's yes covers, and how far one may go."""

import shlex
from collections.abc import Iterable

from msgspec import Struct

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts
from remit.core.globs import Scope, glob_error, is_absolute_pattern
from remit.core.grant import HIGH_RISK, NEVER_WAIVED, Extent, Grant, held, proposed_pattern
from remit.core.text import shown
from remit.policy.commands.prefix import covers_command, prefix, words_of
from remit.policy.deeds import command_weight


class RuleRefused(ValueError):
    """A yes cannot go as far as it was meant to. The message says how far it may."""


class Subject(Struct, frozen=True):
    """What a yes would be about. `path` and `prefix` are what a wider one may cover; without both, the tool.

    `command` is the command that was asked about, as far as it is known: a rule for another one is refused.
    """

    tool: str
    risk: int
    path: str | None = None
    prefix: tuple[str, ...] = ()
    is_command: bool = False
    command: str = ""


class Rule(Struct, frozen=True):
    """What a yes covers, as a Grant holds it."""

    pattern: str | None = None
    command: tuple[str, ...] = ()
    tool: str | None = None

    @property
    def shown(self) -> str:
        """The rule for people; empty for a yes to one call."""
        return self.pattern or " ".join(self.command) or self.tool or ""


def covers(grant: Grant, finding: Finding, call: ToolCall, facts: Facts) -> bool:
    """Whether the grant waives exactly this finding: the same rule, all that it is about, and its holder.

    A grant may have been written by hand: what goes too far covers nothing.
    """
    if grant.code != finding.code or not held(grant, call.session.session_id, facts.session.intent_id):
        return False
    if not is_grantable(finding) or too_heavy(call):
        return False
    about = paths_of(finding) or (() if call.command is not None else touched(facts))
    if about:
        return grant.pattern is not None and all(Scope((grant.pattern,)).matches(path) for path in about)
    if call.command is not None:
        return bool(grant.command and prefix(grant.command)) and covers_command(grant.command, call.command)
    return grant.tool is not None and grant.tool == call.tool


def is_grantable(finding: Finding) -> bool:
    """Whether a yes may ever waive this: not what guards the rules, nor a command that no agent may run."""
    barred = finding.code == "COMMAND_BLOCKED" and finding.verdict == "deny"
    return finding.code not in NEVER_WAIVED and not barred


def too_heavy(call: ToolCall) -> bool:
    """Whether a command weighs so much by itself that each needs a yes of its own."""
    if call.command is None:
        return False
    undone, reach = command_weight(call.command)
    return undone.weight + reach.weight > HIGH_RISK


def paths_of(finding: Finding) -> tuple[str, ...]:
    """The paths that a finding is about."""
    found: Iterable[object] = finding.context.get("paths", [finding.path] if finding.path else [])
    return tuple(map(str, found))


def touched(facts: Facts) -> tuple[str, ...]:
    """The paths that a call names."""
    return tuple(str(t.path or t.resolved) for t in facts.targets)


def rule_for(subject: Subject, extent: Extent, given: str | None = None) -> Rule:
    """The rule of a yes, as it is offered or as a person wrote it. Raises RuleRefused."""
    if extent == "once":
        return Rule(pattern=given or proposed_pattern(subject.path, extent))
    if subject.risk > HIGH_RISK:
        raise RuleRefused(f"its risk is {subject.risk} of 100: above {HIGH_RISK}, a yes is for this once")
    if subject.path is not None:
        return Rule(pattern=path_rule(subject.path, extent, given))
    if subject.is_command:
        return Rule(command=command_rule(subject, given))
    return Rule(tool=subject.tool)


def path_rule(path: str, extent: Extent, given: str | None) -> str:
    """The pattern, which has to cover the path that was asked about. Raises RuleRefused."""
    pattern = given or proposed_pattern(path, extent) or path
    wrong = (
        "it is absolute; patterns start at the workspace root" if is_absolute_pattern(pattern) else glob_error(pattern)
    )
    if wrong is not None:
        raise RuleRefused(f"{pattern!r} is not a pattern: {wrong}")
    if not Scope((pattern,)).matches(path):
        raise RuleRefused(f"{pattern!r} does not cover {path!r}, which is what was asked")
    return pattern


def command_rule(subject: Subject, given: str | None) -> tuple[str, ...]:
    """The first words of the commands. Raises RuleRefused."""
    if not subject.prefix:
        raise RuleRefused(
            "no words of this command say enough (a shell, a pipe, a program that runs others …), so a yes is for once"
        )
    if given is None:
        return subject.prefix
    try:
        words = tuple(shlex.split(given))
    except ValueError as error:
        raise RuleRefused(f"{given!r} cannot be cut into words: {error}") from error
    if words[: len(subject.prefix)] != subject.prefix or not prefix(words):
        raise RuleRefused(f"{given!r} has to begin with {' '.join(subject.prefix)!r}")
    asked = words_of(subject.command, loose=True)
    if asked is not None and asked[: len(words)] != words:
        raise RuleRefused(f"{given!r} does not cover {shown(subject.command, 200)!r}, which is what was asked")
    return words
