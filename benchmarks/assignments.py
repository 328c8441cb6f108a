"""What an assignment costs each call: `.venv/bin/python benchmarks/assignments.py`.

Measured is the part of the gate that looks for an assignment and judges by it: in a main worktree, in a linked one that
has none, and in one that has. Each stands beside gathering and deciding as a whole, in the same run.
"""

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from remit.core.assignment import Assignment
from remit.core.call import SessionKey, ToolCall
from remit.gate.gate import Gate
from remit.gate.gather import gather_facts
from remit.gate.governing.settings import govern_workspace, set_mode
from remit.policy.decide import CHECKS, decide
from remit.servers.environment import read_environment
from remit.workspace.place.assignment_file import AssignmentFile, read_assignment
from remit.workspace.place.workspace import Workspace, find_git_root, workspace_at

INTENTS = """\
version: "1.0"
active_intents:
  - id: INT-001
    name: Names
    status: IN_PROGRESS
    owned_scope: ["src/**"]
    constraints: [none]
    acceptance_criteria: [it works]
"""
TERMS = Assignment("p:INT-001", "INT-001", 7, 3, ("src/**", "!src/b/**"))
ROUNDS, CALLS = 15, 400


def microseconds(run: Callable[[], object]) -> tuple[float, float]:
    """The best and the median of the rounds, for one call."""
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            run()
        times.append((time.perf_counter() - began) / CALLS * 1e6)
    return min(times), statistics.median(times)


def run_git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def report(name: str, workspace: Workspace) -> None:
    gate = Gate(workspace, read_environment())
    session = SessionKey(name)
    gate.intents.select(session, "bench", "INT-001")
    root, rules = workspace.root, gate.rules
    call = ToolCall("bench", session, "Write", "write", str(root), paths=(str(root / "src/a.py"),))
    facts = gather_facts(gate, call, rules).facts
    check = CHECKS["assignment"]

    def judge_part() -> None:
        found = read_assignment(workspace) if workspace.assignment_path else None
        check(call, facts if found is None else replace(facts, assignment=found))

    def judge_whole() -> None:
        gathered = gather_facts(gate, call, rules)
        decide(gathered.call, gathered.facts)

    part, whole = microseconds(judge_part), microseconds(judge_whole)
    print(f"{name:24} {part[0]:7.2f} {part[1]:7.2f} us   of {whole[0]:7.1f} {whole[1]:7.1f} us (best, p50)")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        home, root, tree = Path(name, "home"), Path(name, "repo"), Path(name, "tree")
        for folder in (home, root / "src", root / ".orchestration"):
            folder.mkdir(parents=True)
        os.environ |= {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "TMPDIR": str(home)}
        (home / ".gitconfig").write_text("[user]\n\tname = a\n\temail = a@example.org\n")
        run_git(root, "init", "-q", "-b", "main")
        (root / "src/a.py").write_text("a = 1\n")
        (root / ".orchestration/active_intents.yaml").write_text(INTENTS)
        workspace = workspace_at(root, find_git_root(root))
        govern_workspace(workspace)
        set_mode(workspace, "enforce")
        run_git(root, "add", "src")
        run_git(root, "commit", "-qm", "base")
        run_git(root, "worktree", "add", "-q", "-b", "remit/INT-001/7", str(tree))
        linked = workspace_at(tree, find_git_root(tree))
        report("main worktree", workspace)
        report("linked, none", linked)
        AssignmentFile(linked).write(TERMS, 3600)
        report("linked, with assignment", linked)


if __name__ == "__main__":
    main()
