"""Grants: what a person's approval covers, and how far an approval may go."""

import shlex
from collections.abc import Iterable

from msgspec import Struct

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts
from remit.core.grant import HIGH_RISK, UNWAIVABLE_CODES, Extent, Grant, applies_to_session, suggest_pattern
from remit.core.scope.globs import Scope, glob_error, is_absolute_pattern
from remit.policy.approval.command_prefix import covers_command, literal_words, specific_prefix
from remit.policy.approval.risk import weigh_command


class GrantRuleError(ValueError):
    """A grant beyond the limits. The message names the limit."""


class GrantSubject(Struct, frozen=True):
    """The subject of a question. A wider grant may cover `path` or `prefix`; without both, the tool.

    `command` is the command in question, if known: the rule must cover the command.
    """

    tool: str
    risk: int
    path: str | None = None
    prefix: tuple[str, ...] = ()
    is_command: bool = False
    command: str = ""


class GrantRule(Struct, frozen=True):
    """The extent of a grant."""

    pattern: str | None = None
    command: tuple[str, ...] = ()
    tool: str | None = None

    @property
    def text(self) -> str:
        return self.pattern or " ".join(self.command) or self.tool or ""


def covers_finding(grant: Grant, finding: Finding, call: ToolCall, facts: Facts) -> bool:
    """Return True if the grant waives this finding: same code, all paths or the command, same holder.

    A person may have written the grant by hand: a grant beyond the limits covers no finding.
    """
    if grant.code != finding.code or not applies_to_session(grant, call.session.session_id, facts.session.intent_id):
        return False
    if not is_grantable(finding) or is_too_risky(call):
        return False
    about = finding_paths(finding) or (() if call.command is not None else target_paths(facts))
    if about:
        return grant.pattern is not None and all(Scope((grant.pattern,)).matches(path) for path in about)
    if call.command is not None:
        return bool(grant.command and specific_prefix(grant.command)) and covers_command(grant.command, call.command)
    return grant.tool is not None and grant.tool == call.tool


def is_grantable(finding: Finding) -> bool:
    barred = finding.code == "COMMAND_BLOCKED" and finding.verdict == "deny"
    return finding.code not in UNWAIVABLE_CODES and not barred


def is_too_risky(call: ToolCall) -> bool:
    if call.command is None:
        return False
    undone, reach = weigh_command(call.command)
    return undone.weight + reach.weight > HIGH_RISK


def finding_paths(finding: Finding) -> tuple[str, ...]:
    found: Iterable[object] = finding.context.get("paths", [finding.path] if finding.path else [])
    return tuple(map(str, found))


def target_paths(facts: Facts) -> tuple[str, ...]:
    return tuple(str(t.path or t.resolved) for t in facts.targets)


def make_rule(subject: GrantSubject, extent: Extent, given: str | None = None) -> GrantRule:
    """Return the rule of a grant, as proposed or as a person wrote it. Raises GrantRuleError."""
    if extent == "once":
        return GrantRule(pattern=given or suggest_pattern(subject.path, extent))
    if subject.risk > HIGH_RISK:
        raise GrantRuleError(f"its risk is {subject.risk} of 100: above {HIGH_RISK}, a yes is for this once")
    if subject.path is not None:
        return GrantRule(pattern=make_path_rule(subject.path, extent, given))
    if subject.is_command:
        return GrantRule(command=make_command_rule(subject, given))
    return GrantRule(tool=subject.tool)


def make_path_rule(path: str, extent: Extent, given: str | None) -> str:
    """Return the pattern, which must cover the path in question. Raises GrantRuleError."""
    pattern = given or suggest_pattern(path, extent) or path
    wrong = (
        "it is absolute; patterns start at the workspace root" if is_absolute_pattern(pattern) else glob_error(pattern)
    )
    if wrong is not None:
        raise GrantRuleError(f"{pattern!r} is not a pattern: {wrong}")
    if not Scope((pattern,)).matches(path):
        raise GrantRuleError(f"{pattern!r} does not cover {path!r}, which is what was asked")
    return pattern


def make_command_rule(subject: GrantSubject, given: str | None) -> tuple[str, ...]:
    """Return the first words of the covered commands. Raises GrantRuleError."""
    if not subject.prefix:
        raise GrantRuleError(
            "no words of this command say enough (a shell, a pipe, a program that runs others …), so a yes is for once"
        )
    if given is None:
        return subject.prefix
    try:
        words = tuple(shlex.split(given))
    except ValueError as error:
        raise GrantRuleError(f"{given!r} cannot be cut into words: {error}") from error
    if words[: len(subject.prefix)] != subject.prefix or not specific_prefix(words):
        raise GrantRuleError(f"{given!r} has to begin with {' '.join(subject.prefix)!r}")
    asked = literal_words(subject.command, loose=True)
    if asked is not None and asked[: len(words)] != words:
        raise GrantRuleError(
            f"{given!r} does not cover {sanitise_line(subject.command, 200)!r}, which is what was asked"
        )
    return words
