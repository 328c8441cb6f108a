"""A log that is shared as a tracked file: written at a commit's moment, read in another clone, by the commands."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.running import MAIN
from cli.test_ledger import log_folder
from cli.test_ledger_life import data, origin, remit
from conftest import run_git
from gate.driving import Agent, governed, records
from remit.core.diff.contents import sha256
from remit.core.record import KEY, Body
from remit.gate.gate import Gate
from remit.ledger.reader import read_lines
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER
from remit.workspace.sharing.tracked_logs import MAX_LOG_BYTES

SHARING = 'mode = "enforce"\n[share]\nlog = "tree"\n'
NEW = "def new():\n    return 'nobody else would write this'\n"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """A session in a repository that shares its log as a tracked file; its edit is committed."""
    found = Agent(governed(repository), home)
    (found.cwd / ".orchestration" / "remit.toml").write_text(SHARING)
    run_git(found.cwd, "add", ".")
    run_git(found.cwd, "commit", "-qm", "govern")
    found.send("SessionStart", source="startup", model="m")
    found.select()
    work(found, "src/new.py")
    return found


def work(agent: Agent, path: str) -> None:
    """Let the agent write a file, and commit that."""
    agent.write(path, NEW.replace("new", Path(path).stem))
    run_git(agent.cwd, "add", "src")
    run_git(agent.cwd, "commit", "-qm", path)


def tracked(root: Path) -> Path:
    (found,) = (root / TRACKED_LOGS_FOLDER).glob("*.jsonl")
    return found


def clone(agent: Agent, tmp_path: Path, home: Path) -> Path:
    """Another machine's clone, governed there."""
    other = tmp_path / "clone"
    run_git(tmp_path, "clone", "-q", str(agent.cwd), str(other))
    (home / ".local/state/remit").rename(home / "other-machine")
    return governed(other)


def clean(root: Path) -> bool:
    return run_git(root, "status", "--porcelain", "--untracked-files=no") == ""


def stopped(folder: Path, *arguments: str) -> None:
    """Run a git command that has to stop in a conflict."""
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0, done.stdout


def warnings(root: Path) -> list[str]:
    found = data(root, "ledger", "verify")["findings"]
    assert {(f["code"], f["severity"]) for f in found} <= {("tracked_damaged", "warning")}
    return [f["message"] for f in found]


def test_the_file_has_the_ledgers_lines_byte_for_byte_and_is_committed_alone(agent: Agent) -> None:
    (agent.cwd / "src" / "app.py").write_text("staged by somebody\n")
    run_git(agent.cwd, "add", "src/app.py")
    done = data(agent.cwd, "ledger", "push")
    assert (agent.cwd / done["path"]).read_bytes() == b"".join(
        line.raw + b"\n" for line in read_lines(log_folder(agent.cwd))
    )
    assert done["records"] == done["fresh"] == data(agent.cwd, "ledger", "verify")["records"]
    changed = run_git(agent.cwd, "show", "--format=", "--name-only", done["commit"]).split()
    assert changed == [f"{TRACKED_LOGS_FOLDER}/.gitattributes", done["path"]]
    assert run_git(agent.cwd, "status", "--porcelain", "--untracked-files=no") == "M  src/app.py\n"
    assert b'"event":"tree_head"' in tracked(agent.cwd).read_bytes().splitlines()[-1]


def test_what_head_has_already_makes_no_commit(agent: Agent) -> None:
    data(agent.cwd, "ledger", "push")
    head = run_git(agent.cwd, "rev-parse", "HEAD")
    again = data(agent.cwd, "ledger", "push")
    assert (again["fresh"], again["commit"], again["staged"]) == (0, None, False)
    assert run_git(agent.cwd, "rev-parse", "HEAD") == head
    assert clean(agent.cwd)


