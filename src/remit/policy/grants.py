"""What a person's yes covers, and how far one may go."""

import shlex
from collections.abc import Iterable

from msgspec import Struct

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts
from remit.core.globs import Scope, glob_error
from remit.core.grant import HIGH_RISK, Extent, Grant, held, proposed_pattern
from remit.policy.commands.prefix import covers_command, prefix


class RuleRefused(ValueError):
    """A yes cannot go as far as it was meant to. The message says how far it may."""


class Subject(Struct, frozen=True):
    """What a yes would be about. `path` and `prefix` are what a wider one may cover; without both, the tool."""

    tool: str
    risk: int
    path: str | None = None
    prefix: tuple[str, ...] = ()
    is_command: bool = False


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
    """Whether the grant waives exactly this finding: the same rule, all that it is about, and its holder."""
    if grant.code != finding.code or not held(grant, call.session.session_id, facts.session.intent_id):
        return False
    about = paths_of(finding) or (() if call.command is not None else touched(facts))
    if about:
        return grant.pattern is not None and all(Scope((grant.pattern,)).matches(path) for path in about)
    if call.command is not None:
        return covers_command(grant.command, call.command)
    return grant.tool is not None and grant.tool == call.tool


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
    wrong = glob_error(pattern)
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
    return words
