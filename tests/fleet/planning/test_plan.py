"""What speaks against a plan, each kind by a plan that has it and one that has not."""

import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.config import AgentRole, Commons, OrchestratorSettings
from remit.core.intent import Criterion, Intent, IntentsDocument, LintFinding
from remit.core.scope.apart import Apart, Shared, decide_apart
from remit.core.scope.path_patterns import Scope
from remit_fleet.planning.plan import Plan, PlanFinding, RepositoryFacts, TrackedFiles, make_plan
from remit_fleet.planning.roles import find_role
from remit_fleet.planning.write_sets import WriteSet

FACTS = RepositoryFacts(agents=frozenset({"claude-code"}))
SETTINGS = OrchestratorSettings()
CRITERION = (Criterion("works", "true"),)


def intent(number: int, *scope: str, **fields: object) -> Intent:
    return Intent(f"INT-{number:03d}", scope or (f"part{number}/**",), **fields)  # type: ignore[arg-type]


def plan(
    *intents: Intent,
    chosen: tuple[str, ...] = (),
    settings: OrchestratorSettings = SETTINGS,
    facts: RepositoryFacts = FACTS,
    findings: tuple[LintFinding, ...] = (),
) -> Plan:
    document = IntentsDocument(intents, findings)
    return make_plan(document, chosen, find_role(settings, "builder"), settings, facts)


def named(made: Plan, code: str) -> list[PlanFinding]:
    return [finding for finding in made.findings if finding.code == code]


def test_tasks_that_are_apart_have_no_finding_but_what_they_lack() -> None:
    made = plan(intent(1, "src/a/**"), intent(2, "src/b/**"))
    assert made.pairs_apart == 1
    assert {finding.code for finding in made.findings} == {"NO_CRITERION"}


def test_one_odd_path_in_common_is_named_with_an_example_of_what_to_do() -> None:
    made = plan(intent(1, "src/**", "!src/gen/**", "src/gen/[y-z]??"), intent(2, "src/gen/[a-y]*", "!src/gen/?"))
    (found,) = named(made, "OVERLAP")
    assert (found.severity, found.intents, found.field, found.path) == (
        "error",
        ("INT-001", "INT-002"),
        "owned_scope",
        "src/gen/yxx",
    )
    assert "dependencies: [INT-001]" in found.fix
    assert "remit intent edit INT-002 --add-scope '!src/" in found.fix
    assert [task.shares for task in made.tasks] == [("INT-002",), ("INT-001",)]


def test_tasks_that_wait_for_each_other_may_share_paths() -> None:
    made = plan(intent(1, "src/**"), intent(2, "src/**", dependencies=("INT-001",)))
    assert named(made, "OVERLAP") == []
    assert [(task.intent_id, task.needs) for task in made.tasks] == [("INT-001", ()), ("INT-002", ("INT-001",))]
    through = plan(
        intent(1, "src/**"),
        intent(2, dependencies=("INT-001",)),
        intent(3, "src/**", dependencies=("INT-002",)),
    )
    assert named(through, "OVERLAP") == []


def test_a_parent_lands_after_its_children_and_brings_them_along() -> None:
    made = plan(
        intent(1, "src/**"),
        intent(2, "src/a/**", parent_intent="INT-001"),
        intent(3, "src/b/**", parent_intent="INT-001", status="DONE"),
        intent(4),
        chosen=("INT-001",),
    )
    assert [task.intent_id for task in made.tasks] == ["INT-002", "INT-001"]
    assert made.errors == ()


def test_what_folds_together_is_one_file_where_case_is_ignored() -> None:
    scopes = intent(1, "src/Parser/**"), intent(2, "SRC/parser/*.py")
    assert named(plan(*scopes), "OVERLAP") == []
    (found,) = named(plan(*scopes, facts=RepositoryFacts(folds_case=True)), "OVERLAP")
    assert found.path is not None
    assert found.path.lower() == "src/parser/x.py"


def test_a_pair_that_cannot_be_decided_is_unproved_and_counts_as_shared() -> None:
    hostile = ("**/*a" * 150 + "/q", "*a" * 400), ("**/*a" * 150 + "c", "*b*a" * 200 + "c", "*[ab]" * 100)
    made = plan(intent(1, *hostile[0]), intent(2, *hostile[1]))
    (found,) = named(made, "UNPROVED")
    assert found.severity == "error"
    assert made.tasks[0].shares == ("INT-002",)


