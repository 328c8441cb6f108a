"""A run of Remit's own agent, killed at each of its writes and resumed; `test_crash_points.py` starts it.

For each point the whole workspace is put back as it was, a child begins the run and is killed, another child resumes.
The report names each point that did not come out as an undisturbed run does; it goes to standard output as JSON.
"""

import asyncio
import ctypes
import json
import os
import random
import re
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from agent.driving import step_by_results
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.ledger.reader import read_lines
from remit.rehearsal.scripted_model import ScriptedModel, Step, Use
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit_agent.models.messages import TailNote
from remit_agent.models.providers import InProcessModel
from remit_agent.session.journal.file import RunDirectory, read_journal, runs_folder
from remit_agent.session.journal.history import RunHistory
from remit_agent.session.offer import AgentToolbox
from remit_agent.session.session import Session, SessionOptions
from remit_agent.tools.gate_access import GateAccess

SET_CHILD_SUBREAPER = 36  # of prctl(2)
NOT_COMPARED = (
    "recovery",
    "snapshot",
    "session_start",
    "session_end",
    "tree_head",
    *("intent_selected", "intent_cleared"),
)
"""Records that may be more: a resumed session starts again, and a tool of Remit that is run again selects again."""
REMARKS = re.compile(r"(\\n)*<remit>.*</remit>|, \d+\.\d s")
"""Remit's remarks in a result: of a call that was recorded but not answered they are lost, and a note says so. And the
time that a command took."""


CITED = {"intent_id": "INT-001", "mutation_class": "INTENT_EVOLUTION"}
PATCH = """\
*** Begin Patch
*** Update File: src/two.py
@@
-a = 0
+a = 1
*** Update File: src/three.py
@@
-a = 0
+a = 1
*** End Patch
"""


def write(path: str, content: str, id: str) -> Use:
    return Use("write_to_file", {"path": path, "content": content, **CITED}, id)


def edit(path: str, old: str, new: str, id: str) -> Use:
    return Use("edit", {"file_path": path, "old_string": old, "new_string": new, **CITED}, id)


SCRIPT: tuple[Step, ...] = (
    Use("select_active_intent", {"intent_id": "INT-001"}, "c1"),
    write("src/new.py", "x = 1\n", "c2"),
    edit("src/app.py", "return 1", "return 2", "c3"),
    (Use("read_file", {"path": "src/app.py"}, "c4"), Use("read_file", {"path": "src/new.py"}, "c5")),
    write("docs/no.md", "not in the scope\n", "c6"),
    (write("src/two.py", "a = 0\n", "c7"), write("src/three.py", "a = 0\n", "c8")),
    Use("apply_patch", {"patch": PATCH, **CITED}, "c9"),
    Use("execute_command", {"command": "sh src/make.sh"}, "c12"),
    Use("new_task", {"mode": "code", "message": "CHILD: write the fourth file"}, "c10"),
    Use("attempt_completion", {"result": "done"}, "c11"),
)
CHILD: tuple[Step, ...] = (
    write("src/four.py", "f = 4\n", "d1"),
    Use("attempt_completion", {"result": "the child is done"}, "d2"),
)


def long_script(turns: int) -> tuple[Step, ...]:
    """Two calls a turn: a file is written whole, and another one edited."""
    return (
        Use("select_active_intent", {"intent_id": "INT-001"}, "s"),
        write("src/count.py", "n = 0\n", "w"),
        *(
            (
                write(f"src/f{n % 7}.py", f"v = {n}\n", f"w{n}"),
                edit("src/count.py", f"n = {n}\n", f"n = {n + 1}\n", f"e{n}"),
            )
            for n in range(turns)
        ),
        Use("attempt_completion", {"result": "done"}, "end"),
    )


def make_toolbox(access: GateAccess) -> AgentToolbox:
    return AgentToolbox(access.gate)


class Program:
    """The run, begun or taken up again, to its end."""

    def __init__(self, root: Path, home: Path, script: tuple[Step, ...]) -> None:
        self.root, self.home, self.script = root, home, script

    @property
    def workspace(self) -> Workspace:
        found = locate_workspace(self.root)
        assert found is not None
        return found

    def run(self) -> None:
        asyncio.run(self.work())

    async def work(self) -> None:
        steps = step_by_results(*self.script)
        model = InProcessModel(ScriptedModel(steps * 3, {"CHILD": step_by_results(*CHILD) * 3}))
        environment = Environment(self.home, self.home / "tmp")
        options = SessionOptions(until_completion=True, has_person=False)
        given: dict[str, Any] = {
            "provider": model,
            "make_toolbox": make_toolbox,
            "environment": environment,
        }
        summaries = Session.list(self.workspace)
        if summaries:
            session = await Session.resume(self.root, "", options, **given)
        else:
            session = await Session.open(self.root, replace(options, task="the task"), **given)
        async with session:
            await session.wait_until_idle()


