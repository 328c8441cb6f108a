"""A program with a journal and a gate, killed at each of its writes and resumed; `test_crash_points.py` starts it.

For each point the whole workspace is put back as it was, a child runs the script and is killed, another child resumes.
The report, a line for each point that did not come out as an undisturbed run, goes to standard output as JSON.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from remit.core.call import Outcome, SessionKey, ToolCall, hash_arguments
from remit.core.diff.edits import Replacement, Replacements, WholeFile
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.gate.perform import ToolOutput, WorkspaceAccess
from remit.ledger.reader import read_lines
from remit.ledger.verify_log import verify_log

SESSION = SessionKey("run-1")
SET_CHILD_SUBREAPER = 36  # of prctl(2)


class Step:
    """A call of the script: its tool, and the files that it leaves."""

    def __init__(self, number: int, tool: str, files: dict[str, str], *, command: str | None = None) -> None:
        self.call_id, self.tool, self.files, self.command = f"call-{number}", tool, files, command

    def call(self, root: Path) -> ToolCall:
        arguments: dict[str, Any] = {"files": self.files, "command": self.command}
        edit = None
        if self.tool == "write_to_file" and len(self.files) == 1:
            edit = WholeFile(*self.files.values())
        if self.tool == "edit":
            edit = Replacements((Replacement("return 1", "return 2"),))
        effect = "read" if self.tool == "read_file" else "execute" if self.command else "write"
        return ToolCall(
            "remit", SESSION, self.tool, effect, str(root), self.call_id, tuple(self.files), self.command,
            arguments_sha256=hash_arguments(arguments), arguments=arguments, edit=edit,
            whole_workspace=self.command is not None,
        )  # fmt: skip


STEPS = (
    Step(1, "write_to_file", {"src/new.py": "x = 1\n"}),
    Step(2, "edit", {"src/app.py": "def main():\n    return 2\n"}),
    Step(3, "read_file", {"src/app.py": ""}),
    Step(4, "write_to_file", {"docs/no.md": "not in the scope\n"}),
    Step(5, "apply_patch", {"src/two.py": "a = 1\n", "src/three.py": "b = 1\n"}),
    Step(6, "write_to_file", {"src/new.py": "x = 2\n"}),
    Step(7, "execute_command", {}, command="sh src/make.sh"),
    Step(8, "execute_command", {}, command="cat src/log.txt"),
)


class Program:
    """What a host does: a line of its journal before and after each step, and a question to the gate after a crash."""

    def __init__(self, root: Path, home: Path, journal: Path) -> None:
        self.root = root
        self.journal = journal
        self.gate = Gate.open(root, Environment(home, home / "tmp"))
        self.performed: dict[str, dict[str, Any]] = {}
        self.results: dict[str, Any] = {}
        for line in journal.read_bytes().split(b"\n")[:-1] if journal.exists() else ():
            entry = json.loads(line)
            (self.performed if entry["t"] == "performed" else self.results)[entry["id"]] = entry

    def note(self, **entry: Any) -> None:
        descriptor = os.open(self.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, json.dumps(entry).encode() + b"\n")
        os.close(descriptor)

    def run(self) -> None:
        for step in STEPS:
            if step.call_id not in self.results:
                self.note(t="result", id=step.call_id, **self.settle(step))

    def settle(self, step: Step) -> dict[str, Any]:
        call = step.call(self.root)
        fate = self.gate.fate(SESSION, step.call_id)
        if fate.state == "returned":
            return {"ok": fate.ok}
        kept = self.performed.get(step.call_id)
        output = ToolOutput(ok=kept["ok"], text="", exit_code=kept["exit_code"]) if kept else None
        if output is None and fate.state == "open" and not step.command and self.has_happened(step):
            output = ToolOutput(ok=True, text="")
        done = self.gate.perform(call, lambda access: self.act(step, access), performed=output)
        return {"ok": done.output is not None and done.output.ok}

    def has_happened(self, step: Step) -> bool:
        return step.tool != "read_file" and all(
            (self.root / path).is_file() and (self.root / path).read_text() == content
            for path, content in step.files.items()
        )

    def act(self, step: Step, access: WorkspaceAccess) -> ToolOutput:
        output = ToolOutput(ok=True, text="")
        if step.command:
            with self.journal.with_name("out").open("ab") as file:
                ended = access.run_command(file.fileno())
            output = ToolOutput(ended.code == 0, "", exit_code=ended.code)
        elif step.tool != "read_file":
            for path, content in step.files.items():
                access.write_file(path, content.encode())
        self.note(t="performed", id=step.call_id, ok=output.ok, exit_code=output.exit_code)
        return output


class HookedProgram(Program):
    """An agent with hooks: a hook that died is answered again, by a fresh process; the agent itself lives."""

    def run(self) -> None:
        for step in STEPS:
            if step.tool == "execute_command" or step.call_id == "call-4":
                continue
            call = replace(step.call(self.root), agent="claude-code")
            if step.call_id not in self.performed:
                assert self.gate.before(call).decision.effect == "allow"
                self.note(t="performed", id=step.call_id, ok=True, exit_code=None)
            if step.call_id not in self.results and step.tool != "read_file":
                for path, content in step.files.items():
                    (self.root / path).write_text(content)
            if step.call_id not in self.results:
                assert "without a verdict" not in self.gate.after(call, Outcome()).context
                self.note(t="result", id=step.call_id, ok=True)


def describe(root: Path, home: Path, journal: Path) -> dict[str, Any]:
    """Return what is to be equal: files and modes, results, and how often each call is in the ledger."""
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
        if body["event"] not in ("recovery", "snapshot", "session_start"):
            paths = ",".join(file["path"] for file in body.get("files", ()))
            events[f"{body['event']} {body.get('call', {}).get('id', '')} {paths}"] += 1
    findings = [str(one) for one in verify_log(gate.workspace.log_folder) if one.code != "head_behind"]
    open_calls = [call.call_id for call in gate.state.list_open_calls()]
    gate.close()
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    results = [(entry["id"], entry["ok"]) for entry in entries if entry["t"] == "result"]
    return {
        "files": files,
        "events": dict(sorted(events.items())),
        "results": results,
        "open": open_calls,
        "findings": findings,
    }


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a child process; return its signal, or its exit code as a negative number."""
    pid = os.fork()
    if pid == 0:
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


