"""Figures that a person can count by hand."""

import os
import subprocess
import time
from pathlib import Path
from typing import Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import run_git
from gate.driving import Agent, governed
from remit.core.scope.path_patterns import Scope
from remit.gate.gate import Gate
from remit.ledger.index.index import Filters, Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.stats.figures import (
    DAY_S,
    MIN_ANSWERS,
    ApprovalFigures,
    Figures,
    finish_approvals,
    measure_figures,
)
from remit.provenance.stats.mode_suggestion import find_refusable_calls, propose_scope


def figures(root: Path, *within: str, now: float = 0.0, model: str | None = None, **by: Unpack[Filters]) -> Figures:
    gate = Gate.open(root)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        return measure_figures(
            Blamer(gate.workspace, index, gate.contents), within, by, now or time.time(), model=model
        )


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


def commit_on_day(root: Path, day: int) -> None:
    """Commit everything on a day after every record."""
    when = f"2099-01-{day:02}T12:00:00+0000"
    environment = {**os.environ, "GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when}
    run_git(root, "add", "-A")
    subprocess.run(["git", "commit", "-qm", "work"], cwd=root, env=environment, check=True)


def test_the_fate_of_lines_is_replayed_from_history(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/new.py", "".join(f"first_line_{n} = {n}\n" for n in range(8)))
    commit_on_day(repository, 1)
    lines = (repository / "src/new.py").read_text().splitlines(keepends=True)
    (repository / "src/new.py").write_text("".join(["the_person_wrote = this\n", *lines[1:6]]))
    commit_on_day(repository, 4)
    agent.read("src/new.py")
    text = (repository / "src/new.py").read_text()
    agent.write("src/new.py", text.replace("first_line_3 = 3", "agent_wrote_over = 3"))
    run_git(repository, "mv", "src/new.py", "src/moved.py")
    commit_on_day(repository, 20)
    found = figures(repository, now=4070952000.0 + 60 * DAY_S)
    assert (found.generated, found.accepted) == (9, 9)
    assert (found.overridden, found.rewritten, found.deleted) == (1, 1, 2)
    assert [(d.days, d.lines, d.alive) for d in found.durability] == [(7, 9, 6), (30, 9, 5), (90, 0, 0)]
    group = found.groups.intents["INT-001"]
    assert (group.generated, group.accepted, group.overridden, group.at_head) == (9, 9, 1, found.ai)


def test_only_selected_records_are_counted(repository: Path, home: Path) -> None:
    first, second = Agent(governed(repository), home), Agent(repository, home, session="session-2")
    first.send("SessionStart", source="startup", model="model-a")
    second.send("SessionStart", source="startup", model="model-b")
    first.select()
    second.select()
    first.write("src/a.py", "one = 1\n")
    second.write("src/b.py", "two = 2\nthree = 3\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "work")
    assert [figures(repository, model=m).accepted for m in ("model-a", "model-b", None)] == [1, 2, 3]
    assert figures(repository, "src/b.py").accepted == 2
    assert figures(repository, since="2099").generated == 0
    assert figures(repository, intent_id="INT-002").ai == 0
    assert set(figures(repository).by_model) == {"model-a", "model-b"}


def test_a_sha256_repository_is_counted(tmp_path: Path, home: Path) -> None:
    run_git(tmp_path, "init", "-q", "--object-format=sha256")
    agent = Agent(governed(tmp_path), home)
    agent.select()
    agent.write("src/new.py", "one_line_of_it = 1\n")
    run_git(tmp_path, "add", "src")
    run_git(tmp_path, "commit", "-qm", "work")
    assert (figures(tmp_path).lines, figures(tmp_path).ai) == (1, 1)


def test_the_time_of_a_call_counts_once(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    for tool, ms, told in (("Write", 100, {"content": "x = 1\n"}), ("Read", 10, {}), ("Read", 40, {})):
        arguments = {"file_path": "src/new.py", **told}
        call = agent.ask(tool, **arguments)["call_id"]
        (repository / "src/new.py").write_text("x = 1\n")
        agent.send("PostToolUse", tool_name=tool, tool_input=arguments, tool_use_id=call, duration_ms=ms)
    found = figures(repository)
    timed = {name: (tool.timed, tool.mean_ms) for name, tool in found.tools.items() if tool.timed}
    assert (timed, found.mean_ms) == ({"Write": (1, 100.0), "Read": (2, 25.0)}, 50.0)


def test_a_person_who_approves_nearly_everything_is_asked_too_often() -> None:
    for allowed, denied, told in ((MIN_ANSWERS, 0, True), (MIN_ANSWERS - 1, 0, False), (90, 10, False)):
        answers = ApprovalFigures(asked=allowed + denied, allowed=allowed, denied=denied)
        finish_approvals(answers)
        assert answers.too_many is told


def test_before_the_first_commit_there_are_no_lines(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    found = figures(governed(tmp_path))
    assert (found.lines, found.ai, found.files) == (0, 0, ())


def test_calls_that_enforce_would_have_refused_are_counted(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository, mode="observe"), home)
    agent.write("src/a.py", "x\n")
    agent.select()
    agent.write("src/b.py", "x\n")
    agent.write("docs/a.md", "x\n")
    found = find_refusable_calls(Gate.open(repository).workspace.log_folder)
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
    scope = Scope(propose_scope(sorted(touched)))
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
    assert propose_scope(touched) == scope


def test_a_line_that_was_moved_was_not_replaced(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    block = "def compute_the_total(parts):\n    for part in parts:\n        pass\n    return sum(parts)\n"
    rest = "".join(f"other_line_{n} = {n}\n" for n in range(6))
    agent.write("src/new.py", block + rest)
    commit_on_day(repository, 1)
    (repository / "src/new.py").write_text(rest + block)
    commit_on_day(repository, 4)
    (repository / "src/new.py").write_text(rest)
    (repository / "src/own.py").write_text(f"persons_own_line = 1\n{block}")
    commit_on_day(repository, 5)
    (repository / "src/own.py").write_text("persons_own_line = 1\n" + block.replace("    ", "  "))
    commit_on_day(repository, 6)
    found = figures(repository, now=4070952000.0 + 60 * DAY_S)
    assert (found.generated, found.accepted) == (10, 10)
    assert (found.overridden, found.rewritten, found.deleted) == (0, 0, 0)
    assert (found.durability[0].lines, found.durability[0].alive) == (10, 10)


def test_lines_of_opaque_commands_are_counted_apart(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    config = repository / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + '\n[containment]\nrewrite = "off"\n')
    agent.select()
    agent.write("src/new.py", "first = 1\n")
    command = "python3 -m this_is_no_module || true"
    asked = agent.ask("Bash", command=command)
    (repository / "src/own.py").write_text("one = 1\ntwo = 2\n")
    agent.tell("Bash", asked["call_id"], {"stdout": ""}, command=command)
    commit_on_day(repository, 1)
    found = figures(repository, "src")
    assert (found.generated, found.unproved, found.accepted, found.ai) == (1, 2, 1, 3)
    assert (found.before, found.unknown, found.open, found.likely, found.lines) == (2, 0, 0, 2, 5)


def test_what_is_older_than_the_first_record_and_remits_own_files_are_not_unknown(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/new.py", "first = 1\n")
    (repository / "src/mine.py").write_text("mine = 1\nmine = 2\n")
    (repository / "src/app.py").write_text("def main():\n    return 2\n")
    commit_on_day(repository, 1)
    found = figures(repository)
    own = sum(len(path.read_text().splitlines()) for path in (repository / ".orchestration").glob("*.[ty]*ml"))
    # README.md, and the line of src/app.py that nobody touched.
    assert (found.before, found.ai, found.lines) == (2, 1, found.own + 6)
    assert found.own >= own
    assert found.unknown + found.human == 3


def test_verdicts_are_as_many_as_calls(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository, "observe"), home)
    agent.write("src/new.py", "one\n")
    agent.write("docs/x.md", "two\n")
    agent.read("README.md")
    found = figures(repository)
    assert sum(found.by_verdict.values()) == found.by_event["tool_use"]
    assert found.by_verdict["deny"] == find_refusable_calls(Gate.open(repository).workspace.log_folder).refused