@pytest.mark.parametrize(
    ("intents", "code", "said"),
    [
        ([intent(1, dependencies=("INT-002",)), intent(2, dependencies=("INT-001",))], "CYCLE", "INT-001 → INT-002"),
        (
            [intent(1, parent_intent="INT-002", dependencies=("INT-002",)), intent(2)],
            "CYCLE",
            "none of these can land first",
        ),
        ([intent(1, dependencies=("INT-009",))], "UNKNOWN_DEPENDENCY", "'INT-009'"),
        ([intent(1, dependencies=("INT-001",))], "UNKNOWN_DEPENDENCY", "is itself"),
        ([intent(1, dependencies=("INT-002",)), intent(2, status="ABORTED")], "DEPENDENCY_NOT_PLANNED", "ABORTED"),
        ([intent(1, "src/[a")], "SCOPE_UNUSABLE", "never closed"),
        ([intent(1, "/etc/**")], "SCOPE_UNUSABLE", "absolute"),
        ([intent(1, ".git/**")], "SCOPE_UNUSABLE", "may write no file"),
        ([intent(1, "src/**", "!**")], "SCOPE_UNUSABLE", "may write no file"),
        ([intent(1, companions=True)], "COMPANIONS_IN_PLAN", "no set of paths"),
    ],
)
def test_bad_intents_are_named_as_errors_with_a_next_step(intents: list[Intent], code: str, said: str) -> None:
    (found, *_) = named(plan(*intents), code)
    assert found.severity == "error"
    assert said in found.message
    assert found.fix


def test_a_dependency_that_is_done_waits_for_nothing() -> None:
    made = plan(intent(1, dependencies=("INT-002",)), intent(2, status="DONE"))
    assert made.errors == ()
    assert [task.needs for task in made.tasks] == [()]


def test_a_dependency_beside_the_plan_is_an_error_that_names_the_command() -> None:
    made = plan(intent(1, dependencies=("INT-002",)), intent(2), chosen=("INT-001",))
    (found,) = named(made, "DEPENDENCY_NOT_PLANNED")
    assert "remit plan check INT-001 INT-002" in found.fix


def test_a_closed_intent_is_no_task() -> None:
    made = plan(intent(1, status="DONE"), intent(2), chosen=("INT-001", "INT-002"))
    assert [finding.intents for finding in named(made, "INTENT_CLOSED")] == [("INT-001",)]
    assert [task.intent_id for task in made.tasks] == ["INT-002"]


def test_errors_of_the_intents_file_are_findings_and_hide_no_others() -> None:
    error = LintFinding("INVALID_GLOB", "error", "bad", "INT-007", "owned_scope", 3, 5)
    made = plan(intent(1, "src/**"), intent(2, "src/**"), findings=(error,))
    assert [finding.code for finding in made.errors] == ["INTENTS_FILE_INVALID", "OVERLAP"]
    assert ":3:5: INVALID_GLOB" in made.findings[0].message


def test_commons_belong_to_nobody() -> None:
    settings = OrchestratorSettings(
        commons=(Commons(("uv.lock",), make="uv lock"), Commons(("docs/CHANGES.md",), fragments="changes.d"))
    )
    made = plan(intent(1, "uv.lock", "src/**"), intent(2, "docs/**", "*.lock"), settings=settings)
    assert named(made, "OVERLAP") == []
    said = [(finding.intents[0], finding.path, finding.severity) for finding in named(made, "COMMONS")]
    assert said == [
        ("INT-001", "uv.lock", "warning"),
        ("INT-002", "uv.lock", "warning"),
        ("INT-002", "docs/CHANGES.md", "warning"),
    ]
    assert not any(task.write_set.contains("uv.lock") for task in made.tasks)


def test_criteria_that_are_missing_or_not_trusted_are_warned_of() -> None:
    made = plan(intent(1), intent(2, acceptance_criteria=CRITERION))
    assert [finding.intents for finding in named(made, "NO_CRITERION")] == [("INT-001",)]
    assert [finding.intents for finding in named(made, "UNTRUSTED_VERIFY")] == [("INT-002",)]


def test_a_scope_that_is_everything_is_too_wide() -> None:
    files = tuple(sorted(f"src/{n}.py" for n in range(90)) + [f"tests/{n}.py" for n in range(10)])
    made = plan(intent(1, "**"), intent(2, "tests"), facts=RepositoryFacts(files=files))
    assert [(finding.intents, finding.message.count("100 of 100")) for finding in named(made, "TOO_WIDE")] == [
        (("INT-001",), 1)
    ]


