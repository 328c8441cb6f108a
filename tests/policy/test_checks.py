"""The finding of each check."""

import pytest
from msgspec.structs import replace

from remit.core.call import Citation, SessionKey, ToolCall
from remit.core.decision import DeniedPath, ErrorType, Facts, Finding, Grant, SessionFacts, Target, Verdict
from remit.core.intent import Intent, IntentSet, LintFinding, Status
from remit.core.scope.path_patterns import RepoPath
from remit.policy.checks.call import mark_repeated_denial
from remit.policy.decide import CHECKS

SHA, OTHER = "a" * 64, "b" * 64


def intents(status: Status = "IN_PROGRESS", *scope: str) -> IntentSet:
    other = Intent("INT-002", ("docs/**",), status="IN_PROGRESS")
    return IntentSet((Intent("INT-001", scope or ("src/**",), status=status, blocked_reason="waits"), other))


def target(path: str = "src/x", **fields: object) -> Target:
    values: dict[str, object] = {"raw": path, "resolved": f"/w/{path}", "path": RepoPath.parse(path, "/w"), **fields}
    return Target(**values)  # pyright: ignore[reportArgumentType]


ACTIVE = SessionFacts("INT-001", "selected")
CALL = ToolCall(agent="a", session=SessionKey("s"), tool="Write", effect="write", cwd="/w")
EDIT = ToolCall(agent="a", session=SessionKey("s"), tool="Edit", effect="write", cwd="/w", checks_itself=True)
CITING = ToolCall(
    agent="a", session=SessionKey("s"), tool="Write", effect="write", cwd="/w", citation=Citation("INT-002")
)
WITH_HASH = ToolCall(
    agent="a",
    session=SessionKey("s"),
    tool="Write",
    effect="write",
    cwd="/w",
    citation=Citation("INT-001", None, f"sha256:{SHA}"),
)
MALFORMED_CALL = ToolCall(agent="a", session=SessionKey("s"), tool="W", effect="write", cwd="/w", malformed="no path")
SHELL = ToolCall(agent="a", session=SessionKey("s"), tool="Bash", effect="execute", cwd="/w", command="tee docs/'x'")
UNREADABLE = ToolCall(
    agent="a", session=SessionKey("s"), tool="Bash", effect="execute", cwd="/w", command="tee docs/x '"
)
DENIED_PATH = DeniedPath("docs/x", "SCOPE_VIOLATION", "Write", ("docs/x",))
MISMATCHED_PATH = DeniedPath("docs/x", "INTENT_MISMATCH", "Write", ("docs/x",))
LEASED_PATH = DeniedPath("docs/x", "FILE_LEASED", "Write", ("docs/x",))
NARROWED = SessionFacts("INT-001", "selected", narrow=(("src/**",),))
GRANT = Grant("g", "SCOPE_VIOLATION", "session", "docs/**", session_id="s")
EVERYTHING = intents("IN_PROGRESS", "**")
ERROR = LintFinding("YAML_PARSE_ERROR", "error", "broken", line=3, column=4)
OUTSIDE = Target(raw="/etc/x", resolved="/etc/x", path=None)
TOLERATED_TARGET = Target(raw="/tmp/x", resolved="/tmp/x", path=None, tolerated=True)


def facts(*targets: Target, **fields: object) -> Facts:
    values: dict[str, object] = {"mode": "enforce", "session": ACTIVE, "intents": intents(), **fields}
    return Facts(targets=targets, **values)  # pyright: ignore[reportArgumentType]


