"""How far a yes may go, and what it covers."""

import pytest

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts, SessionFacts, Target
from remit.core.globs import Scope
from remit.core.grant import Extent, Grant, escaped
from remit.core.repopath import RepoPath
from remit.policy.grants import RuleRefused, Subject, covers, rule_for

WRITE = Subject("Write", 10, path="docs/a.md")
SHELL = Subject("Bash", 25, prefix=("git", "log"), is_command=True)
TOOL = Subject("mcp__x__deploy", 40)


@pytest.mark.parametrize(
    ("subject", "extent", "given", "rule"),
    [
        (WRITE, "once", None, "docs/a.md"),
        (WRITE, "session", None, "docs/**"),
        (WRITE, "project", "docs/*.md", "docs/*.md"),
        (Subject("Write", 10, path="top.md"), "intent", None, "top.md"),
        (SHELL, "once", None, ""),
        (SHELL, "intent", None, "git log"),
        (SHELL, "intent", "git log --oneline", "git log --oneline"),
        (TOOL, "session", None, "mcp__x__deploy"),
    ],
)
def test_the_rule_of_a_yes(subject: Subject, extent: Extent, given: str | None, rule: str) -> None:
    assert rule_for(subject, extent, given).shown == rule


@pytest.mark.parametrize(
    ("subject", "given"),
    [
        (Subject("Write", 61, path="docs/a.md"), None),
        (Subject("Bash", 61, prefix=("git", "push"), is_command=True), None),
        (Subject("Bash", 25, is_command=True), None),
        (Subject("Bash", 25, prefix=("git", "log"), is_command=True, command="cd a && git log -3"), "git log --all"),
        (WRITE, "/w/docs/**"),
        (Subject("Bash", 25, is_command=True), "python x.py"),
        (WRITE, "src/**"),
        (WRITE, "!docs/**"),
        (WRITE, "docs/["),
        (SHELL, "git"),
        (SHELL, "git push"),
        (SHELL, "git 'log"),
        (SHELL, ""),
    ],
)
def test_a_yes_that_would_go_too_far_is_refused(subject: Subject, given: str | None) -> None:
    for extent in ("session", "intent", "project"):
        with pytest.raises(RuleRefused):
            rule_for(subject, extent, given)


def call(command: str | None = None, tool: str = "Write") -> ToolCall:
    return ToolCall("a", SessionKey("s"), tool, "execute" if command else "write", "/w", command=command)


def at(*paths: str) -> Facts:
    found = tuple(Target(p, f"/w/{p}", RepoPath.of(p, "/w")) for p in paths)
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
    assert covers(held, NO_PATH, asked, facts) is covered
    other = ToolCall(asked.agent, SessionKey("t"), asked.tool, asked.effect, asked.cwd, command=asked.command)
    assert not covers(held, NO_PATH, other, facts)


@pytest.mark.parametrize("path", ["a*b", "a[b]", "a{b,c}", "!a", "a\\b", "a?", "docs/[x]/{y}.md"])
def test_an_odd_name_is_covered_by_its_own_pattern_and_nothing_else_is(path: str) -> None:
    assert Scope((escaped(path),)).matches(path)
    assert not Scope((escaped(path),)).matches("axb")
    assert not Scope((escaped(path),)).matches("ab")