def test_nothing_is_written_where_nobody_said_so(agent: Agent) -> None:
    (agent.cwd / ".orchestration" / "remit.toml").write_text('mode = "enforce"\n')
    assert "NOT_SHARED" in remit(agent.cwd, "ledger", "push", "--json", code=2)
    assert not (agent.cwd / TRACKED_LOGS_FOLDER).exists()


def test_a_remote_is_refused_since_the_branch_carries_the_log(agent: Agent) -> None:
    assert "git push origin" in remit(agent.cwd, "ledger", "push", "origin", "--json", code=2)
    assert not (agent.cwd / TRACKED_LOGS_FOLDER).exists()


def test_another_clone_blames_and_trusts_by_the_key(agent: Agent, tmp_path: Path, home: Path) -> None:
    data(agent.cwd, "ledger", "push")
    key = data(agent.cwd, "ledger", "key")["key"]
    other = clone(agent, tmp_path, home)
    assert origin(other, "src/new.py") == "ai"
    assert "(unproved)" in remit(other, "log", "--event", "mutation")
    (other / ".orchestration" / "remit.toml").write_text(SHARING + f'[ledger]\ntrusted_keys = ["{key}"]\n')
    assert "(unproved)" not in remit(other, "log", "--event", "mutation")
    remit(other, "map")
    assert "src/new.py" in (other / ".orchestration" / "intent_map.md").read_text()


def test_two_clones_of_one_machine_are_two_files(agent: Agent, tmp_path: Path, home: Path) -> None:
    data(agent.cwd, "ledger", "push")
    other = tmp_path / "second"
    run_git(tmp_path, "clone", "-q", str(agent.cwd), str(other))
    second = Agent(governed(other), home, "session-2")
    second.select()
    work(second, "src/second.py")
    data(other, "ledger", "push")
    assert len(list((other / TRACKED_LOGS_FOLDER).glob("*.jsonl"))) == 2
    assert [origin(other, path) for path in ("src/new.py", "src/second.py")] == ["ai", "ai"]
    assert "src/new.py" in remit(other, "log", "--event", "mutation")
    run_git(agent.cwd, "pull", "-q", "--ff-only", str(other))
    assert origin(agent.cwd, "src/second.py") == "ai"
    assert warnings(other) == warnings(agent.cwd) == []


def on_two_branches(agent: Agent) -> str:
    """Share on a side branch and on the main one, which goes on; the main branch's name."""
    main = run_git(agent.cwd, "branch", "--show-current").strip()
    data(agent.cwd, "ledger", "push")
    run_git(agent.cwd, "checkout", "-qb", "side")
    work(agent, "src/side.py")
    data(agent.cwd, "ledger", "push")
    run_git(agent.cwd, "checkout", "-q", main)
    work(agent, "src/main.py")
    data(agent.cwd, "ledger", "push")
    return main


def test_a_merge_that_conflicts_is_said_and_settled(agent: Agent) -> None:
    on_two_branches(agent)
    stopped(agent.cwd, "merge", "-q", "side")
    assert b"<<<<" not in tracked(agent.cwd).read_bytes()
    (said,) = warnings(agent.cwd)
    assert "a merge left two versions of it; `remit ledger push --stage` settles it" in said
    assert "a merge left two versions" in remit(agent.cwd, "doctor", "--runs", "1")
    assert "a merge left two versions" in remit(agent.cwd, "verify")
    done = data(agent.cwd, "ledger", "push")
    assert (done["stopped"], done["commit"], len(done["settled"])) == (True, None, 1)
    run_git(agent.cwd, "commit", "-qm", "merged")
    assert warnings(agent.cwd) == []
    assert clean(agent.cwd)


def test_a_rebase_that_conflicts_goes_on_after_a_push(agent: Agent) -> None:
    main = on_two_branches(agent)
    run_git(agent.cwd, "checkout", "-q", "side")
    stopped(agent.cwd, "rebase", "-q", main)
    assert data(agent.cwd, "ledger", "push", "--stage")["stopped"]
    run_git(agent.cwd, "-c", "core.editor=true", "rebase", "--skip" if clean(agent.cwd) else "--continue")
    assert run_git(agent.cwd, "merge-base", main, "side") == run_git(agent.cwd, "rev-parse", main)
    assert warnings(agent.cwd) == []
    assert [origin(agent.cwd, f"src/{name}.py") for name in ("new", "side", "main")] == ["ai"] * 3


