"""A repository in which agents have worked for months, made in a few minutes: N files, M tool calls, some commits.

The calls go through the hook's own code in this process, thus records, contents and sessions are real ones. A seed
decides all of them. People save files between the calls, move functions and rename a file now and then.
"""

import json
import os
import random
import subprocess
from pathlib import Path

from remit.gate.governing.settings import govern_workspace, set_mode
from remit.gate.machine import Environment
from remit.gate.open_gates import OpenGates
from remit.servers.hook import EventClass, HookFrame, answer
from remit.workspace.place.workspace import find_git_root, workspace_at

SEED = 20_261_127
LINES = 60  # of a new file
CALLS_PER_SESSION = 100
CALLS_PER_COMMIT = 20
INTENTS = "\n".join(
    [
        'version: "1.0"',
        "active_intents:",
        *(
            f"  - {{id: INT-00{n}, name: Work {n}, status: IN_PROGRESS, owned_scope: ['src/**'], "
            "constraints: [], acceptance_criteria: [ok]}"
            for n in (1, 2, 3)
        ),
    ]
)
KINDS: dict[str, EventClass] = {"PreToolUse": "pre", "PostToolUse": "post"}


class BusyRepository:
    """The repository at `folder/repo`, with its home beside it."""

    def __init__(self, folder: Path, files: int, calls: int) -> None:
        self.root, self.home = folder / "repo", folder / "home"
        self.calls, self.sent = calls, 0
        self.gates = OpenGates()
        self.chance = random.Random(SEED)
        self.texts = {f"src/pkg{n // 40:02}/mod{n:04}.py": self.new_lines(LINES) for n in range(files)}

    def new_lines(self, count: int) -> list[str]:
        word = self.chance.randrange(10**9)
        body = [f"    value_{word}_{n} = compute_{n}(argument_{self.chance.randrange(10**6)})" for n in range(count)]
        for start in range(0, count, 8):
            body[start] = f"def function_{word}_{start}(self):"
            body[start - 1] = ""
        return body

    def git(self, *words: str) -> None:
        subprocess.run(["git", "-C", str(self.root), *words], check=True, capture_output=True)

    def make(self) -> None:
        """Make the repository. The variable HOME of this process is set to its home."""
        self.root.mkdir(parents=True)
        self.home.mkdir()
        os.environ |= {"HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        (self.home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.org\n[gc]\n\tauto = 0\n")
        self.git("init", "-q")
        (self.root / ".orchestration").mkdir()
        (self.root / ".orchestration" / "active_intents.yaml").write_text(INTENTS)
        workspace = workspace_at(self.root, find_git_root(self.root))
        govern_workspace(workspace)
        set_mode(workspace, "enforce")
        # A third of the files is there before the first agent; agents create the rest.
        old = list(self.texts)[::3]
        for path in old:
            self.save(path)
        self.commit()
        unborn = [path for path in self.texts if path not in set(old)]
        self.chance.shuffle(unborn)
        alive = list(old)
        for number in range(self.calls):
            if number % CALLS_PER_SESSION == 0:
                self.session = f"session-{number // CALLS_PER_SESSION}"
                self.call("Bash", command=f"remit intent select INT-00{self.chance.randint(1, 3)}")
            if unborn and self.chance.random() < 2 * len(self.texts) / self.calls:
                path = unborn.pop()
                alive.append(path)
                self.write(path)
            else:
                self.work(alive[int(len(alive) * self.chance.random() ** 2)])
            if number % CALLS_PER_COMMIT == CALLS_PER_COMMIT - 1:
                self.commit()
        self.commit()
        self.git("gc", "-q")  # git does so by itself in between

    def work(self, path: str) -> None:
        """Do one call on a file, or save it as a person does, and then do one."""
        kind, lines = self.chance.random(), self.texts[path]
        if kind < 0.3:
            self.call("Read", file_path=str(self.root / path))
            return
        if kind < 0.4:
            self.edit_lines(lines)
            self.save(path)
        if kind < 0.45 and len(lines) > 20:
            other = self.chance.choice(list(self.texts.values()))
            other[0:0], lines[8:16] = lines[8:16], []
            self.save(path)
        if kind < 0.9:
            at = self.chance.randrange(len(lines) - 3)
            old = "\n".join(lines[at : at + 3])
            lines[at : at + 3] = new = self.new_lines(self.chance.randint(1, 9))
            words = {"old_string": old, "new_string": "\n".join(new)}
            self.call("Edit", path, file_path=str(self.root / path), **words)
        elif kind < 0.96:
            self.edit_lines(lines)
            self.write(path)
        else:
            added = self.new_lines(3)
            command = f"cat >> {path} <<'END'\n" + "\n".join(added) + "\nEND"
            lines += added
            self.call("Bash", path, command=command)

    def edit_lines(self, lines: list[str]) -> None:
        at = self.chance.randrange(len(lines))
        lines[at : at + 2] = self.new_lines(self.chance.randint(2, 6))

    def write(self, path: str) -> None:
        content = "\n".join(self.texts[path]) + "\n"
        self.call("Write", path, file_path=str(self.root / path), content=content)

    def save(self, path: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(self.texts[path]) + "\n")

    def call(self, tool: str, changed: str = "", **arguments: str) -> None:
        self.sent += 1
        number = f"call-{self.sent}"
        self.send("PreToolUse", tool, number, arguments)
        if changed:
            self.save(changed)
        self.send("PostToolUse", tool, number, arguments)

    def send(self, event: str, tool: str, call: str, arguments: dict[str, str]) -> None:
        payload = {"session_id": getattr(self, "session", "s"), "cwd": str(self.root), "hook_event_name": event}
        payload |= {"tool_name": tool, "tool_use_id": call, "tool_input": arguments, "tool_response": {}}
        frame = HookFrame("claude-code", str(self.root), KINDS[event])
        answer(json.dumps(payload).encode(), frame, Environment(self.home, self.home), self.gates)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", "work", "--allow-empty")
