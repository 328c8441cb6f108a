"""The first five minutes with a real agent, as one story: installed, asked for a change, looked at, taken out.

Nothing is enforced yet: it is what somebody meets who has typed `remit init` and gone on working.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from e2e.claude import run_claude
from e2e.npm import Result
from forked_commands import run_command
from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.scripted_model import Say, ScriptedModel, Use
from waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("claude_code")]

SETTINGS = {
    ".claude/settings.json": b'{\r\n\t"theme":  "dark"\r\n}',
    ".claude.json": b'{"numStartups": 3, "projects": {}}',
}
PROMPT = "Add a login to the app, and say so in the README"
WRITTEN = {
    "src/auth/__init__.py": '"""Logging in."""\n',
    "src/auth/login.py": "def login(name):\n    return name\n",
    "src/auth/session.py": "OPEN = {}\n",
    "README.md": "# Example\n\nIt has a login.\n",
}


def remit(folder: Path, *words: str, code: int = 0) -> str:
    """What a person's command says, on both streams."""
    done = run_command(words, folder)
    assert done.returncode == code, done
    return done.stdout + done.stderr


def data(folder: Path, *words: str) -> Any:
    return json.loads(remit(folder, *words, "--json"))["data"]


@pytest.fixture
def settings(home: Path) -> dict[Path, bytes]:
    """Settings that somebody wrote by hand, and their bytes."""
    found = {home / name: content for name, content in SETTINGS.items()}
    for path, content in found.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return found


def on_disk(paths: dict[Path, bytes]) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in paths}


def works(repository: Path, home: Path, *steps: Use) -> tuple[Result, list[str]]:
    """Claude Code, asked for a change."""
    with AnthropicWire(ScriptedModel([*steps, Say("It has a login now.")])).serve() as wire:
        shown = ("--output-format", "stream-json", "--verbose", "--include-hook-events")
        return run_claude(repository, home, wire.url, PROMPT, arguments=shown), wire.tool_result_texts()


def the_plan_comes_first(repository: Path, settings: dict[Path, bytes]) -> None:
    shown = remit(repository, "init", "--diff", code=2)
    assert "~/.claude/settings.json" in shown
    assert "claude-code" in shown
    assert "+" in shown
    assert "hook" in shown
    assert on_disk(settings) == settings
    assert not (repository / ".orchestration").exists()
    assert "mode: observe" in remit(repository, "init", "--yes")
    assert on_disk(settings) != settings
    assert "nothing to do" in remit(repository, "init", "--yes")


def the_work_is_not_in_the_way(repository: Path, home: Path) -> str:
    """Four files and a test run; nothing was asked and nothing refused. The session's id."""
    write = [Use("Write", {"file_path": str(repository / path), "content": text}) for path, text in WRITTEN.items()]
    read = Use("Read", {"file_path": str(repository / "README.md")})
    test = Use("Bash", {"command": "python3 -B -c 'import src.auth.login'"})
    done, told = works(repository, home, read, *write, test)
    assert done.returncode == 0, done
    assert "Remit: 4 files changed, 3 under src/auth, 1 elsewhere: README.md" in done.stdout
    assert f"as '{PROMPT}': remit intent new --from-session" in done.stdout
    assert {path: (repository / path).read_text() for path in WRITTEN} == WRITTEN, told
    [session] = data(repository, "status")["sessions"]
    assert "claude-code" in remit(repository, "status")
    return session["session_id"]


def the_log_has_it_all(repository: Path) -> None:
    changed = [
        f["path"] for r in data(repository, "log", "--event", "mutation") for f in r["metadata"]["dev.remit"]["files"]
    ]
    assert sorted(changed) == sorted(WRITTEN)
    shown = remit(repository, "log", "-n", "50")
    assert "python3 -B -c" in shown
    assert "4 of 4 changed files were judged before they changed" in remit(repository, "status")