def describe(root: Path, home: Path) -> dict[str, Any]:
    """Return what is to be equal: files and modes, the conversation, and how often each call is in the ledger."""
    files: dict[str, str] = {}
    for here, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in (".git", ".orchestration")]
        for name in names:
            path = Path(here) / name
            files[str(path.relative_to(root))] = f"{path.stat().st_mode:o} {path.read_text()}"
    gate = Gate.open(root, Environment(home, home / "tmp"))
    events: Counter[str] = Counter()
    for line in read_lines(gate.workspace.log_folder):
        body = json.loads(line.raw)["metadata"]["dev.remit"]
        if body["event"] not in NOT_COMPARED:
            paths = ",".join(file["path"] for file in body.get("files", ()))
            events[f"{body['event']} {body.get('call', {}).get('id', '')} {paths}"] += 1
    open_calls = [call.call_id for call in gate.state.list_open_calls()]
    runs = [*runs_folder(gate.workspace).iterdir()]
    gate.close()
    transcript: list[str] = []
    for path in sorted(runs):
        for journal in sorted(path.rglob("run.jsonl"), key=lambda p: len(p.parts)):
            history = RunHistory(read_journal(RunDirectory(journal.parent)))
            if history.started is None:
                continue  # killed before the run had its first line
            items = [item for item in history.conversation if not isinstance(item, TailNote)]
            transcript += [REMARKS.sub("", msgspec.json.encode(item).decode()) for item in items]
            transcript.append(f"{history.ended.state} {history.ended.reason}" if history.ended else "not ended")
    return {"files": files, "events": dict(sorted(events.items())), "transcript": transcript, "open": open_calls}


def in_child(work: Callable[[], None], limit_s: int = 900) -> int:
    """Run `work` in a child process; return its signal, or its exit code as a negative number."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(limit_s)
        try:
            work()
        except BaseException:  # noqa: BLE001  the child must not go on as its parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    with suppress(ChildProcessError):  # what a killed child had started, such as git, ends before the next step
        while True:
            os.waitpid(-1, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)


def compare(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return {key: (found[key], wanted[key]) for key in wanted if found[key] != wanted[key]}


def main(place: Path, first: int, every: int, turns: int, seed: int, kills: int) -> None:
    shim = ctypes.CDLL(None)
    assert shim.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    shim.crash_count.restype = ctypes.c_long
    spare, live = place / "spare", place / "live"
    root, home, total = live / "repo", live / "home", place / "total"
    program = Program(root, home, long_script(turns) if turns else SCRIPT)

    def put_back() -> None:
        shutil.rmtree(live, ignore_errors=True)
        shutil.copytree(spare, live, symlinks=True)

    def run(at: int) -> None:
        shim.arm_crash(ctypes.c_long(at))
        program.run()
        total.write_text(str(shim.crash_count()))

    put_back()
    assert in_child(lambda: run(0)) == 0
    points, wanted = int(total.read_text()), describe(root, home)
    unequal: list[dict[str, Any]] = []
    tried = 0
    if turns:
        put_back()
        dice = random.Random(seed)
        ended = signal.SIGKILL
        while ended != 0:
            at = dice.randrange(1, 2 * points // kills) if tried < kills else 0
            ended = in_child(lambda at=at: run(at))
            if ended not in (0, signal.SIGKILL):
                break
            tried += ended == signal.SIGKILL
        found = describe(root, home)
        if ended != 0 or found != wanted:
            unequal.append({"seed": seed, "ended": ended, "differs": compare(found, wanted)})
    for point in range(first, points + 1, every) if not turns else ():
        put_back()
        ended = in_child(lambda at=point: run(at))
        if ended != signal.SIGKILL:
            continue
        tried += 1
        resumed = in_child(program.run)
        found = describe(root, home)
        if resumed != 0 or found != wanted:
            unequal.append({"point": point, "resumed": resumed, "differs": compare(found, wanted)})
    print(json.dumps({"points": points, "tried": tried, "wanted": wanted, "unequal": unequal}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
