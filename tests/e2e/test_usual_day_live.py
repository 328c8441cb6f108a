"""The usual work of each agent whose commands run contained: the same output and exit codes as without that."""

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import run_git
from e2e.detours import CODES, take, workspace
from e2e.npm import clean_environment
from e2e.test_four_agents import AGENTS, name, records
from remit.core.agents import ROWS

__all__ = ["name", "workspace"]

pytestmark = pytest.mark.live


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return door.getsockname()[1]


AWAIT_DOOR = (
    "import itertools, socket, time; "
    "next(n for n in itertools.count() if not socket.socket().connect_ex(('127.0.0.1', {port})) or time.sleep(0.1))"
)


def a_day() -> tuple[str, ...]:
    """Commands that nobody objects to; most of them tell nothing of what they write, and run contained."""
    at = f"127.0.0.1:{free_port()}"
    return (
        "ls",
        "git status --short",
        "printf 'def test_it():\\n    assert 1 + 1 == 2\\n' > src/test_it.py",
        "git add src && git commit -q -m 'feat: \"quoted\" ünï'",
        "git log -1 --format=%s",
        f"{sys.executable} -m pytest -q -p no:cacheprovider src/test_it.py | sed 's/ in .*//'",
        "npm --version",
        "python3 -c 'print(1)'",
        "python3 -c \"print('\\n'.join(f'line {n}' for n in range(200)))\"; true | xargs echo end",
        "python3 -c \"import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)\"",
        "python3 - <<'EOF'\nprint('a \\'quoted\\' \"text\" — ünïcode $HOME \\\\ 日本')\nEOF",
        "printf '%s\\n' \"two\nlines\" 'single \"double\"' | python3 -c 'import sys; print(sys.stdin.read())'",
        f"python3 -m http.server {at[10:]} --bind 127.0.0.1 > /dev/null 2>&1 & pid=$!; "
        f'python3 -c "{AWAIT_DOOR.format(port=at[10:])}"; '
        f"python3 -c \"import urllib.request as u; print(u.urlopen('http://{at}/README.md').read())\"; "
        'kill $pid; wait $pid; echo "ended $?"',
        "pwd | xargs basename",
        "cd src && python3 -c 'import os; print(os.path.basename(os.getcwd()))'",
        "python3 -c 'import os; os.kill(os.getpid(), 9)'",
    )


def outcome(text: str) -> int:
    """The exit code that the model is told; agents leave out 0."""
    found = re.search(r"(?i)exit(?:ed with)? code:? (\d+)", text)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("name", [agent for agent in sorted(AGENTS) if ROWS[agent].rewrites], indirect=True)
def test_a_day_without_detours_is_as_it_would_be_without_containment(name: str, workspace: Path, home: Path) -> None:
    bare = workspace.with_name("bare") / workspace.name
    shutil.copytree(workspace, bare, symlinks=True)
    commands = a_day()
    told = take(name, workspace, home, *map(AGENTS[name].shell, commands))
    seen = clean_environment(home)
    for command, text in zip(commands, told.results, strict=True):
        done = subprocess.run(["bash", "-c", command], cwd=bare, env=seen, capture_output=True, text=True, check=False)
        assert outcome(text) == (done.returncode if done.returncode >= 0 else 128 - done.returncode), (command, text)
        assert [line for line in done.stdout.splitlines() if line.strip() not in text] == [], (command, text)
        assert not any(code in text for code in CODES), (command, text)
    assert (workspace / "src/test_it.py").read_bytes() == (bare / "src/test_it.py").read_bytes()
    assert run_git(workspace, "log", "--format=%s") == run_git(bare, "log", "--format=%s")
    assert [r["decision"]["effect"] for r in records(workspace, "tool_use")].count("contain") >= 10
