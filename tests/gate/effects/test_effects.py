"""What a call really changed is what its record says, whichever way it was changed."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from gate.driving import Agent, body, effects, governed, records


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent that works under INT-001 in a governed repository."""
    found = Agent(governed(repository), home)
    found.select()
    return found


def files(root: Path) -> list[dict[str, Any]]:
    return body(records(root, "mutation")[-1])["files"]


SHELL: list[tuple[str, dict[str, str]]] = [
    ("echo new > src/new.py", {"src/new.py": "create"}),
    ("echo more >> src/app.py", {"src/app.py": "modify"}),
    ("rm src/app.py", {"src/app.py": "delete"}),
    ("chmod +x src/app.py", {"src/app.py": "modify"}),
    ("mv src/app.py src/moved.py", {"src/app.py": "delete", "src/moved.py": "create"}),
    ("ln -s app.py src/link.py", {"src/link.py": "create"}),
    ("rm src/app.py && ln -s ../README.md src/app.py", {"src/app.py": "modify"}),
    ("echo x > src/new.py && git add -A && git commit -qm two", {"src/new.py": "create"}),
    ("echo x >> src/app.py && git commit -qam two && rm src/app.py", {"src/app.py": "delete"}),
    ("git rm -q src/app.py && git commit -qm gone", {"src/app.py": "delete"}),
    ("git mv src/app.py src/other.py", {"src/app.py": "delete", "src/other.py": "create"}),
    ("mkdir src/deep && echo 1 > src/deep/a && echo 2 > src/deep/b", {"src/deep/a": "create", "src/deep/b": "create"}),
    ("printf 'x' > 'src/a b\"c.py'", {'src/a b"c.py': "create"}),
    ("printf 'x' > 'src/new\nline.py'", {"src/new\nline.py": "create"}),
    ("printf 'x' > src/é.py", {"src/é.py": "create"}),
    (r"printf 'x' > src/$(printf 'caf\351').py", {r'"src/caf\351.py"': "create"}),
    ("printf '\\000\\001' > src/b.bin", {"src/b.bin": "create"}),
    ("git checkout -q -b side && echo s > src/s.py && git add -A && git commit -qm s", {"src/s.py": "create"}),
    ("git checkout -q --orphan fresh && echo o > src/o.py", {"src/o.py": "create"}),
    ("true", {}),
    ("echo same > src/t && rm src/t", {}),
]


@pytest.mark.parametrize(("command", "expected"), SHELL, ids=[c for c, _ in SHELL])
def test_what_a_shell_command_changed_is_recorded(agent: Agent, command: str, expected: dict[str, str]) -> None:
    found = agent.shell(command)
    assert "after" in found, found
    assert effects(agent.cwd) == expected
    assert found["after"] == {}


@pytest.mark.parametrize("name", ["plain.py", "new\nline.py", 'q"uote.py', "é.py", "a b#%.py"])
@pytest.mark.parametrize("command", ["append", "commit"])
def test_a_tracked_file_of_any_name_keeps_its_before(agent: Agent, name: str, command: str) -> None:
    path = agent.cwd / "src" / name
    path.write_text("one\n")
    run_git(agent.cwd, "add", "-A")
    run_git(agent.cwd, "commit", "-qm", "named")
    agent.shell('for f in src/*; do echo two >> "$f"; done' + ("; git commit -qam x" if command == "commit" else ""))
    [found] = [f for f in files(agent.cwd) if f["path"] == f"src/{name}"]
    assert found["operation"] == "modify"
    assert found["before"]["sha256"] == hashlib.sha256(b"one\n").hexdigest()
    assert found["ranges"][0]["start_line"] == 2


def test_a_tracked_name_that_is_not_utf8_keeps_its_before(agent: Agent) -> None:
    raw = os.fsencode(agent.cwd) + b"/src/caf\xe9.py"
    Path(os.fsdecode(raw)).write_bytes(b"one\n")
    run_git(agent.cwd, "add", "-A")
    run_git(agent.cwd, "commit", "-qm", "named")
    found = agent.shell(r"echo two >> src/$(printf 'caf\351.py')")
    assert found["after"] == {}
    [file] = files(agent.cwd)
    assert (file["path"], file["operation"]) == (r'"src/caf\351.py"', "modify")
    assert file["in_scope"]


def test_files_that_git_ignores_are_not_seen(agent: Agent) -> None:
    (agent.cwd / ".gitignore").write_text("*.log\n")
    run_git(agent.cwd, "add", ".gitignore")
    run_git(agent.cwd, "commit", "-q", "-m", "rules")
    agent.shell("echo x > src/a.log")
    assert effects(agent.cwd) == {}