CASES: list[tuple[str, ToolCall, Facts, ErrorType | None]] = [
    ("arguments", CALL, facts(), None),
    ("arguments", MALFORMED_CALL, facts(), "INVALID_ARGUMENTS"),
    ("intents_file", CALL, facts(), None),
    ("intents_file", CALL, facts(config_error="bad"), "CONFIG_INVALID"),
    ("intents_file", CALL, facts(intents_state="invalid", intents_findings=(ERROR,)), "INTENTS_FILE_INVALID"),
    ("intents_file", CALL, facts(intents_state="missing"), None),
    ("protected", CALL, facts(target(), target(".git/x", protected="git's")), "PROTECTED_PATH"),
    ("protected", CALL, facts(target()), None),
    ("outside", CALL, facts(target(), OUTSIDE), "OUTSIDE_WORKSPACE"),
    ("outside", CALL, facts(target(strange="has other names")), "OUTSIDE_WORKSPACE"),
    ("outside", CALL, facts(target(strange="has other names", protected="git's")), None),
    ("outside", CALL, facts(TOLERATED_TARGET), None),
    ("outside", CALL, facts(replace(OUTSIDE, protected="the agent's")), None),
    ("active_intent", CALL, facts(session=SessionFacts()), "MISSING_OR_INVALID_INTENT"),
    ("active_intent", CALL, facts(), None),
    ("active_intent", CALL, facts(session=SessionFacts("INT-009")), "INTENT_NOT_FOUND"),
    ("active_intent", CALL, facts(intents=intents("BLOCKED")), "INTENT_BLOCKED"),
    ("active_intent", CALL, facts(intents=intents("DONE")), "INTENT_CLOSED"),
    ("active_intent", CALL, facts(intents=intents("ABORTED")), "INTENT_CLOSED"),
    ("active_intent", CALL, facts(ignored_intents=frozenset({"INT-001"})), "INTENT_IGNORED"),
    ("mismatch", CITING, facts(), "INTENT_MISMATCH"),
    ("mismatch", WITH_HASH, facts(), None),
    ("mismatch", CALL, facts(), None),
    ("mismatch", CITING, facts(session=SessionFacts()), None),
    ("ignored", CALL, facts(target(ignored_by="*.lock")), "INTENTIGNORE_PATH_BLOCKED"),
    ("scope", CALL, facts(target()), None),
    ("scope", CALL, facts(target(), target("docs/x")), "SCOPE_VIOLATION"),
    ("scope", CALL, facts(target("SRC/x")), "SCOPE_VIOLATION"),
    ("scope", CALL, facts(target("SRC/x", folds=True)), None),
    ("scope", CALL, facts(target("."), intents=EVERYTHING), "SCOPE_VIOLATION"),
    ("scope", CALL, facts(TOLERATED_TARGET), None),
    ("scope", CALL, facts(target(), session=NARROWED, intents=EVERYTHING), None),
    ("scope", CALL, facts(target("build/x"), session=NARROWED, intents=EVERYTHING), "SCOPE_VIOLATION"),
    ("scope", CALL, facts(target("build/x", generated=True), session=NARROWED, intents=EVERYTHING), None),
    ("scope", CALL, facts(TOLERATED_TARGET, session=NARROWED, intents=EVERYTHING), None),
    ("scope", CALL, facts(target("build/x"), session=SessionFacts(narrow=(("src/**",),))), "SCOPE_VIOLATION"),
    ("stale", CALL, facts(target(sha256=SHA, seen_sha256=SHA)), None),
    ("stale", CALL, facts(target(sha256=SHA, seen_sha256=OTHER)), "STALE_FILE"),
    ("stale", CALL, facts(target(sha256=None, seen_sha256=OTHER)), "STALE_FILE"),
    ("stale", CALL, facts(target(sha256=SHA, seen_sha256=None)), None),
    ("stale", EDIT, facts(target(sha256=SHA, seen_sha256=OTHER)), None),
    ("stale", CALL, facts(replace(TOLERATED_TARGET, sha256=SHA, seen_sha256=OTHER)), None),
    ("stale", WITH_HASH, facts(target(sha256=OTHER)), "STALE_FILE"),
    ("stale", WITH_HASH, facts(target(sha256=SHA, seen_sha256=OTHER)), None),
    ("lease", CALL, facts(target()), None),
    ("lease", CALL, facts(target(), target("src/y", leased_by="other")), "FILE_LEASED"),
    ("lease", CALL, facts(replace(TOLERATED_TARGET, leased_by="other")), None),
    ("circuit", CALL, facts(session=SessionFacts("INT-001", "", "x", 2, 4)), None),
    ("circuit", CALL, facts(session=SessionFacts("INT-001", "", "x", 3, 0)), "CIRCUIT_OPEN"),
    ("circuit", CALL, facts(session=SessionFacts("INT-001", "", "", 0, 5)), "CIRCUIT_OPEN"),
    ("detour", SHELL, facts(), None),
    ("detour", SHELL, facts(denied=(DENIED_PATH,)), "COMMAND_BLOCKED"),
    ("detour", CALL, facts(denied=(DENIED_PATH,)), None),
    ("detour", SHELL, facts(denied=(DENIED_PATH,), intents=EVERYTHING), None),
    ("detour", SHELL, facts(denied=(MISMATCHED_PATH,), intents=EVERYTHING), "COMMAND_BLOCKED"),
    ("detour", SHELL, facts(denied=(LEASED_PATH,), intents=EVERYTHING), "COMMAND_BLOCKED"),
    ("detour", SHELL, facts(denied=(DENIED_PATH,), grants=(GRANT,)), None),
    ("detour", UNREADABLE, facts(denied=(DENIED_PATH,)), "COMMAND_BLOCKED"),
]


