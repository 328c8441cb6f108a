"""The limits and the extent of grants."""

import pytest

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Extent, Facts, Finding, Grant, SessionFacts, Target, escape_pattern
from remit.core.scope.path_patterns import RepoPath, Scope
from remit.policy.grants import GrantRuleError, GrantSubject, covers_finding, make_rule

WRITE = GrantSubject("Write", 10, path="docs/a.md")
SHELL = GrantSubject("Bash", 25, prefix=("git", "log"), is_command=True)
TOOL = GrantSubject("mcp__x__deploy", 40)


@pytest.mark.parametrize(
    ("subject", "extent", "given", "rule"),
    [
        (WRITE, "once", None, "docs/a.md"),
        (WRITE, "session", None, "docs/**"),
        (WRITE, "project", "docs/*.md", "docs/*.md"),
        (GrantSubject("Write", 10, path="top.md"), "intent", None, "top.md"),
        (SHELL, "once", None, ""),
        (SHELL, "intent", None, "git log"),
        (SHELL, "intent", "git log --oneline", "git log --oneline"),
        (TOOL, "session", None, "mcp__x__deploy"),
    ],
)
def test_the_rule_of_a_yes(subject: GrantSubject, extent: Extent, given: str | None, rule: str) -> None:
    assert make_rule(subject, extent, given).text == rule


@pytest.mark.parametrize(
    ("subject", "given"),
    [
        (GrantSubject("Write", 61, path="docs/a.md"), None),
        (GrantSubject("Bash", 61, prefix=("git", "push"), is_command=True), None),
        (GrantSubject("Bash", 25, is_command=True), None),
        (
            GrantSubject("Bash", 25, prefix=("git", "log"), is_command=True, command="cd a && git log -3"),
            "git log --all",
        ),
        (WRITE, "/w/docs/**"),
        (GrantSubject("Bash", 25, is_command=True), "python x.py"),
        (WRITE, "src/**"),
        (WRITE, "!docs/**"),
        (WRITE, "docs/["),
        (SHELL, "git"),
        (SHELL, "git push"),
        (SHELL, "git 'log"),
        (SHELL, ""),
    ],
)
def test_a_yes_that_would_go_too_far_is_refused(subject: GrantSubject, given: str | None) -> None:
    for extent in ("session", "intent", "project"):
        with pytest.raises(GrantRuleError):
            make_rule(subject, extent, given)


def call(command: str | None = None, tool: str = "Write") -> ToolCall:
    return ToolCall("a", SessionKey("s"), tool, "execute" if command else "write", "/w", command=command)


def at(*paths: str) -> Facts:
    found = tuple(Target(p, f"/w/{p}", RepoPath.parse(p, "/w")) for p in paths)
    return Facts("enforce", SessionFacts("INT-001"), targets=found)


NO_PATH = Finding("r", "MISSING_OR_INVALID_INTENT", "m")


@pytest.mark.parametrize(
    ("grant", "asked", "facts", "covered"),
    [
        ({"pattern": "docs/**"}, call(), at("docs/a.md"), True),
        ({"pattern": "docs/**"}, call(), at("docs/a.md", "src/a.py"), False),
        ({"pattern": "docs/**"}, call("make x"), at(), False),
        ({"command": ("make", "x")}, call("make x"), at(), True),
        ({"command": ("make", "x")}, call("make y"), at(), False),
        ({"command": ("make", "x")}, call(), at("docs/a.md"), False),
        ({"tool": "deploy"}, call(tool="deploy"), at(), True),
        ({"tool": "deploy"}, call(tool="other"), at(), False),
        ({"tool": "Bash"}, call("make x", tool="Bash"), at(), False),
        ({}, call(), at(), False),
        ({}, call("make x"), at(), False),
        ({}, call(), at("docs/a.md"), False),
    ],
)
def test_a_grant_covers_what_it_names_and_no_more(
    grant: dict[str, object], asked: ToolCall, facts: Facts, covered: bool
) -> None:
    held = Grant(id="g", code="MISSING_OR_INVALID_INTENT", extent="session", session_id="s", **grant)  # pyright: ignore[reportArgumentType]
    assert covers_finding(held, NO_PATH, asked, facts) is covered
    other = ToolCall(asked.agent, SessionKey("t"), asked.tool, asked.effect, asked.cwd, command=asked.command)
    assert not covers_finding(held, NO_PATH, other, facts)


@pytest.mark.parametrize("path", ["a*b", "a[b]", "a{b,c}", "!a", "a\\b", "a?", "docs/[x]/{y}.md"])
def test_an_odd_name_is_covered_by_its_own_pattern_and_nothing_else_is(path: str) -> None:
    assert Scope((escape_pattern(path),)).matches(path)
    assert not Scope((escape_pattern(path),)).matches("axb")
    assert not Scope((escape_pattern(path),)).matches("ab")
