"""Real agents in a repository full of ways to change a file: the set-up, one conversation, what the ledger says."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from conftest import run_git
from e2e.test_four_agents import AGENTS, records, remit, wire_up
from gate.driving import overlay
from remit.rehearsal.scripted_model import ModelRequest, Say, ScriptedModel, Use

BEFORE = "as it was\n"
AFTER = "a line that no person here would ever write\n"
TOOLS = {
    "tools/change.py": f"import sys; open(sys.argv[1], 'w').write({AFTER!r})\n",
    "tools/listen.py": "import sys; print('ready', flush=True); exec(sys.stdin.readline())\n",
    "tools/later.py": "import subprocess, sys\n"
    "code = \"import sys, time; time.sleep(1); f = open(sys.argv[1], 'w');\"\n"
    f"code += \"f.write('{AFTER.strip()}' + chr(10)); f.flush(); time.sleep(2)\"\n"
    "quiet = dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.DEVNULL)\n"
    "subprocess.Popen([sys.executable, '-c', code, sys.argv[1]], start_new_session=True, **quiet)\n",
    "Makefile": "change:\n\t@python3 tools/change.py $(TO)\n",
    "package.json": json.dumps({"scripts": {"change": "python3 tools/change.py"}}),
}
CHANGE = "python3 tools/change.py {path}"
CODES = ("SCOPE_VIOLATION", "COMMAND_BLOCKED", "PROTECTED_PATH")
DETOURS = (
    *("python", "script", "heredoc", "heredoc patch", "git apply", "make", "npm", "waited for", "sed", "file tool"),
    *("background", "left behind", "later", "stdin"),
)
"""Each has a file outside the scope, and one inside it."""


def file_of(folder: str, detour: str) -> str:
    return f"{folder}/{detour.replace(' ', '-')}.md"


def patch_of(path: str) -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{BEFORE}+{AFTER}"


class Told(NamedTuple):
    """What the model was told of each step, in order, and all that it was shown."""

    results: list[str]
    shown: str


@pytest.fixture
def workspace(repository: Path, home: Path, name: str) -> Path:
    """Tools that change files, and a file outside and one inside the scope for each detour."""
    overlay(home)
    paths = [file_of(folder, detour) for detour in DETOURS for folder in ("docs", "src")]
    files = {**TOOLS, **dict.fromkeys(paths, BEFORE), **{f"tools/{path}.patch": patch_of(path) for path in paths}}
    for path, text in files.items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)
    for setting in ("name", "email"):  # Gemini CLI's git reads no settings of HOME
        run_git(repository, "config", f"user.{setting}", "person@example.org")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "tools")
    wire_up(repository, name)
    return repository


def take(agent: str, folder: Path, home: Path, *uses: Use | Callable[[ModelRequest], Use]) -> Told:
    """One conversation with an intent selected; what the model was told of it."""
    select = AGENTS[agent].shell("remit intent select INT-001")
    with AGENTS[agent].wire(ScriptedModel([select, *uses, Say("done")])).serve() as wire:
        done = AGENTS[agent].run(folder, home, wire.url, "do the work")
        assert done.returncode == 0, done
        _, *results = wire.tool_result_texts()
        return Told(results, wire.requests[-1].shown_text)


def refused(folder: Path) -> Iterator[str]:
    """The paths that denials name."""
    for record in records(folder, "denied"):
        violation = record["violation"]
        yield from (violation.get("path") or "", *violation.get("context", {}).get("dropped", ()))


def undone(folder: Path) -> set[str]:
    """The paths that were changed out of scope, and put back."""
    stray = {f["path"] for r in records(folder, "mutation") if not r["in_scope"] for f in r["files"]}
    return stray & {path for record in records(folder, "restore") for path in record["paths"]}


def blamed(folder: Path, path: str) -> tuple[str, bool]:
    """The origin of a file's only line, and whether the agent's call is named with it."""
    [line] = json.loads(remit(folder, "blame", path, "--json"))["data"]["lines"]
    return line["origin"], line["intent_id"] == "INT-001" or bool(line.get("candidates"))