@pytest.mark.parametrize(("name", "asked", "situation", "expected"), CASES)
def test_a_check_says_its_reason(name: str, asked: ToolCall, situation: Facts, expected: ErrorType | None) -> None:
    found = CHECKS[name](asked, situation)
    assert (found.code if found else None) == expected


def test_a_scope_violation_names_who_owns_the_path() -> None:
    found = CHECKS["scope"](CALL, facts(target("docs/x")))
    assert found is not None
    assert found.context["owning_intents"] == ["INT-002"]
    assert found.message.startswith("Scope Violation: INT-001 is not authorized to edit docs/x.")


def run(command: str, **fields: object) -> ToolCall:
    """A call of a shell with this command."""
    return replace(SHELL, command=command, **fields)  # pyright: ignore[reportArgumentType]


SECOND_OF_TWO = DeniedPath("docs/x", "SCOPE_VIOLATION", "Write", ("", "w/docs/x", "docs/x"))
ELSEWHERE = Grant("h", "SCOPE_VIOLATION", "session", "lib/**", session_id="s")

COMMAND_CASES: list[tuple[str, ToolCall, Facts, Verdict | None]] = [
    ("blinding", CALL, facts(), None),
    ("blinding", run("git update-index --add x"), facts(), None),
    ("blinding", run("git update-index --assume-unchanged x"), facts(), "deny"),
    ("blinding", run("git -C a update-index --skip x"), facts(), "deny"),
    ("blinding", run("git push --all"), facts(), None),
    ("blinding", run("git push --mirror"), facts(), "deny"),
    ("blinding", run("git push origin refs/remit/log"), facts(), "deny"),
    ("command", CALL, facts(), None),
    ("command", run("make x"), facts(containable=True), None),
    ("command", run("remit mode observe"), facts(), "deny"),
    ("command", run("./remit status"), facts(), "deny"),
    ("command", run("git reset --hard"), facts(), "ask"),
    ("command", run("rm -rf /"), facts(), "ask"),
    ("command", run("git push origin 0123abc"), facts(unjudged=("0123abc",)), "deny"),
    ("command", run("git pull && make"), facts(containable=True), "deny"),
    ("command", run("git pull && make"), facts(containable=False), None),
    ("command", run("git pull"), facts(containable=True), None),
    ("detour", run("make docs/x"), facts(denied=(DENIED_PATH,)), "deny"),
    ("detour", run("make docs/'x'"), facts(denied=(DENIED_PATH,)), "deny"),
    ("detour", run("make docs/xy"), facts(denied=(DENIED_PATH,)), None),
    ("detour", run("make docs/x"), facts(denied=(SECOND_OF_TWO,)), "deny"),
    ("detour", run("make lib/y"), facts(denied=(SECOND_OF_TWO,)), None),
    ("detour", run("cat docs/x > src/y"), facts(denied=(DENIED_PATH,)), None),
    ("detour", run("cat docs/x > src/y", unproved="a setting"), facts(denied=(DENIED_PATH,)), "deny"),
    ("detour", run("cp a/x docs"), facts(denied=(DENIED_PATH,)), "deny"),
    ("detour", SHELL, facts(denied=(DENIED_PATH,), session=SessionFacts()), "deny"),
    ("detour", SHELL, facts(denied=(DENIED_PATH,), grants=(ELSEWHERE, GRANT)), None),
    ("detour", SHELL, facts(denied=(DENIED_PATH,), grants=(ELSEWHERE,)), "deny"),
    ("lingering", CALL, facts(bare="no overlay"), None),
    ("lingering", run("python3 x.py &"), facts(), None),
    ("lingering", run("python3 x.py"), facts(bare="no overlay"), None),
    ("lingering", run("echo a > src/b &"), facts(bare="no overlay"), None),
    ("lingering", run("python3 x.py &"), facts(bare="no overlay"), "deny"),
    ("unwatched", run("python3"), facts(), None),
    ("unwatched", run("python3 x.py", has_unwatched_stdin=True), facts(), None),
    ("unwatched", run("python3", has_unwatched_stdin=True), facts(), "deny"),
]


