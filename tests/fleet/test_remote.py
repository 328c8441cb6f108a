"""A remote that is shared by two hosts, and everything that can be wrong with it: named, survived, nothing lost."""

import os
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import run_git
from fleet.clones import TARGET, Clone, make_clones
from remit.workspace.sharing.shared_refs import RemoteAway
from remit_fleet.board import Attempt, Task
from remit_fleet.remote import name_shared
from remit_fleet.workers.handing_over import hand_in_by_person, hand_over, send_to_hosts, take_back


@pytest.fixture
def far(tmp_path: Path) -> Path:
    return tmp_path / "far.git"


@pytest.fixture
def clones(tmp_path: Path, home: Path, far: Path) -> tuple[Clone, Clone]:
    a, b, _ = make_clones(tmp_path, 2)
    return a, b


def tip_of(far: Path) -> str:
    return run_git(far, "for-each-ref", "--format=%(objectname)", TARGET).strip()


def work(intent: str) -> dict[str, str]:
    name = intent.lower().replace("-", "_")
    return {f"src/{intent.lower()}/new.py": f"def made_by_{name}():\n    return compute_{name}()\n"}


def put_hook(far: Path, name: str, text: str) -> None:
    hook = far / "hooks" / name
    hook.write_text(f"#!/bin/sh\n{text}\n")
    hook.chmod(0o755)


def test_what_one_host_hands_in_another_lands_and_both_have_one_name_for_the_repository(
    clones: tuple[Clone, Clone], far: Path
) -> None:
    a, b = clones
    member = b.hand_in("INT-001", 1, work("INT-001"))
    done = a.land(member)
    assert list(done.landed) == ["INT-001"]
    assert tip_of(far) == done.new == a.commit(TARGET)
    again = b.land(member)  # the other host sees what has landed
    assert again.landed == done.landed
    assert b.commit(TARGET) == done.new
    assert name_shared(a.gate.workspace) == name_shared(b.gate.workspace)


def test_what_a_person_finished_on_one_host_another_lands(clones: tuple[Clone, Clone], far: Path) -> None:
    a, b = clones
    member = b.hand_in("INT-001", 1, work("INT-001"))
    last = Attempt("r", "INT-001", 1, 1, branch="remit/INT-001/1")
    tree = hand_over(b.trees, last)
    (tree / "src/int-001/by_person.py").write_text("by_person = 1\n")
    task = Task("r", "INT-001", "p", scope=("src/int-001/**",))
    assert hand_in_by_person(b.trees, b.gate, task, last) == ()
    take_back(b.trees, task, last)
    send_to_hosts(b.gate, last, is_done=True)
    done = a.land(member)
    assert list(done.landed) == ["INT-001"]
    assert run_git(far, "show", f"{done.new}:src/int-001/by_person.py") == "by_person = 1\n"


def test_a_target_that_another_host_moved_forward_is_built_on(clones: tuple[Clone, Clone], far: Path) -> None:
    a, b = clones
    first = a.land(a.hand_in("INT-001", 1, work("INT-001")))
    second = b.land(b.hand_in("INT-002", 1, work("INT-002")))
    assert second.old == first.new
    assert tip_of(far) == second.new
    assert run_git(far, "ls-tree", "-r", "--name-only", second.new).count("new.py") == 2


def test_a_target_that_somebody_rewrote_stays_theirs_and_nothing_of_ours_is_lost(
    clones: tuple[Clone, Clone], far: Path
) -> None:
    a, b = clones
    landed = a.land(a.hand_in("INT-001", 1, work("INT-001"))).new
    other = run_git(b.root, "commit-tree", "main^{tree}", "-p", "main", "-m", "mine").strip()
    run_git(b.root, "push", "-q", "--force", "origin", f"{other}:{TARGET}")
    done = a.land(a.hand_in("INT-002", 1, work("INT-002")))
    (fault,) = done.faults
    assert (fault.intent, fault.kind, done.landed) == ("INT-002", "remote", {})
    assert "was rewritten on 'origin'" in fault.why
    assert (tip_of(far), a.commit(TARGET)) == (other, landed)
    # The next step that it says works, either way.
    command = next(part for part in fault.why.split("`") if part.startswith("git push --force-with-lease"))
    run_git(a.root, *command.split()[1:])
    assert tip_of(far) == landed
    again = a.land(a.hand_in("INT-002", 2, work("INT-002")))
    assert list(again.landed) == ["INT-002"]


