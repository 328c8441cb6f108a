"""How long a landing takes, and how many lines keep their intent: `.venv/bin/python benchmarks/landing.py [INTENTS]`.

In a repository of some 2,700 files each of twenty intents changes a file, adds lines and makes a file, through the
hook, in a worktree of its own. They land one by one without verification, once as merges and once squashed.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from remit.core.assignment import Assignment
from remit.gate.gate import Gate
from remit.gate.governing.settings import govern_workspace, set_mode
from remit.provenance.blame.blame import Blamer
from remit.servers.environment import read_environment
from remit.servers.hook import HookFrame, answer
from remit.workspace.git.command import Git
from remit.workspace.merging import Identity
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.place.workspace import Workspace, find_git_root, workspace_at
from remit.workspace.worktrees import Worktrees
from remit_fleet.landing.checks import CheckResult
from remit_fleet.landing.land import Lander, LandingForm, LandingMember, LandingTerms

INTENTS = 20
FILES = 2659
AUTHOR = Identity("An Agent", "agent@example.org", int(time.time()))


STARTED: list[str] = []
"""Programs started so far."""


def count_processes(event: str, arguments: tuple[object, ...]) -> None:
    if event == "subprocess.Popen":
        STARTED.append(str(arguments[0]))


def run_git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True).stdout.decode()


def make_repository(root: Path, count: int) -> Workspace:
    root.mkdir()
    run_git(root, "init", "-q", "-b", "main")
    for number in range(FILES):
        place = root / f"src/p{number % count}/f{number}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(f"value_{number}_{k} = {k}\n" for k in range(40)))
    entries = "".join(
        f"  - id: INT-{n:03d}\n    name: Part {n}\n    status: IN_PROGRESS\n    owned_scope: [src/p{n}/**]\n"
        "    constraints: [none]\n    acceptance_criteria: [it works]\n"
        for n in range(count)
    )
    (root / ".orchestration").mkdir()
    (root / ".orchestration/active_intents.yaml").write_text(f'version: "1.0"\nactive_intents:\n{entries}')
    workspace = workspace_at(root, find_git_root(root))
    govern_workspace(workspace)
    set_mode(workspace, "enforce")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "base")
    return workspace


def work(tree: Workspace, number: int) -> dict[str, str]:
    """Have an agent change a file and make one; the contents by path."""
    path, new = f"src/p{number}/f{number}.py", f"src/p{number}/new.py"
    old = (tree.root / path).read_text().splitlines(keepends=True)
    old[3:5] = [f"changed_{number}_{k} = compute_part({number}, {k})\n" for k in range(4)]
    files = {path: "".join(old), new: "".join(f"def part_{number}_{k}():\n    return {k}\n\n\n" for k in range(6))}
    for name, content in files.items():
        for event in ("PreToolUse", "PostToolUse"):
            payload = {
                "session_id": f"s{number}", "cwd": str(tree.root), "hook_event_name": event, "tool_name": "Write",
                "tool_use_id": f"{number}-{name}", "permission_mode": "bypassPermissions",
                "tool_input": {"file_path": str(tree.root / name), "content": content}, "tool_response": {},
            }  # fmt: skip
            if event == "PostToolUse":
                (tree.root / name).write_text(content)
            frame = HookFrame("claude-code", str(tree.root), "pre" if event == "PreToolUse" else "post")
            said = answer(json.dumps(payload).encode(), frame, read_environment())
            assert b"deny" not in said.stdout, said.stdout
    return files


def begin_session(tree: Workspace, number: int) -> None:
    payload = {
        "session_id": f"s{number}",
        "cwd": str(tree.root),
        "hook_event_name": "SessionStart",
        "source": "startup",
    }
    answer(json.dumps(payload).encode(), HookFrame("claude-code", str(tree.root), "note"), read_environment())


def pass_every_check(tree: Workspace, command: str) -> CheckResult:
    return CheckResult(command, is_green=True)


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name, "home")
        home.mkdir()
        os.environ |= {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "TMPDIR": str(home)}
        (home / ".gitconfig").write_text("[user]\n\tname = a\n\temail = a@example.org\n")
        root = Path(name, "repo")
        gate = Gate(make_repository(root, count), read_environment())
        trees = Worktrees(gate.workspace, Path(name, "trees"))
        sys.addaudithook(count_processes)
        lander = Lander(gate, trees, pass_every_check, lambda members, is_green: (members[0], ""))
        members: list[LandingMember] = []
        expected: dict[str, tuple[str, str]] = {}
        prepared: list[float] = []
        for number in range(count):
            intent = f"INT-{number:03d}"
            began = time.perf_counter()
            tree = trees.prepare(intent, 1, "main")
            prepared.append(time.perf_counter() - began)
            terms = Assignment(
                intent, intent, 1, number + 1, (f"src/p{number}/**",), base=run_git(root, "rev-parse", "main").strip()
            )
            AssignmentFile(tree).write(terms, 3600)
            begin_session(tree, number)
            expected |= {path: (intent, content) for path, content in work(tree, number).items()}
            done = trees.hand_in(tree, terms.sets, intent, AUTHOR)
            members.append(LandingMember(intent, 1, number + 1, done.commit, terms.sets, intent))
        print(f"worktree: p50 {statistics.median(prepared):.2f} s, {FILES} files")
        floor = min(time_of(lambda: Git(root).text("rev-parse", "HEAD")) for _ in range(20))
        print(f"one git process at best: {floor * 1000:.1f} ms")
        forms: tuple[LandingForm, LandingForm] = ("merge", "squash")
        for form in forms:
            terms = LandingTerms(target=f"remit/{form}", form=form)
            before, used = len(STARTED), os.times()
            times = [time_landing(lander, terms, member) for member in members]
            processes = (len(STARTED) - before) / len(members)
            right, lines, false = count_lines(gate, terms.ref, expected)
            print(f"{form:>7}: landing p50 {statistics.median(times) * 1000:.0f} ms, best {min(times) * 1000:.0f} ms")
            own, children = (
                sum(after - b for after, b in zip(os.times()[i : i + 2], used[i : i + 2], strict=True)) / len(members)
                for i in (0, 2)
            )
            print(
                f"{form:>7}: {processes:.1f} git processes a landing; processor {own * 1000:.0f} ms of its own, ",
                end="",
            )
            print(f"{children * 1000:.0f} ms of git; load {os.getloadavg()[0]:.0f}")
            print(f"{form:>7}: {right} of {lines} lines keep their intent, {false} have another")


def time_landing(lander: Lander, terms: LandingTerms, member: LandingMember) -> float:
    began = time.perf_counter()
    done = lander.land(terms, [member])
    assert member.intent in done.landed, done
    return time.perf_counter() - began


def time_of(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def count_lines(gate: Gate, target: str, expected: dict[str, tuple[str, str]]) -> tuple[int, int, int]:
    right = lines = false = 0
    with gate.index() as index:
        for path, (intent, content) in expected.items():
            try:
                before = run_git(gate.workspace.root, "show", f"main:{path}").splitlines()
            except subprocess.CalledProcessError:
                before = []
            blamed = Blamer(gate.workspace, index, gate.contents).blame(path, [target])
            assert [line.content for line in blamed] == content.splitlines()
            for line in blamed:
                is_new = line.content not in before
                lines += is_new
                right += is_new and line.intent_id == intent
                false += line.intent_id not in ((intent, None) if is_new else (None,))
    return right, lines, false


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else INTENTS)
