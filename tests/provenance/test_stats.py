"""Figures that a person could count by hand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import run_git
from gate.driving import Agent, governed
from remit.core.globs import Scope
from remit.gate.gate import Gate
from remit.ledger.index import Index
from remit.provenance.blame import Blamer
from remit.provenance.stats import Figures, measure, proposed_scope, would_refuse


def figures(root: Path, *within: str) -> Figures:
    gate = Gate.open(root)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        return measure(Blamer(gate.workspace, index, gate.store), gate.workspace.log_folder, within)


def test_lines_at_head_are_counted_by_file_agent_and_intent(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/new.py", "one\ntwo\n")
    agent.write("src/app.py", "def main():\n    return 2\n")
    agent.write("docs/x.md", "no\n")
    assert figures(repository).ai == 0
    run_git(repository, "add", "src")
    run_git(repository, "commit", "-q", "-m", "work")
    agent.write("src/new.py", "not committed\n")
    found = figures(repository)
    assert (found.lines, found.ai) == (5, 3)
    assert [(f.path, f.ai, f.lines) for f in found.files] == [("src/new.py", 2, 2), ("src/app.py", 1, 2)]
    assert (found.by_agent, found.by_intent) == ({"claude-code": 3}, {"INT-001": 3})
    assert (found.by_event["denied"], found.by_violation) == (1, {"SCOPE_VIOLATION": 1})
    assert sum(found.by_event.values()) == found.records
    assert figures(repository, "src/app.py").lines == 2


def test_before_the_first_commit_there_are_no_lines(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    found = figures(governed(tmp_path))
    assert (found.lines, found.ai, found.files) == (0, 0, ())


def test_what_enforce_would_have_refused_is_counted(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository, mode="observe"), home)
    agent.write("src/a.py", "x\n")
    agent.select()
    agent.write("src/b.py", "x\n")
    agent.write("docs/a.md", "x\n")
    found = would_refuse(Gate.open(repository).workspace.log_folder)
    assert (found.refused, found.by_rule) == (2, {"active_intent": 1, "scope": 1})
    assert found.sessions == {"session-1": 2}
    assert found.examples[0] == "scope: Write docs/a.md"


paths = st.lists(
    st.lists(st.sampled_from(["a", "b", "[x]", "c*", "{d,e}", "!f", "g\\"]), min_size=1, max_size=3).map("/".join),
    min_size=1,
    max_size=8,
    unique=True,
)


@given(paths)
def test_a_proposed_scope_owns_what_was_touched(touched: list[str]) -> None:
    scope = Scope(proposed_scope(sorted(touched)))
    assert all(scope.matches(path) for path in touched)
    assert not scope.matches("elsewhere/z")


@pytest.mark.parametrize(
    ("touched", "scope"),
    [
        (["src/a.py"], ("src/a.py",)),
        (["src/a.py", "src/b.py"], ("src/**",)),
        (["README.md", "setup.py"], ("README.md", "setup.py")),
        (["src/a.py", "src/b.py", "src/x/c.py", "src/x/d.py"], ("src/**",)),
    ],
)
def test_a_proposed_scope_is_no_wider_than_its_folders(touched: list[str], scope: tuple[str, ...]) -> None:
    assert proposed_scope(touched) == scope