def test_a_teammate_settles_a_conflict_by_the_longer_side(agent: Agent, tmp_path: Path, home: Path) -> None:
    on_two_branches(agent)
    longer = tracked(agent.cwd).read_bytes()
    other = clone(agent, tmp_path, home)
    governed(other)
    Agent(other, home, "theirs").send("SessionStart", source="startup", model="m")
    run_git(other, "checkout", "-q", "-b", "mine", "origin/side")
    stopped(other, "merge", "-q", "-")
    (name,) = (path.name for path in (other / TRACKED_LOGS_FOLDER).glob("*.jsonl"))
    assert name in data(other, "ledger", "push")["settled"]
    assert (other / TRACKED_LOGS_FOLDER / name).read_bytes() == longer
    run_git(other, "commit", "-qm", "merged")
    assert warnings(other) == []


def test_two_sides_that_contradict_each_other_are_left_to_a_person(agent: Agent, tmp_path: Path, home: Path) -> None:
    on_two_branches(agent)
    other = clone(agent, tmp_path, home)
    Agent(other, home, "theirs").send("SessionStart", source="startup", model="m")
    file = tracked(other)
    file.write_bytes(file.read_bytes().replace(b"session-1", b"session-2"))
    run_git(other, "commit", "-qam", "forged")
    stopped(other, "merge", "-q", "origin/side")
    done = data(other, "ledger", "push")
    assert (done["settled"], done["unsettled"], done["stopped"]) == ([], [file.name], True)
    assert "not settled" in remit(other, "ledger", "push")
    assert any("a merge left two versions" in one for one in warnings(other))


def test_checkout_and_stash_do_not_refuse_after_a_push(agent: Agent) -> None:
    main = on_two_branches(agent)
    agent.write("src/later.py", "x = 1\n")
    for branch in ("side", main):
        run_git(agent.cwd, "checkout", "-q", branch)
        run_git(agent.cwd, "stash", "-q")
    assert clean(agent.cwd)


def test_what_a_merge_dropped_is_found_in_the_history(agent: Agent, tmp_path: Path, home: Path) -> None:
    on_two_branches(agent)
    full = tracked(agent.cwd).read_bytes()
    run_git(agent.cwd, "merge", "-q", "-s", "ours", "-m", "ours", "side")
    run_git(agent.cwd, "checkout", "-q", "HEAD~2", "--", TRACKED_LOGS_FOLDER)
    run_git(agent.cwd, "commit", "-qm", "rolled back")
    run_git(agent.cwd, "branch", "-qD", "side")
    assert len(tracked(agent.cwd).read_bytes()) < len(full)
    other = clone(agent, tmp_path, home)
    assert origin(other, "src/main.py") != "ai"
    (count,) = data(other, "ledger", "fetch")["records"].values()
    assert count == full.count(b"\n")
    assert origin(other, "src/main.py") == "ai"
    assert data(other, "ledger", "fetch")["records"] == data(other, "ledger", "fetch")["records"]


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "altered": (lambda raw: raw.replace(b'"session-1"', b'"session-2"', 1), "not what the line after it continues"),
    "conflict": (lambda raw: b"<<<<<<< HEAD\n" + raw + b"=======\n" + raw + b">>>>>>> side\n", "no record of a log"),
    "cut": (lambda raw: raw[:-50], "no record of a log"),
    "binary": (lambda _: b"\xff\x00" * 1000, "no record of a log"),
    "nested": (lambda raw: b"[" * 100_000 + b"\n" + raw, "no record of a log"),
    "beginning gone": (lambda raw: b"\n".join(raw.split(b"\n")[3:]), "it does not continue what HEAD has"),
}