def test_imports_between_tasks_that_do_not_wait_are_warned_of() -> None:
    files = ("a/x.py", "b/y.py")
    facts = RepositoryFacts(files=files, imports={"b/y.py": ("a/x.py",)})
    (found,) = named(plan(intent(1, "a/**"), intent(2, "b/**"), facts=facts), "IMPORTS_ACROSS")
    assert found.intents == ("INT-002", "INT-001")
    waiting = plan(intent(1, "a/**"), intent(2, "b/**", dependencies=("INT-001",)), facts=facts)
    assert named(waiting, "IMPORTS_ACROSS") == []


def test_what_the_repository_and_the_machine_lack_is_found() -> None:
    role = OrchestratorSettings(target="main", roles=(AgentRole("builder", agent="codex"),))
    facts = RepositoryFacts(has_commit=False, dirty_target="/tree", agents=frozenset({"gemini"}))
    made = plan(intent(1), settings=role, facts=facts)
    assert {f.code: f.severity for f in made.findings if not f.intents} == {
        "NO_COMMIT": "error",
        "NO_AGENT": "warning",
        "DIRTY_TARGET": "error",
    }


def test_an_empty_plan_is_no_error() -> None:
    assert plan() == Plan((), (), (), 0)


def test_ready_tasks_stand_by_priority_and_then_as_in_the_file() -> None:
    made = plan(
        intent(1),
        intent(2, priority="CRITICAL", dependencies=("INT-003",)),
        intent(3, priority="LOW"),
        intent(4, priority="HIGH"),
    )
    assert [task.intent_id for task in made.tasks] == ["INT-004", "INT-001", "INT-003", "INT-002"]


SCOPES = st.lists(
    st.sampled_from(["src/**", "src/a/**", "src/*.py", "!src/a/**", "docs/**", "**/*.md", "tests", "!**/x*"]),
    min_size=1,
    max_size=3,
).map(tuple)


@given(st.lists(SCOPES, min_size=2, max_size=5))
def test_no_two_tasks_that_may_run_at_once_share_a_path(scopes: list[tuple[str, ...]]) -> None:
    made = plan(*(intent(n, *scope) for n, scope in enumerate(scopes, 1)))
    for a, b in combinations(made.tasks, 2):
        answer = decide_apart(Scope(a.write_set.scope), Scope(b.write_set.scope))
        assert (b.intent_id in a.shares) == (answer != Apart())
        assert (a.intent_id in b.shares) == (answer != Apart())
        if isinstance(answer, Shared):
            assert a.write_set.contains(answer.path)
            assert b.write_set.contains(answer.path)


def test_a_thousand_intents_are_planned_in_seconds() -> None:
    intents = [
        intent(n, f"src/room{n % 100}/part{n}/**", f"tests/room{n % 100}/test_{n}_*.py", dependencies=_before(n))
        for n in range(1, 1001)
    ]
    files = tuple(sorted(f"src/room{n % 100}/part{n}/x{k}.py" for n in range(1, 1001) for k in range(5)))
    began = time.process_time()
    made = plan(*intents, facts=RepositoryFacts(files=files))
    assert time.process_time() - began < 10
    assert made.pairs_apart == 1000 * 999 // 2 - len(made.shared)
    assert len(made.tasks) == 1000


@pytest.mark.live
def test_of_a_thousand_intents_that_may_all_meet_those_that_nobody_decided_are_unproved() -> None:
    intents = [intent(n, f"**/x{n}*.py", f"**/*{n}y.py") for n in range(1, 1001)]
    began = time.process_time()
    made = plan(*intents)
    assert time.process_time() - began < 60
    assert len(made.shared) > 400_000
    assert len(made.findings) < 2_000
    assert "pairs of tasks are not proved apart" in named(made, "UNPROVED")[0].message


def _before(number: int) -> tuple[str, ...]:
    return (f"INT-{number - 1:03d}",) if number % 10 else ()


SEGMENTS = ("a", "A", "b", "a-b", "a.py", "é", "E\u0301", "ß", "SS")
PATHS = st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=3).map("/".join)
PATTERNS = st.one_of(
    PATHS, PATHS.map("{}/**".format), PATHS.map("./{}/*".format), st.sampled_from(["**", "*.py", "{a,b}/*"])
)


@given(st.sets(PATHS), st.lists(PATTERNS, max_size=3), st.lists(PATTERNS, max_size=1), st.booleans())
def test_the_files_of_a_task_are_those_that_its_scope_matches(
    files: set[str], patterns: list[str], without: list[str], fold: bool
) -> None:
    own = WriteSet("INT-001", (*patterns, *(f"!{pattern}" for pattern in without)))
    found = list(TrackedFiles(files, fold=fold).list_owned(own))
    assert sorted(found) == sorted(file for file in files if own.contains(file, fold=fold))
