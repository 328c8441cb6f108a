"""The finding of each check."""

import pytest

from remit.core.call import Citation, SessionKey, ToolCall
from remit.core.decision import DeniedPath, ErrorType, Facts, Grant, SessionFacts, Target
from remit.core.intent import Intent, IntentSet, LintFinding, Status
from remit.core.scope.path_patterns import RepoPath
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
    ("active_intent", CALL, facts(session=SessionFacts()), "MISSING_OR_INVALID_INTENT"),
    ("active_intent", CALL, facts(), None),
    ("active_intent", CALL, facts(session=SessionFacts("INT-009")), "INTENT_NOT_FOUND"),
    ("active_intent", CALL, facts(intents=intents("BLOCKED")), "INTENT_BLOCKED"),
    ("active_intent", CALL, facts(intents=intents("DONE")), "INTENT_CLOSED"),
    ("active_intent", CALL, facts(intents=intents("ABORTED")), "INTENT_CLOSED"),
    ("active_intent", CALL, facts(ignored_intents=frozenset({"INT-001"})), "INTENT_IGNORED"),
    ("mismatch", CITING, facts(), "INTENT_MISMATCH"),
    ("mismatch", WITH_HASH, facts(), None),
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
    ("stale", WITH_HASH, facts(target(sha256=OTHER)), "STALE_FILE"),
    ("stale", WITH_HASH, facts(target(sha256=SHA, seen_sha256=OTHER)), None),
    ("lease", CALL, facts(target()), None),
    ("lease", CALL, facts(target(), target("src/y", leased_by="other")), "FILE_LEASED"),
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
