"""What a call of Remit's own agent costs beside its bare work: from the model's turn to the result, and between turns.

`python benchmarks/own_agent.py [--turns N]`: a scripted model reads and writes in turn; times come from the journal.
"""

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from remit.gate.governing.settings import govern_workspace, set_mode
from remit.gate.machine import Environment
from remit.rehearsal.scripted_model import Say, ScriptedModel, Use
from remit.workspace.place.workspace import locate_workspace
from remit_agent.models.providers import InProcessModel
from remit_agent.session.journal.file import read_journal
from remit_agent.session.journal.lines import AnyLine, AskedLine, ResultLine, RunLimits, TurnLine
from remit_agent.session.offer import AgentToolbox
from remit_agent.session.session import Session, SessionOptions

INTENTS = """\
version: "1.0"
active_intents:
  - {id: INT-001, name: Names, status: IN_PROGRESS, owned_scope: ["src/**"], constraints: [none],
     acceptance_criteria: [it works]}
"""
CITED = {"intent_id": "INT-001", "mutation_class": "BUG_FIX"}


def make_repository(root: Path) -> None:
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("".join(f"line_{n} = {n}\n" for n in range(200)))
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "first"),
    ):
        subprocess.run(["git", "-C", str(root), *words], check=True)
    workspace = locate_workspace(root)
    assert workspace is not None
    (root / ".orchestration").mkdir()
    (root / ".orchestration" / "active_intents.yaml").write_text(INTENTS)
    govern_workspace(workspace)
    set_mode(workspace, "enforce")


async def run(root: Path, home: Path, turns: int) -> tuple[list[AnyLine], float]:
    """Return the lines of the journal, and the seconds of processor time for a turn."""
    steps = [
        Use("write_to_file", {"path": f"src/f{n % 9}.py", "content": f"v = {n}\n", **CITED}, f"w{n}")
        if n % 2
        else Use("read_file", {"path": "src/app.py" if n % 4 else f"src/f{n % 9}.py"}, f"r{n}")
        for n in range(turns)
    ]
    session = await Session.open(
        root,
        SessionOptions(intent="INT-001", limits=RunLimits(max_turns=turns + 10)),
        provider=InProcessModel(ScriptedModel([*steps, Say("Done.")])),
        make_toolbox=lambda access: AgentToolbox(access.gate),
        environment=Environment(home, home / "tmp"),
    )
    async with session:
        began = time.process_time()
        await session.send("Begin")
        await session.wait_until_idle()
        used = (time.process_time() - began) / turns
    return [*read_journal(session.run.folder)], used


def print_row(name: str, seconds: list[float]) -> None:
    ms = sorted(1000 * one for one in seconds)
    print(f"{name:28} p50 {statistics.median(ms):6.2f} ms   p95 {ms[int(len(ms) * 0.95)]:6.2f} ms   n {len(ms)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=400)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as place:
        root, home = Path(place, "repo"), Path(place, "home")
        home.mkdir()
        make_repository(root)
        lines, used = asyncio.run(run(root, home, turns))
        bare: list[float] = []
        for n in range(turns):
            began = time.perf_counter()
            (root / "src" / "bare.py").write_text(f"v = {n}\n") if n % 2 else (root / "src" / "app.py").read_text()
            bare.append(time.perf_counter() - began)
    kinds: dict[str, list[float]] = {"read": [], "write": [], "between result and request": []}
    at = 0.0
    for line in lines:
        if isinstance(line, ResultLine) and line.kind == "done":
            kinds["read" if line.id.startswith("r") else "write"].append(line.at - at)
        if isinstance(line, AskedLine):
            kinds["between result and request"].append(line.at - at)
        if isinstance(line, TurnLine | ResultLine):
            at = line.at
    for name, seconds in kinds.items():
        print_row(name, seconds[5:])
    print_row("mean of reads and writes", [(a + b) / 2 for a, b in zip(kinds["read"], kinds["write"], strict=False)])
    print_row("bare", bare)
    print(f"{'processor time of a turn':28} mean {1000 * used:5.2f} ms")


if __name__ == "__main__":
    main()