def test_a_colleagues_damaged_file_is_read_as_far_as_it_is_true(agent: Agent, tmp_path: Path, home: Path) -> None:
    data(agent.cwd, "ledger", "push")
    other = clone(agent, tmp_path, home)
    file = tracked(other)
    whole = file.read_bytes()
    for name, (damage, said) in DAMAGES.items():
        file.write_bytes(damage(whole))
        assert any(said in one for one in warnings(other)), name
        assert origin(other, "src/new.py") == ("unknown" if name == "binary" else "ai"), name
        found = remit(other, "log", "-n", "100", "--event", "mutation").count("src/new.py")
        assert found == (name != "binary"), name


def test_a_forged_line_is_unproved_beside_a_trusted_log(agent: Agent, tmp_path: Path, home: Path) -> None:
    data(agent.cwd, "ledger", "push")
    key = data(agent.cwd, "ledger", "key")["key"]
    other = clone(agent, tmp_path, home)
    (other / ".orchestration" / "remit.toml").write_text(SHARING + f'[ledger]\ntrusted_keys = ["{key}"]\n')
    line = next(raw for raw in tracked(other).read_text().splitlines() if '"event":"mutation"' in raw)
    forged: dict[str, Any] = {**json.loads(line.replace("src/new.py", "src/forged.py")), "id": "forged"}
    forged["metadata"][KEY]["chain"]["log"] = Gate.open(other).recorder.log.name
    raw = json.dumps(forged, separators=(",", ":")) + "\n"
    (other / TRACKED_LOGS_FOLDER / "0123456789ab-01234567.jsonl").write_text(raw)
    assert "src/forged.py (unproved)" in " ".join(remit(other, "log", "--path", "src/forged.py").split())
    assert "(unproved)" not in remit(other, "log", "--path", "src/new.py")
    assert data(other, "ledger", "verify")["records"] == 0


def test_links_and_what_is_too_large_are_not_read(agent: Agent, tmp_path: Path, home: Path) -> None:
    data(agent.cwd, "ledger", "push")
    other = clone(agent, tmp_path, home)
    logs = other / TRACKED_LOGS_FOLDER
    (logs / "0123456789ab-01234567.jsonl").symlink_to("/dev/zero")
    os.mkfifo(logs / "0123456789ab-11111111.jsonl")
    with (logs / "0123456789ab-22222222.jsonl").open("wb") as file:
        file.truncate(MAX_LOG_BYTES + 1)
    said = "\n".join(warnings(other))
    assert said.count("it is no regular file") == 2
    assert "it is larger than 96 MiB" in said
    assert origin(other, "src/new.py") == "ai"
    for path in logs.iterdir():
        path.unlink()
    logs.rmdir()
    logs.symlink_to(agent.cwd / TRACKED_LOGS_FOLDER)
    assert origin(other, "src/new.py") != "ai"
    assert [".orchestration/log: nothing there is read: it is a link" in one for one in warnings(other)] == [True]
    Agent(other, home, "theirs").send("SessionStart", source="startup", model="m")
    before = tracked(agent.cwd).read_bytes()
    assert "UNAVAILABLE" in remit(other, "ledger", "push", "--json", code=4)
    assert tracked(agent.cwd).read_bytes() == before


def test_a_folder_in_the_files_place_is_named_and_nothing_is_lost(agent: Agent) -> None:
    remit(agent.cwd, "ledger", "push")
    path = tracked(agent.cwd)
    path.unlink()
    path.mkdir()
    (path / "kept").write_text("a person's")
    done = remit(agent.cwd, "ledger", "push", "--json", code=4)
    assert f"{path.name}' is a folder" in done
    assert "move it away" in done
    path.rename(agent.cwd / "aside")
    remit(agent.cwd, "ledger", "push")
    assert path.is_file()