@pytest.mark.parametrize(("name", "asked", "situation", "expected"), COMMAND_CASES)
def test_a_check_of_commands_has_its_verdict(
    name: str, asked: ToolCall, situation: Facts, expected: Verdict | None
) -> None:
    found = CHECKS[name](asked, situation)
    assert (found.verdict if found else None) == expected
    assert found is None or (found.rule, found.code) == (name, "COMMAND_BLOCKED")


REFUSAL = Finding("scope", "SCOPE_VIOLATION", "m", path="docs/x", context={"a": 1})
BY_OTHERS = replace(DENIED_PATH, path="docs/y")


@pytest.mark.parametrize(
    ("finding", "denied", "is_marked"),
    [
        (REFUSAL, (), False),
        (REFUSAL, (DENIED_PATH,), True),
        (REFUSAL, (BY_OTHERS, DENIED_PATH), True),
        (REFUSAL, (BY_OTHERS,), False),
        (REFUSAL, (replace(DENIED_PATH, tool="Bash"),), False),
        (replace(REFUSAL, context={"detour": True}), (DENIED_PATH,), False),
    ],
)
def test_a_second_try_with_another_tool_is_marked(
    finding: Finding, denied: tuple[DeniedPath, ...], is_marked: bool
) -> None:
    first = {"error_type": "SCOPE_VIOLATION", "path": "docs/x", "tool": "Write"}
    mark = {"detour": True, "first_denial": first} if is_marked else {}
    found = mark_repeated_denial(finding, SHELL, facts(denied=denied))
    assert found.context == {**finding.context, **mark}


def test_what_lies_outside_is_denied_and_a_file_with_other_names_is_asked_about() -> None:
    strange = target("src/x", strange="has other names")
    for targets, verdict in (((OUTSIDE, strange), "deny"), ((strange,), "ask")):
        found = CHECKS["outside"](CALL, facts(*targets))
        assert found is not None
        assert found.verdict == verdict


def test_a_broken_intents_file_is_named_by_its_first_error() -> None:
    warning = LintFinding("UNKNOWN_KEY", "warning", "odd", line=1, column=1)
    for findings, more in (((warning, ERROR), False), ((warning, ERROR, ERROR), True)):
        found = CHECKS["intents_file"](CALL, facts(intents_state="invalid", intents_findings=findings))
        assert found is not None
        assert found.context == {"line": 3, "column": 4, "code": "YAML_PARSE_ERROR"}
        assert ("and 1 more" in found.message) is more


COMPANIONS = IntentSet((Intent("INT-001", ("src/**", "!tests/kept/**"), status="IN_PROGRESS", companions=True),))
MIRROR = target("tests/test_x.py", mirrors=("src/x.py",))


@pytest.mark.parametrize(
    ("asked", "targets", "expected"),
    [
        (CALL, (MIRROR,), ("companion", "allow")),
        (CALL, (target(), MIRROR), ("companion", "allow")),
        (SHELL, (MIRROR,), ("scope", "deny")),
        (CALL, (MIRROR, target("docs/x")), ("scope", "deny")),
        (CALL, (target("tests/test_x.py", mirrors=("src/x.py", "lib/x.py")),), ("scope", "deny")),
        (CALL, (target("tests/kept/test_x.py", mirrors=("src/x.py",)),), ("scope", "deny")),
        (CALL, (target("tests/test_x.py"),), ("scope", "deny")),
    ],
)
def test_a_file_tool_alone_may_write_the_mirrors_of_owned_files(
    asked: ToolCall, targets: tuple[Target, ...], expected: tuple[str, str]
) -> None:
    found = CHECKS["scope"](asked, facts(*targets, intents=COMPANIONS))
    assert found is not None
    assert (found.rule, found.verdict) == expected