def test_what_was_dirty_before_the_call_is_not_the_calls(agent: Agent) -> None:
    (agent.cwd / "src" / "mine.py").write_text("a person's\n")
    agent.shell("echo x > src/its.py")
    assert effects(agent.cwd) == {"src/its.py": "create"}


def test_an_effect_out_of_scope_is_recorded_as_such_and_said(agent: Agent) -> None:
    found = agent.shell("python3 -c \"open('docs.md','w').write('x')\"")
    assert "docs.md" in found["after"]["additionalContext"]
    assert not body(records(agent.cwd, "mutation")[-1])["in_scope"]


CONTENTS: list[tuple[bytes, bytes, list[tuple[int, int]]]] = [
    (b"a\r\nb\r\n", b"a\r\nB\r\nc\r\n", [(2, 3)]),
    (b"a\nb", b"a\nb\nc", [(3, 3)]),  # a final newline is no part of a line: its hash adds one anyway
    (b"a\nb\n", b"a\nb", []),
    (b"\0\1\2\n", b"\0\1\3\n", [(1, 1)]),
    (b"", b"a\n", [(1, 1)]),
    (b"a\nb\nc\n", b"a\nc\n", []),
    (b"@@ -1 +1 @@\n--- a\n", b"@@ -1 +1 @@\n+++ b\ndiff --git a/1 b/1\n", [(2, 3)]),
    ("é\n".encode("latin-1"), "é\nü\n".encode("latin-1"), [(2, 2)]),
    (b"".join(b"%d\n" % n for n in range(20_000)), b"".join(b"%d\n" % n for n in range(0, 20_000, 2)), []),
    (b"x\n" * 5, b"y\nx\nx\ny\nx\nx\nx\n", [(1, 1), (4, 4)]),
]


@pytest.mark.parametrize(("old", "new", "ranges"), CONTENTS)
def test_the_lines_that_a_call_added_are_its_ranges(
    agent: Agent, old: bytes, new: bytes, ranges: list[tuple[int, int]]
) -> None:
    run_git(agent.cwd, "config", "core.autocrlf", "true")
    run_git(agent.cwd, "config", "diff.interHunkContext", "5")
    run_git(agent.cwd, "config", "diff.noprefix", "true")
    path = agent.cwd / "src" / "f"
    path.write_bytes(old)
    agent.write(path, new)
    [file] = files(agent.cwd)
    assert file["before"]["sha256"] == hashlib.sha256(old).hexdigest()
    assert file["after"]["sha256"] == hashlib.sha256(new).hexdigest()
    assert [(r["start_line"], r["end_line"]) for r in file.get("ranges", [])] == ranges


def test_a_position_that_the_payload_cannot_mean_is_not_believed(agent: Agent) -> None:
    path = agent.cwd / "src" / "app.py"
    arguments = {"file_path": str(path), "old_string": "1", "new_string": "2"}
    before = agent.ask("Edit", **arguments)
    path.write_text("def main():\n    return 2\n")
    hunks = [{"newStart": start, "lines": ["+x"]} for start in (-5, 0, True, 10**30, "1", 2)]
    agent.tell("Edit", before["call_id"], {"filePath": str(path), "structuredPatch": hunks}, **arguments)
    assert [(r["start_line"], r["end_line"]) for r in files(agent.cwd)[0]["ranges"]] == [(2, 2)]


def worktree(root: Path, home: Path) -> Agent:
    run_git(root, "worktree", "add", "-q", str(root.parent / "linked"))
    return Agent(root.parent / "linked", home)


def worktree_with_intents(root: Path, home: Path) -> Agent:
    run_git(root, "add", "-f", ".orchestration/active_intents.yaml", ".orchestration/remit.toml")
    run_git(root, "commit", "-qm", "intents")
    return worktree(root, home)


def inner_worktree(root: Path, home: Path) -> Agent:
    run_git(root, "worktree", "add", "-q", str(root / ".claude" / "worktrees" / "w"))
    return Agent(root / ".claude" / "worktrees" / "w", home)