def test_a_link_to_a_folder_with_the_same_file_is_no_tracked_log(agent: Agent, tmp_path: Path) -> None:
    data(agent.cwd, "ledger", "push")
    (agent.cwd / TRACKED_LOGS_FOLDER).rename(tmp_path / "elsewhere")
    (agent.cwd / TRACKED_LOGS_FOLDER).symlink_to(tmp_path / "elsewhere")
    assert "UNAVAILABLE" in remit(agent.cwd, "ledger", "push", "--json", code=4)


def test_an_edited_own_file_is_refused_and_deleting_it_writes_it_anew(agent: Agent) -> None:
    data(agent.cwd, "ledger", "push")
    file = tracked(agent.cwd)
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b'"session-1"', b'"session-2"', 1))
    (said,) = warnings(agent.cwd)
    assert "not in this machine's ledger" in said
    assert "INTEGRITY" in remit(agent.cwd, "ledger", "push", "--json", code=5)
    file.unlink()
    data(agent.cwd, "ledger", "push")
    assert file.read_bytes() == whole
    file.write_bytes(whole + b"=======\n")
    assert data(agent.cwd, "ledger", "push")["junk"] == 1
    assert file.read_bytes() == whole


def test_a_ledger_that_was_cut_is_convicted_by_its_tracked_file(agent: Agent) -> None:
    data(agent.cwd, "ledger", "push")
    folder = log_folder(agent.cwd)
    for kept in (*folder.glob("heads/*"), folder / "head"):
        kept.unlink()
    segment = next(folder.glob("0*.jsonl"))
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:3]))
    found = data(agent.cwd, "ledger", "verify", code=5)["findings"]
    assert any(f["code"] == "truncated" and TRACKED_LOGS_FOLDER in f["message"] for f in found)
    assert "INTEGRITY" in remit(agent.cwd, "ledger", "push", "--json", code=5)


def test_what_was_pruned_after_it_was_shared_stays_in_the_file(agent: Agent) -> None:
    recorder = Gate.open(agent.cwd, agent.environment).recorder
    recorder.append(
        [recorder.make_record(Body(event="tool_use", intent_id="INT-001", session_id="s"))] * 4100, sync=False
    )
    agent.send("SessionEnd", reason="other")
    data(agent.cwd, "ledger", "push")
    before = tracked(agent.cwd).read_bytes()
    data(agent.cwd, "ledger", "prune", "--keep-days", "0", "--yes")
    assert data(agent.cwd, "ledger", "verify")["pruned"]
    done = data(agent.cwd, "ledger", "push")
    assert (done["absent"], tracked(agent.cwd).read_bytes().startswith(before)) == (0, True)
    run_git(agent.cwd, "rm", "-q", "--cached", done["path"])
    tracked(agent.cwd).unlink()
    run_git(agent.cwd, "commit", "-qm", "gone")
    assert data(agent.cwd, "ledger", "push")["absent"] > 3000
    assert warnings(agent.cwd) == []


def test_no_secret_is_in_the_file_that_the_ledger_does_not_hold(agent: Agent) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    agent.ask("Bash", command=f"curl -H 'Authorization: token {secret}' https://example.org")
    data(agent.cwd, "ledger", "push")
    content = tracked(agent.cwd).read_bytes()
    assert b"curl -H" in content
    assert secret.encode() not in content


def test_git_keeps_the_bytes_whatever_the_repository_says_of_jsonl(agent: Agent) -> None:
    (agent.cwd / ".gitignore").write_text("log/\n*.jsonl\n")
    (agent.cwd / ".gitattributes").write_text("*.jsonl text eol=crlf filter=odd ident\n")
    for name, value in (("core.autocrlf", "true"), ("filter.odd.clean", "tr a b"), ("filter.odd.smudge", "tr b a")):
        run_git(agent.cwd, "config", name, value)
    data(agent.cwd, "ledger", "push")
    before = tracked(agent.cwd).read_bytes()
    assert clean(agent.cwd)
    tracked(agent.cwd).unlink()
    run_git(agent.cwd, "checkout", "--", TRACKED_LOGS_FOLDER)
    assert tracked(agent.cwd).read_bytes() == before


