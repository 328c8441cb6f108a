"""`remit restore`, as a person runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import run
from conftest import run_git
from gate.driving import Agent, body, governed, records

REMIT = [sys.executable, "-m", "remit", "restore"]


def restore(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "restore", *words, **variables)


@pytest.fixture
def wrecked(repository: Path, home: Path) -> Path:
    """A repository in which an agent lost what nobody had committed."""
    agent = Agent(governed(repository, "observe"), home)
    agent.select()
    (repository / "src" / "new.py").write_text("fresh = 1\n")
    (repository / "README.md").write_text("edited\n")
    agent.shell("git reset -q --hard && git clean -fdq src && rm -rf src")
    return repository


def test_it_goes_back_by_meaning_and_back_again(wrecked: Path) -> None:
    preview = restore(wrecked, "--before", "git reset", "--preview", "--json")
    assert json.loads(preview.stdout)["data"]["write"] == ["README.md", "src/app.py", "src/new.py"]
    assert not (wrecked / "src").exists()
    done = restore(wrecked, "--before", "git reset")
    assert done.returncode == 0, done.stderr
    assert (wrecked / "src" / "new.py").read_text() == "fresh = 1\n"
    assert (wrecked / "README.md").read_text() == "edited\n"
    assert body(records(wrecked, "restore")[-1])["written"] == 3
    assert restore(wrecked, "undo").returncode == 0
    assert not (wrecked / "src").exists()
    assert run_git(wrecked, "show", "HEAD:README.md") == (wrecked / "README.md").read_text()


def test_only_some_files(wrecked: Path) -> None:
    assert restore(wrecked, "latest", "src/new.py").returncode == 0
    assert sorted(p.name for p in (wrecked / "src").iterdir()) == ["new.py"]


def test_the_list_names_what_each_precedes(wrecked: Path) -> None:
    listed = restore(wrecked, "list")
    assert "before git reset -q --hard && git clean" in listed.stdout
    [found] = json.loads(restore(wrecked, "--json").stdout)["data"]
    assert found["intent_id"] == "INT-001"


def test_a_person_pins_a_snapshot_and_lets_it_go(wrecked: Path) -> None:
    [found] = json.loads(restore(wrecked, "--json").stdout)["data"]
    assert restore(wrecked, "pin", found["id"], CLAUDECODE="1").returncode == 3
    assert restore(wrecked, "pin").returncode == 2
    assert restore(wrecked, "pin", found["id"]).returncode == 0
    assert json.loads(restore(wrecked, "--json").stdout)["data"][0]["pinned"]
    assert "no longer pinned" in restore(wrecked, "unpin", found["id"]).stdout
    assert not json.loads(restore(wrecked, "--json").stdout)["data"][0]["pinned"]


def test_an_agent_may_look_and_not_go_back(wrecked: Path) -> None:
    refused = restore(wrecked, "latest", CLAUDECODE="1")
    assert refused.returncode == 3
    assert not (wrecked / "src").exists()
    assert restore(wrecked, "list", CLAUDECODE="1").returncode == 0


def test_a_name_that_nothing_has_is_said(wrecked: Path) -> None:
    for words in (("nothing-like-it",), ("--before", "INT-999"), ("undo",)):
        done = restore(wrecked, *words)
        assert done.returncode == 2
        assert "restore" in done.stderr


def test_where_the_disk_is_full_nothing_half_written_stays_and_the_rest_is_told(wrecked: Path) -> None:
    (wrecked / "src").mkdir()
    large, small = wrecked / "src" / "large.bin", wrecked / "src" / "small.py"
    large.write_bytes(os.urandom(3_000_000))
    small.write_text("a = 1\n")
    agent = Agent(wrecked, Path.home())
    agent.shell("git clean -fdq src")
    limited = [*REMIT[:1], "-c", LIMITED, "restore", "--before", "git clean -fdq"]
    done = subprocess.run(limited, cwd=wrecked, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 1, done
    assert "not done: src/large.bin: File too large" in done.stdout
    assert "written: src/large.bin" not in done.stdout
    assert (small.read_text(), large.exists()) == ("a = 1\n", False)
    assert [path.name for path in (wrecked / "src").iterdir() if path.name.startswith(".remit")] == []


LIMITED = (
    "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000)); from remit.cli import main; main()"
)


def test_a_file_that_the_snapshot_does_not_have_is_not_said_to_be_as_it_was(wrecked: Path) -> None:
    assert "or the snapshot does not have them" in restore(wrecked, "latest", "nowhere.py", "--preview").stdout


@pytest.fixture
def written(repository: Path, home: Path) -> tuple[Path, Agent]:
    """A repository in which an agent wrote by its file tools alone, under two intents."""
    agent = Agent(governed(repository), home)
    agent.send("SessionStart", source="startup")
    agent.send("UserPromptSubmit", prompt="name the pages, please")
    agent.select("INT-002")
    agent.write("docs/page.md", "first\n")
    other = Agent(repository, home, session="session-2")
    other.select()
    other.write("src/names.py", "x = 1\n")
    other.write("src/app.py", "changed = 1\n")
    return repository, other


def test_the_state_before_an_intent_a_session_a_call_a_record_and_a_time(written: tuple[Path, Agent]) -> None:
    repository, agent = written
    calls = [body(r)["call"]["id"] for r in records(repository, "tool_use")]
    record = records(repository, "mutation")[0]
    for what in ("INT-001", "INT-002", agent.session, calls[-1], record["id"], record["id"][-12:], "now"):
        done = restore(repository, "--before", what, "--preview", "--json")
        assert done.returncode == 0, (what, done.stderr)
        assert "src/app.py" in json.loads(done.stdout)["data"]["write"], what
    preview = restore(repository, "--before", "INT-001", "--preview")
    assert "1 changes made after this snapshot and before INT-001 go back as well" in preview.stdout
    early = restore(repository, "--before", "2001-01-01", "--preview")
    assert (early.returncode, "no snapshot is that old" in early.stderr) == (2, True)
    assert restore(repository, "--before", "INT-001").returncode == 0
    assert "changed" not in (repository / "src" / "app.py").read_text()