def main(place: Path, first: int, every: int, kind: type[Program]) -> None:
    shim = ctypes.CDLL(None)
    assert shim.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    shim.crash_count.restype = ctypes.c_long
    spare, live = place / "spare", place / "live"
    root, home, journal, total = live / "repo", live / "home", live / "journal", place / "total"

    def put_back() -> None:
        shutil.rmtree(live, ignore_errors=True)
        shutil.copytree(spare, live, symlinks=True)

    def run(at: int) -> None:
        program = kind(root, home, journal)
        shim.arm_crash(ctypes.c_long(at))
        program.run()
        total.write_text(str(shim.crash_count()))

    put_back()
    assert in_child(lambda: run(0)) == 0
    points, wanted = int(total.read_text()), describe(root, home, journal)
    unequal: list[dict[str, Any]] = []
    tried = 0
    for point in range(first, points + 1, every):
        put_back()
        ended = in_child(lambda at=point: run(at))
        if ended != signal.SIGKILL:
            continue
        tried += 1
        resumed = in_child(lambda: kind(root, home, journal).run())
        found = describe(root, home, journal)
        if resumed != 0 or found != wanted:
            parts = {key: (found[key], wanted[key]) for key in wanted if found[key] != wanted[key]}
            unequal.append({"point": point, "resumed": resumed, "differs": parts})
    print(json.dumps({"points": points, "tried": tried, "wanted": wanted, "unequal": unequal}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), HookedProgram if "hooks" in sys.argv else Program)
