"""A session of twenty usual calls in each real agent, in enforce, with a fair scope: `python benchmarks/sessions.py`.

Counted are the calls that were refused or asked about, and how much of the session's wall time the hooks took: a
wrapper in the client's place notes when each began and ended. Beside it stands the same session without Remit.
The agents come from npm and talk to a scripted model on this machine, which answers at once; so a second share is that
of a session in which each turn takes two seconds of thinking. Nothing is asserted: the table is the result.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from e2e.npm import Result  # noqa: E402
from e2e.test_four_agents import AGENTS, Agent  # noqa: E402
from processes import daemons_of  # noqa: E402
from remit.rehearsal.scripted_model import Say, ScriptedModel, Use  # noqa: E402

WRAPPER = """#!/bin/bash
case "$2" in pre|post|note) ;; *) exec {real} "$@" ;; esac
began=$EPOCHREALTIME
{real} "$@"
code=$?
echo "$2 $began $EPOCHREALTIME" >> {log}
exit $code
"""
THINKING_S = 2.0
REFUSED = re.compile(r"\[(?!System)[A-Z]+_[A-Z_]+\]")
ASKED = re.compile(
    r"needs a person's yes|requires approval|requires user confirmation|approval required", re.IGNORECASE
)

UTIL = "def add(a, b):\n    return a + b\n"
TEST = "from util import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
TABLE = "python3 - <<'E'\nopen('src/table.py', 'w').write('TABLE = ' + repr(list(range(9))) + '\\n')\nE"


class Figures(Struct, frozen=True):
    """What one session gave."""

    calls: int
    refused: list[str]
    asked: list[str]
    wall_s: float
    hooks_s: float
    hooks: int


def usual_calls(agent: Agent, root: Path) -> list[tuple[str, Use]]:
    """Twenty calls, each with the words to name it by."""

    def shell(command: str) -> tuple[str, Use]:
        return command.splitlines()[0], agent.shell(command)

    def write(name: str, text: str) -> tuple[str, Use]:
        return f"write {name}", agent.write(root / name, text)

    test = "PYTHONPATH=src python3 -m pytest -q tests"
    return [
        shell("ls -la"),
        shell("git status --short"),
        shell("cat src/app.py"),
        shell("grep -rn def src"),
        write("src/util.py", UTIL),
        write("tests/test_util.py", TEST),
        shell(test),
        shell("sed -i 's/a + b/b + a/' src/util.py"),
        shell("git diff --stat"),
        shell("python3 src/app.py"),
        shell("ruff format src tests"),
        write("src/more.py", "MORE = 1\n"),
        shell(f"{test} 2>&1 | tail -3"),
        shell(TABLE),
        shell("git add src tests"),
        shell("git commit -q -m 'feat: add'"),
        shell("git log --oneline -3"),
        shell("wc -l src/app.py src/util.py"),
        shell("find . -name '*.py' -not -path './.git/*' | head"),
        shell("git status"),
    ]


def run_session(name: str, home: Path, *, governed: bool) -> Figures:
    """Run the session of one agent in a repository of its own."""
    agent, root, log = AGENTS[name], home / "project", home / "hooks.log"
    make_repository(root)
    if governed:
        trust = ["--trust-codex"] if name == "codex" else []
        remit(root, "init", "--yes", "--mode", "enforce", "--agent", name, *trust)
        remit(root, "intent", "new", "Add", "--scope", "src/**", "--scope", "tests/**")
        wrap_client(home, log)
    calls = usual_calls(agent, root)
    first = [agent.shell("remit intent select INT-001")] if governed else []
    with agent.wire(ScriptedModel([*first, *(use for _, use in calls), Say("done")])).serve() as wire:
        done: Result = agent.run(root, home, wire.url, "do the work")
        told = wire.tool_result_texts()[len(first) :]
    if done.returncode != 0 or len(told) != len(calls):
        sys.stderr.write(
            f"{name}: exit {done.returncode}, {len(told)} of {len(calls)} results\n{done.stderr[-2000:]}\n"
        )
    named = [(words, text) for (words, _), text in zip(calls, told, strict=False)]
    spans = [tuple(map(float, line.split()[1:])) for line in log.read_text().splitlines()] if log.exists() else []
    return Figures(
        calls=len(told),
        refused=[f"{words}: {text[:200]}" for words, text in named if REFUSED.search(text)],
        asked=[f"{words}: {text[:200]}" for words, text in named if ASKED.search(text)],
        wall_s=done.seconds,
        hooks_s=sum(end - began for began, end in spans),
        hooks=len(spans),
    )


def make_repository(root: Path) -> None:
    """Make a small repository with a commit, and a `.gitignore` as people have it."""
    (root / "src").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "src" / "app.py").write_text("def main():\n    return 42\n\n\nprint(main())\n")
    (root / ".gitignore").write_text("__pycache__/\n.pytest_cache/\n.ruff_cache/\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], cwd=root, check=True)


def remit(root: Path, *words: str) -> None:
    """Run a command of Remit's that has to work."""
    subprocess.run([sys.executable, "-m", "remit", *words], cwd=root, check=True, capture_output=True)


def wrap_client(home: Path, log: Path) -> None:
    """Put a wrapper in the client's place that notes how long each hook took."""
    client = home / ".local/share/remit/bin/hook"
    real = client.parent / "real"
    real.mkdir()
    shutil.copy2(client.with_name("hook.conf"), real / "hook.conf")
    client.rename(real / "hook")
    client.write_text(WRAPPER.format(real=real / "hook", log=log))
    client.chmod(0o755)


def in_home(run: Callable[[Path], Figures]) -> Figures:
    """Run it in a HOME of its own, and end the daemon that it started."""
    with tempfile.TemporaryDirectory(dir=Path.home(), prefix=".remit-sessions-") as folder:
        home = Path(folder)
        os.environ["HOME"] = folder
        try:
            return run(home)
        finally:
            for pid in daemons_of(home):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def main(names: Sequence[str]) -> None:
    """Print a row an agent."""
    own = os.environ["HOME"]
    for who in ("AUTHOR", "COMMITTER"):
        os.environ |= {f"GIT_{who}_NAME": "Bench", f"GIT_{who}_EMAIL": "bench@example.org"}
    print("| agent | calls | refused | asked about | wall | hooks | their share | with thinking | without Remit |")
    print("|---|---|---|---|---|---|---|---|---|")
    details: dict[str, list[str]] = {}
    for name in names or AGENTS:
        bare = in_home(lambda home, name=name: run_session(name, home, governed=False))
        os.environ["HOME"] = own
        found = in_home(lambda home, name=name: run_session(name, home, governed=True))
        os.environ["HOME"] = own
        share = 100 * found.hooks_s / found.wall_s
        hooks = f"{found.hooks} in {found.hooks_s:.2f} s"
        thinking = 100 * found.hooks_s / (found.wall_s + THINKING_S * found.calls)
        row = (
            name,
            found.calls,
            len(found.refused),
            len(found.asked),
            f"{found.wall_s:.1f} s",
            hooks,
            f"{share:.1f} %",
        )
        print(f"| {' | '.join(map(str, row))} | {thinking:.1f} % | {bare.wall_s:.1f} s |", flush=True)
        details |= {name: [*found.refused, *found.asked]} if found.refused or found.asked else {}
    if details:
        print(json.dumps(details, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1:])
