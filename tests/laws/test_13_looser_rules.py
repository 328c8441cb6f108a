"""Law: whatever rules git brings, no call passes that the accepted rules refuse; and what is stricter holds."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from remit.core.config import ApprovalRules, Config, ContainmentRules
from remit.core.intent import Constraint, Criterion, Intent
from remit.core.intents.strictness import MODES, RuleSet, hold_stricter, is_within
from remit.core.scope.path_patterns import Scope

PATHS = ("a", "a/b", "a/b/c.py", "a/x.py", "src/a.py", "src/b/c.py", "src/b/d.md", "docs/x.md", "README.md", "x")
LINES = ("**", "a", "a/**", "a/*", "src/**", "src/*.py", "src/b/**", "**/*.py", "docs/", "*.md", "{a,docs}/**")
SCOPES = st.lists(st.builds(str.__add__, st.sampled_from(["", "", "!"]), st.sampled_from(LINES)), max_size=4).map(tuple)
CODES = ("SCOPE_VIOLATION", "STALE_FILE", "INTENT_CLOSED")
LIMITS = st.none() | st.integers(0, 100)
RULES = (Constraint("few", "max_changed_lines", {"lines": 5}), Constraint("no lib", "no_new_dependency", {}))

INTENTS = st.lists(
    st.builds(
        Intent,
        id=st.sampled_from(["INT-001", "INT-002"]),
        owned_scope=SCOPES,
        status=st.sampled_from(["DRAFT", "IN_PROGRESS", "BLOCKED"]),
        constraints=st.sets(st.sampled_from(range(2))).map(lambda some: tuple(RULES[at] for at in sorted(some))),
        acceptance_criteria=st.sampled_from([(), (Criterion("it works", "make test"),)]),
        companions=st.booleans(),
        network=st.sampled_from(["allow", "none"]),
    ),
    max_size=2,
    unique_by=lambda intent: intent.id,
).map(tuple)
CONFIGS = st.builds(
    Config,
    overrides=st.sets(st.sampled_from(CODES)).map(lambda codes: tuple(sorted(codes))),
    approvals=st.builds(ApprovalRules, threshold=LIMITS, grant_hours=st.integers(1, 20)),
    containment=st.builds(
        ContainmentRules,
        rewrite=st.sampled_from(["auto", "off"]),
        ssh_agent=st.booleans(),
        time_limit_s=st.sampled_from([0, 5, 60]),
        size_limit_mib=st.integers(1, 9),
    ),
)
SETS = st.builds(
    RuleSet,
    mode=st.sampled_from(MODES),
    config=CONFIGS,
    intents=INTENTS,
    barred=st.sampled_from([(), ("INT-001",), ("INT-001", "INT-002")]),
    patterns=st.lists(st.sampled_from(["a", "!a", "src/**", "*.md"]), max_size=3, unique=True).map(tuple),
)


def is_refused(rules: RuleSet, intent: Intent, path: str) -> bool:
    """Whether a write under the intent is refused, as far as mode and scope decide."""
    return rules.mode == "enforce" and not Scope(intent.owned_scope).matches(path)


@settings(max_examples=40)
@given(SETS, SETS)
def test_no_call_passes_that_the_accepted_rules_refuse(accepted: RuleSet, found: RuleSet) -> None:
    held, loosened = hold_stricter(accepted, found)
    assert hold_stricter(accepted, held) == (held, ())
    assert MODES.index(held.mode) >= max(MODES.index(accepted.mode), MODES.index(found.mode))
    before = {intent.id: intent for intent in accepted.intents}
    for intent in held.intents:
        if (old := before.get(intent.id)) is not None:
            assert not [p for p in PATHS if is_refused(accepted, old, p) and not is_refused(held, intent, p)]
            assert all(rule in intent.rules for rule in old.rules)
            assert all(item in intent.acceptance_criteria for item in old.acceptance_criteria)
            assert (intent.network, old.network) != ("allow", "none")
            assert old.companions or not intent.companions
    assert set(held.config.overrides) <= set(accepted.config.overrides)
    assert set(accepted.barred) <= set(held.barred)
    if not loosened:
        assert held == found


@settings(max_examples=10)
@given(SETS)
def test_rules_are_no_looser_than_themselves(rules: RuleSet) -> None:
    assert hold_stricter(rules, rules) == (rules, ())
    assert hold_stricter(replace(rules, mode="observe"), rules) == (rules, ())


@given(SCOPES, SCOPES)
def test_a_scope_within_another_has_no_path_of_its_own(narrow: tuple[str, ...], wide: tuple[str, ...]) -> None:
    if is_within(narrow, wide):
        assert not [path for path in PATHS if Scope(narrow).matches(path) and not Scope(wide).matches(path)]