def kept_contents(own: Path, words: str) -> str:
    """The lines with these words in the contents that Remit keeps: the background process puts them there in time."""
    found: list[str] = []

    def has_kept() -> bool:
        refs = run_git(own, "for-each-ref", "--format=%(refname)", "refs/remit/blobs").split()
        command = ["git", "-C", own, "grep", "-h", words, *refs]
        found[:] = [subprocess.run(command, capture_output=True, text=True, check=False).stdout] if refs else [""]
        return bool(found[0])

    wait_until(has_kept, f"no kept content has {words!r}")
    return found[0]


def what_a_reset_threw_away_is_kept(repository: Path, home: Path) -> None:
    """It is not refused in observe: what was not committed is gone from the folder, and a person gets it back."""
    (repository / "src" / "app.py").write_text("def main():\n    return 'not committed'\n")
    done, _ = works(repository, home, Use("Bash", {"command": "git reset --hard"}))
    assert "not committed" not in (repository / "src" / "app.py").read_text()
    [point] = set(re.findall(r"remit restore (\S+?)`", done.stdout)) or {"nothing was told of it"}
    assert "src/app.py" in remit(repository, "restore", point, "--dry-run")
    newest = data(repository, "log", "--event", "mutation", "-n", "1")[0]["metadata"]["dev.remit"]
    assert [f["path"] for f in newest["files"]] == ["README.md", "src/app.py"]
    own = repository / ".git/remit/objects.git"
    assert "return 'not committed'" in kept_contents(own, "not committed")
    assert run_git(repository, "for-each-ref", "refs/remit", "refs/notes") == ""


def what_nothing_brings_back_is_asked_first(repository: Path, home: Path) -> None:
    """With `-p` there is nobody to ask, and Claude Code refuses by itself."""
    elsewhere = home / "elsewhere.git"
    run_git(repository, "init", "-q", "--bare", str(elsewhere))
    run_git(repository, "push", "-q", str(elsewhere), "HEAD:main")
    before = run_git(elsewhere, "rev-parse", "main")
    _, told = works(repository, home, Use("Bash", {"command": f"git push --force {elsewhere} HEAD~0:main --delete"}))
    assert run_git(elsewhere, "rev-parse", "main") == before
    assert "nothing would bring back what it does" in told[-1]
    assert "remit approvals watch" in told[-1]


def the_commit_is_the_persons(repository: Path, session: str) -> None:
    run_git(repository, "add", "src")
    run_git(repository, "commit", "-q", "-m", "a login")
    assert run_git(repository, "log", "-1", "--format=%an: %B").strip() == "A Person: a login"
    lines = data(repository, "blame", "src/auth/login.py")["lines"]
    assert [(line["origin"], line["agent"]) for line in lines] == [("ai", "claude-code")] * 2
    why = remit(repository, "why", "src/auth/login.py:2")
    assert session in why
    assert "no intent" in why


def all_of_it_comes_out(repository: Path, settings: dict[Path, bytes]) -> None:
    """Claude Code has rewritten the file of its own in between: there, ours is what is gone."""
    by_hand, its_own = settings
    was = json.loads(its_own.read_bytes())
    assert was.pop("mcpServers")
    said = remit(repository, "uninstall")
    assert by_hand.read_bytes() == settings[by_hand]
    assert json.loads(its_own.read_bytes()) == was
    for stays in (".orchestration", "/log", "/key", "/objects.git"):
        assert stays in said
    assert not (by_hand.parents[1] / ".local" / "share" / "remit").exists()


def test_the_first_five_minutes(repository: Path, home: Path, settings: dict[Path, bytes]) -> None:
    assert "remit" in remit(repository, "--version")
    the_plan_comes_first(repository, settings)
    session = the_work_is_not_in_the_way(repository, home)
    the_log_has_it_all(repository)
    made = remit(repository, "intent", "new", "--from-session", session)
    assert f"INT-001 {PROMPT}\nowns src/auth/**, README.md" in made
    what_a_reset_threw_away_is_kept(repository, home)
    what_nothing_brings_back_is_asked_first(repository, home)
    the_commit_is_the_persons(repository, session)
    all_of_it_comes_out(repository, settings)