@pytest.mark.parametrize("made", [worktree, worktree_with_intents, inner_worktree])
def test_a_linked_worktree_is_governed_and_recorded(
    repository: Path, home: Path, made: Callable[[Path, Path], Agent]
) -> None:
    governed(repository)
    linked = made(repository, home)
    assert linked.write("src/x.py", "x\n").get("permissionDecision") == "deny"
    linked.select()
    linked.shell("echo 1 > src/y.py")
    assert effects(repository) == {"src/y.py": "create"}
    linked.write("src/x.py", "x\n")
    assert effects(repository) == {"src/x.py": "create"}
    assert linked.write("README.md", "x\n").get("permissionDecision") == "deny"
    assert {"INT-001", "INT-002"} == {body(r)["intent_id"] for r in records(repository, "intent_changed")}
    assert not [r for r in records(repository, "intent_changed") if body(r).get("removed")]


def test_a_worktree_without_the_folder_leaves_the_copies_alone(repository: Path, home: Path) -> None:
    main = Agent(governed(repository), home)
    main.select()
    worktree(repository, home).write("src/x.py", "x\n")
    copy = repository / ".git" / "remit" / "governing" / "active_intents.yaml"
    assert copy.read_bytes() == (repository / ".orchestration" / "active_intents.yaml").read_bytes()
    (repository / ".orchestration").rename(repository.parent / "gone")
    assert main.write("src/z.py", "z\n").get("permissionDecision") is None
    assert main.write("docs/z.py", "z\n").get("permissionDecision") == "deny"


def test_a_workspace_in_a_subfolder_sees_its_own_part(repository: Path, home: Path) -> None:
    (repository / "pkg" / "src").mkdir(parents=True)
    (repository / "pkg" / "src" / "a.py").write_text("a\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "pkg")
    inner = Agent(governed(repository / "pkg"), home)
    inner.select()
    inner.shell("echo b >> src/a.py; echo n > src/n.py; git commit -qam two; echo c > src/c.py")
    assert effects(inner.cwd) == {"src/a.py": "modify", "src/c.py": "create", "src/n.py": "create"}
    assert files(inner.cwd)[0]["ranges"][0]["start_line"] == 2


def test_nested_workspaces_are_each_their_own(repository: Path, home: Path) -> None:
    outer = Agent(governed(repository), home)
    governed(repository / "src", "observe", INTENTS_OF_NESTED)
    outer.select("INT-002")
    assert outer.write("docs/a.md", "x\n").get("permissionDecision") is None
    assert outer.write("src/app.py", "x\n").get("permissionDecision") is None, "the nested one observes"
    assert outer.write("other.md", "x\n").get("permissionDecision") == "deny"
    assert (repository / ".git" / "remit" / "enforce").exists(), "the outer one still enforces"
    assert not [r for r in records(repository, "intent_changed") if body(r).get("removed")]


INTENTS_OF_NESTED = 'version: "1.0"\nactive_intents:\n  - {id: SUB-001, owned_scope: ["**"], status: IN_PROGRESS}\n'


def test_a_repository_without_commits(tmp_path: Path, home: Path) -> None:
    root = tmp_path / "fresh"
    root.mkdir()
    run_git(root, "init", "-q")
    agent = Agent(governed(root), home)
    agent.select()
    agent.shell("mkdir src; echo 1 > src/a; git add -A; git commit -qm first; echo 2 > src/b")
    assert effects(root) == {"src/a": "create", "src/b": "create"} | dict.fromkeys(
        [p for p in effects(root) if p.startswith(".orchestration")], "create"
    )


def test_a_workspace_without_git(tmp_path: Path, home: Path) -> None:
    root = tmp_path / "plain"
    root.mkdir()
    agent = Agent(governed(root), home)
    agent.select()
    agent.shell("mkdir src; echo 1 > src/a")
    assert effects(root) == {"src/a": "create"}
    agent.write("src/a", "1\n2\n")
    assert effects(root) == {"src/a": "modify"}
    assert files(root)[0]["ranges"][0]["start_line"] == 2
    assert all("vcs" not in record for record in records(root))


def test_a_repository_inside_the_workspace_does_not_escape_it(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    (repository / "src" / "inner").mkdir()
    run_git(repository / "src" / "inner", "init", "-q")
    agent.cwd = repository / "src" / "inner"
    assert agent.ask("Bash", command="echo x > y")["permissionDecision"] == "deny"


def test_a_commit_of_many_files_is_recorded(agent: Agent) -> None:
    agent.shell("mkdir src/m; for i in $(seq 600); do echo $i > src/m/$i; done; git add -A; git commit -qm many")
    assert len(effects(agent.cwd)) == 600
    agent.shell("for i in $(seq 600); do echo x >> src/m/$i; done; git commit -qam more")
    assert set(effects(agent.cwd).values()) == {"modify"}