def test_a_remote_that_is_away_is_waited_for(clones: tuple[Clone, Clone], far: Path) -> None:
    a, _ = clones
    member = a.hand_in("INT-001", 1, work("INT-001"))
    away = far.rename(far.with_name("away.git"))
    with pytest.raises(RemoteAway, match=r"'origin' does not answer .* see `git ls-remote origin`"):
        a.land(member)
    away.rename(far)
    assert list(a.land(member).landed) == ["INT-001"]


@contextmanager
def hanging_up() -> Generator[int]:
    """Yield the port of a server that closes each connection after a few bytes of no protocol."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"\x1b[2Jnot git at all\n" + os.urandom(64))

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_a_server_that_talks_junk_is_a_remote_that_is_away(clones: tuple[Clone, Clone]) -> None:
    a, _ = clones
    member = a.hand_in("INT-001", 1, work("INT-001"))
    with hanging_up() as port:
        run_git(a.root, "remote", "set-url", "origin", f"git://127.0.0.1:{port}/far.git")
        with pytest.raises(RemoteAway) as caught:
            a.land(member)
    assert "\x1b" not in str(caught.value)


def test_a_push_that_the_server_refuses_asks_with_its_words(clones: tuple[Clone, Clone], far: Path) -> None:
    a, _ = clones
    member = a.hand_in("INT-001", 1, work("INT-001"))
    put_hook(
        far, "update", 'test "$1" != refs/heads/remit/next || { printf "only on \\033[31mMondays\\n" >&2; exit 1; }'
    )
    done = a.land(member)
    assert [(fault.intent, fault.kind) for fault in done.faults] == [("INT-001", "remote")]
    assert "refuses to move" in done.faults[0].why
    assert "Mondays" in done.faults[0].why
    assert "\x1b" not in done.faults[0].why
    assert tip_of(far) == ""
    assert run_git(a.root, "for-each-ref", TARGET) == ""
    (far / "hooks" / "update").unlink()
    assert list(a.land(member).landed) == ["INT-001"]


def test_a_push_whose_answer_got_lost_has_landed(clones: tuple[Clone, Clone], far: Path) -> None:
    a, _ = clones
    member = a.hand_in("INT-001", 1, work("INT-001"))
    put_hook(far, "post-receive", "while read old new ref; do case $ref in */next) kill -9 $PPID;; esac; done")
    done = a.land(member)
    assert list(done.landed) == ["INT-001"]
    assert tip_of(far) == done.new == a.commit(TARGET)


def test_a_landing_that_died_between_the_remote_and_the_clone_is_found_again(
    clones: tuple[Clone, Clone], far: Path
) -> None:
    a, b = clones
    member = a.hand_in("INT-001", 1, work("INT-001"))
    done = b.land(member)
    assert run_git(a.root, "for-each-ref", TARGET) == ""
    assert a.land(member).landed == done.landed
    assert tip_of(far) == done.new


def test_a_target_that_the_remote_does_not_have_yet_is_pushed_whole(clones: tuple[Clone, Clone], far: Path) -> None:
    a, _ = clones
    first = a.land(a.hand_in("INT-001", 1, work("INT-001")))
    run_git(far, "update-ref", "-d", TARGET)
    second = a.land(a.hand_in("INT-002", 1, work("INT-002")))
    assert second.old == first.new
    assert tip_of(far) == second.new


def test_a_checkpoint_of_one_host_is_there_for_the_next_attempt_on_another(clones: tuple[Clone, Clone]) -> None:
    a, b = clones
    tree = b.trees.prepare("INT-001", 1, "main")
    (tree.root / "src" / "int-001" / "half.py").write_text("half = True\n")
    made = b.trees.checkpoint(tree, "INT-001", 1, "a checkpoint", 1_700_000_000)
    assert made is not None
    b.remote.push_checkpoint("INT-001/1")
    (tree.root / "src" / "int-001" / "half.py").write_text("half = False\n")
    newer = b.trees.checkpoint(tree, "INT-001", 1, "a checkpoint", 1_700_000_001)
    b.remote.push_checkpoint("INT-001/1")
    a.remote.fetch("refs/remit/wip/INT-001/*")
    assert newer is not None
    assert a.commit("refs/remit/wip/INT-001/1") == newer.commit != made.commit