HOOK = f"""#!/bin/sh
unset CLAUDECODE
{sys.executable} -c '{MAIN}' ledger push --stage >hook.out 2>&1 || true
"""


def hooked(agent: Agent) -> None:
    (agent.cwd / ".git" / "info" / "exclude").write_text("hook.out\n")
    hook = agent.cwd / ".git" / "hooks" / "pre-commit"
    hook.write_text(HOOK)
    hook.chmod(0o755)


def test_a_pre_commit_hook_lets_it_travel_with_each_commit(agent: Agent) -> None:
    hooked(agent)
    for arguments in (("-qm", "plain"), ("-qam", "all")):
        agent.write("src/hooked.py", NEW + f"# {arguments[1]}\n")
        run_git(agent.cwd, "add", "src")
        run_git(agent.cwd, "commit", *arguments)
        assert tracked(agent.cwd).name in run_git(agent.cwd, "show", "--format=", "--name-only", "HEAD")
        assert clean(agent.cwd), (agent.cwd / "hook.out").read_text()
    agent.write("src/hooked.py", NEW)
    run_git(agent.cwd, "commit", "-qm", "one path", "src/hooked.py")
    assert "goes with the next commit" in (agent.cwd / "hook.out").read_text()
    assert clean(agent.cwd)
    assert warnings(agent.cwd) == []


def test_remits_own_append_is_no_change_of_an_agents(agent: Agent) -> None:
    hooked(agent)
    agent.write("src/hooked.py", NEW)
    agent.shell("git add src && git commit -q -m agent")
    data(agent.cwd, "ledger", "push")
    agent.shell("true")
    assert tracked(agent.cwd).is_file()
    told = [f["path"] for event in ("mutation", "human_edit") for record in records(agent.cwd, event)
            for f in record["metadata"][KEY]["files"]]  # fmt: skip
    assert "src/hooked.py" in told
    assert not [path for path in told if path.startswith(TRACKED_LOGS_FOLDER)]
    assert data(agent.cwd, "stats", "--range", "HEAD~2..HEAD")["coverage"]["range"]["unrecorded"] == []
    assert {line["origin"] for line in json.loads(remit(agent.cwd, "blame", str(tracked(agent.cwd)), "--json"))[
        "data"]["lines"]} == {"unknown"}  # fmt: skip


@pytest.mark.parametrize("name", ["0123456789ab-01234567.jsonl", ".gitattributes", "own"])
def test_an_agent_may_not_write_there(agent: Agent, name: str) -> None:
    data(agent.cwd, "ledger", "push")
    path = f"{TRACKED_LOGS_FOLDER}/{tracked(agent.cwd).name if name == 'own' else name}"
    for answer in (agent.write(path, "x"), agent.ask("Bash", command=f"echo x >> {path}")):
        assert "PROTECTED_PATH" in answer["permissionDecisionReason"]
    assert "COMMAND_BLOCKED" in agent.ask("Bash", command="remit ledger push")["permissionDecisionReason"]


def test_an_edit_by_an_agents_process_is_recorded_as_any_other(agent: Agent) -> None:
    data(agent.cwd, "ledger", "push")
    call = agent.ask("Bash", command="make")
    file = tracked(agent.cwd)
    file.write_bytes(file.read_bytes() + b"forged\n")
    if call.get("permissionDecision") != "deny":
        agent.tell("Bash", call["call_id"], {"stdout": ""}, command="make")
    agent.send("SessionEnd", reason="other")
    agent.send("SessionStart", source="startup", model="m")
    told = [f for event in ("mutation", "human_edit") for record in records(agent.cwd, event)
            for f in record["metadata"][KEY]["files"]]  # fmt: skip
    assert sha256(file.read_bytes()) in [
        f["after"]["sha256"] for f in told if f["path"].startswith(TRACKED_LOGS_FOLDER)
    ]
