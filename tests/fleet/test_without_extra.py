"""Without the extra nothing breaks, and the command says what to install; below an agent only reading commands run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.fleet_driving import PlanRepository

BLOCK = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("dbos", "sqlalchemy", "remit_fleet"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None
sys.meta_path.insert(0, Missing())
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "remit_fleet" else find_spec(name)
from remit.cli import main
main()
"""
NEVER_LOADED = ("dbos", "sqlalchemy", "psycopg", "remit_fleet.engines.dbos", "remit_fleet.database.store")


@pytest.mark.parametrize(
    "words", [["plan", "start", "--yes"], ["worker"], ["plan", "status"], ["task", "show", "INT-001"]]
)
def test_without_the_extra_a_command_names_it(words: list[str], home: Path, tmp_path: Path) -> None:
    fleet = PlanRepository(home, tmp_path / "work")
    fleet.govern(1)
    run = [sys.executable, "-c", BLOCK, *words]
    done = subprocess.run(run, cwd=fleet.root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert f"`remit {words[0]}` needs the extra `cluster`" in done.stderr
    assert "uv tool install '.[cluster]'" in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["plan", "--help"], ["plan", "check"], ["status"], ["intent", "list"]])
def test_other_commands_load_nothing_of_the_engine(words: list[str], home: Path, tmp_path: Path) -> None:
    fleet = PlanRepository(home, tmp_path / "work")
    fleet.govern(1)
    show = "import atexit, json, sys; atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))"
    run = [sys.executable, "-c", f"{show}; from remit.cli import main; main()", *words]
    done = subprocess.run(run, cwd=fleet.root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    loaded = json.loads(done.stderr.splitlines()[-1])
    assert [name for name in NEVER_LOADED if name in loaded] == []


FOR_A_PERSON = (
    "plan start --yes",
    "plan stop INT-001",
    "plan log",
    "plan land",
    "plan undo INT-001 --yes",
    "task retry INT-001",
    "task take INT-001",
    "task give-back INT-001",
    "task steer INT-001 more",
    "task reassign INT-001 --agent codex",
    "worker --until-idle",
    "worker list",
    "fleet rebuild",
    "fleet prune",
    "task artifacts INT-001",
)


def test_below_an_agent_only_reading_commands_run(home: Path, tmp_path: Path) -> None:
    fleet = PlanRepository(home, tmp_path / "work")
    fleet.govern(1)
    fleet.variables = {**os.environ, "CLAUDECODE": "1"}
    log = fleet.root / ".git/remit/log"

    def count_refusals() -> int:
        texts = "".join(path.read_text() for path in log.rglob("*.jsonl"))
        return texts.count("started by a coding agent")

    found: dict[str, tuple[bool, bool]] = {}
    for words in FOR_A_PERSON:
        before, shown = count_refusals(), fleet.remit(*words.split(), code=3)
        found[words] = ("is for a person" in shown, count_refusals() > before)
    assert found == dict.fromkeys(FOR_A_PERSON, (True, True))
    before = count_refusals()
    assert "is for a person" not in fleet.remit("plan", "status")
    assert count_refusals() == before
