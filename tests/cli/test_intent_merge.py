"""`remit intent merge`: one intent takes others over, in both layouts."""

from pathlib import Path

import pytest

from cli.running import data, remit, run
from gate.driving import Agent, governed, refusal
from remit.gate.gate import Gate

INTENTS = """\
active_intents:
  - id: INT-001
    name: Names
    owned_scope: ["src/**", "!src/old/**"]
    constraints: [polite]
    acceptance_criteria: [it works]
  - id: INT-002
    name: Docs
    owned_scope: ["docs/**", "src/**", "!src/old/**"]
    constraints: [polite, short]
    acceptance_criteria: [it works, {text: it is told, verify: "true"}]
    dependencies: [INT-001, INT-005]
    parent_intent: INT-005
    references: [a page]
    network: none
  - id: INT-003
    name: Child of both
    owned_scope: ["lib/**"]
    dependencies: [INT-002, INT-001]
    parent_intent: INT-002
  - id: INT-004
    name: Ended
    owned_scope: ["old/**"]
    status: DONE
  - id: INT-005
    name: Ground
    owned_scope: ["ground/**"]
"""


@pytest.fixture(params=["list", "files"])
def root(repository: Path, home: Path, request: pytest.FixtureRequest) -> Path:
    """A governed repository in one of both layouts."""
    governed(repository, intents=INTENTS)
    if request.param == "files":
        remit(repository, "intent", "migrate")
    return repository


def test_one_intent_takes_another_over_and_who_named_it_follows(root: Path, home: Path) -> None:
    agent = Agent(root, home)
    agent.select("INT-002")
    before = [path.read_bytes() for path in sorted((root / ".orchestration").rglob("*.yaml"))]
    said = remit(root, "intent", "merge", "INT-001", "INT-002", "--dry-run")
    assert said.endswith("INT-002: status IN_PROGRESS → ABORTED: merged into INT-001\nnothing is written\n")
    assert before == [path.read_bytes() for path in sorted((root / ".orchestration").rglob("*.yaml"))]

    done = run(root, "intent", "merge", "INT-001", "INT-002")
    assert (done.returncode, done.stderr) == (0, ""), done
    found = {one["id"]: one for one in data(root, "intent", "list")}
    kept, gone, child = found["INT-001"], found["INT-002"], found["INT-003"]
    assert kept["owned_scope"] == ["docs/**", "src/**", "!src/old/**"]
    assert [c["text"] for c in kept["constraints"]] == ["polite", "short"]
    assert [(c["text"], c["verify"]) for c in kept["acceptance_criteria"]] == [
        ("it works", None),
        ("it is told", "true"),
    ]
    assert (kept["dependencies"], kept["references"]) == (["INT-005"], ["a page", "INT-002"])
    assert (kept["network"], kept["parent_intent"]) == ("none", None)
    assert (child["dependencies"], child["parent_intent"]) == (["INT-001"], "INT-001")
    assert (gone["status"], gone["blocked_reason"]) == ("ABORTED", "merged into INT-001")
    assert not Gate.open(root).rules.errors
    [moved] = [r for r in data(root, "log", "--event", "intent_transition") if "merged into INT-001" in str(r)]
    assert "INT-002" in str(moved)

    denied = agent.write("docs/page.md", "text\n")
    assert refusal(denied) == "INTENT_CLOSED"
    assert "INT-002 is ABORTED: merged into INT-001. Clear it" in denied["permissionDecisionReason"]
    other = Agent(root, home, "session-2").select("INT-002")
    assert "INT-002 is ABORTED: merged into INT-001. A person can reopen it" in other["permissionDecisionReason"]


REFUSED = [
    (("INT-001", "INT-001"), "INT-001 is named twice"),
    (("INT-001", "INT-002", "INT-002"), "INT-002 is named twice"),
    (("INT-001", "INT-009"), "there is no intent 'INT-009'"),
    (("INT-001", "INT-004"), "`remit intent reopen INT-004` first"),
    (("INT-004", "INT-001"), "INT-004 is DONE and cannot be merged"),
    (("INT-001", "INT-005"), "`remit intent unbind --branch main`"),
    # INT-003 needs INT-002, which needs INT-001.
    (("INT-003", "INT-001"), "depend on each other: INT-002 → INT-003 → INT-002; take one of these away"),
    (("INT-002", "INT-001\x1b[31m"), "\\x1b[31m"),
]


def test_what_cannot_be_merged_is_refused_with_the_next_step(root: Path) -> None:
    remit(root, "intent", "bind", "INT-005", "--branch", "main")
    before = [path.read_bytes() for path in sorted((root / ".orchestration").rglob("*.yaml"))]
    for words, told in REFUSED:
        done = run(root, "intent", "merge", *words)
        assert (done.returncode, told in done.stderr) == (2, True), done
    assert before == [path.read_bytes() for path in sorted((root / ".orchestration").rglob("*.yaml"))]


def test_what_an_exclusion_may_take_away_is_said(root: Path) -> None:
    remit(root, "intent", "edit", "INT-005", "--scope", "src/**", "--scope", "!docs/**")
    done = run(root, "intent", "merge", "INT-002", "INT-005")
    assert (done.returncode, "paths of INT-002 away: look at the scope of INT-002" in done.stderr) == (0, True), done


def test_broken_and_doubled_ones_are_refused_with_their_cure(root: Path) -> None:
    folder = root / ".orchestration/intents"
    if not folder.is_dir():
        path = root / ".orchestration/active_intents.yaml"
        path.write_text(path.read_text().replace("id: INT-004", "id: INT-001"))
    else:
        (folder / "INT-001-again.yaml").write_text("id: INT-001\nowned_scope:\n  - x/**\n")
    done = run(root, "intent", "merge", "INT-001", "INT-002")
    assert (done.returncode, "Run: remit intent renumber INT-001" in done.stderr) == (2, True), done


def test_an_agent_merges_nothing(root: Path) -> None:
    done = run(root, "intent", "merge", "INT-001", "INT-002", CLAUDECODE="1")
    assert (done.returncode, "is for a person" in done.stderr) == (3, True)
