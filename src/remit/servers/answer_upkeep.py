"""Upkeep of the answers kept by blame: in quiet times a process of the lowest priority blames the changed files.

That process and the calls of agents share no interpreter. The daemon only looks whether HEAD or the log moved.
"""

import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

from remit.gate.gate import Gate
from remit.gate.open_gates import OpenGates, write_log_line
from remit.ledger.log_files import list_segment_sizes
from remit.workspace.git.command import file_state
from remit.workspace.git.repository import read_head_reference
from remit.workspace.place.workspace import Workspace

PAUSE_S = 1.0  # required pause after a call
REST_FACTOR = 4  # the process runs at most one part in so many of the time
MAX_RUN_S = 600.0
START = "{}"  # position of a worktree that was never blamed, in JSON
FILLER = "import sys; from remit.provenance.stats.answer_fill import main; main(*sys.argv[1:])"

WorktreeState: TypeAlias = tuple[object, ...]


class AnswerUpkeep:
    """Schedule of the filling process: a single process at a time. `positions` are the process's own words, by
    worktree.
    """

    def __init__(self, gates: OpenGates) -> None:
        self.gates = gates
        self.worktrees: dict[Path, Workspace] = {}
        self.filled: dict[Path, WorktreeState] = {}
        self.positions: dict[Path, str] = {}
        self.process: subprocess.Popen[bytes] | None = None
        self.filling = Path()
        self.started_at = self.not_before = 0.0
        self.looked_at = float("-inf")

    def run_if_due(self, last_call: float, now: float) -> None:
        """Start the process for a worktree that changed, if the pause is over. Calls come often: it returns at once."""
        if self.process is not None:
            self.finish_if_ended(now)
        elif now >= self.not_before and now - last_call >= PAUSE_S:
            if last_call > self.looked_at:
                self.looked_at = last_call
                self.worktrees.clear()
                self.gates.for_each_gate(self.note_worktree)
            for root, workspace in self.worktrees.items():
                state = read_state(workspace)
                if state is not None and state != self.filled.get(root):
                    self.start(root, state, now)
                    return

    def note_worktree(self, gate: Gate) -> None:
        if gate.workspace.common_dir is not None:
            self.worktrees[gate.workspace.root] = gate.workspace

    def start(self, root: Path, state: WorktreeState, now: float) -> None:
        self.filling, self.filled[root], self.started_at = root, state, now
        words = [sys.executable, "-I", "-c", FILLER, str(root), self.positions.get(root, START)]
        try:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
            )
        except OSError as error:
            self.not_before = now + MAX_RUN_S
            write_log_line(f"blame was not prepared: {error}")

    def finish_if_ended(self, now: float) -> None:
        process = self.process
        if process is None:
            return
        if process.poll() is None:
            if now - self.started_at > MAX_RUN_S:
                process.kill()
            return
        with process:
            said = process.stdout.read() if process.stdout else b""
        self.process = None
        self.not_before = now + REST_FACTOR * (now - self.started_at)
        if process.returncode == 0 and said.strip():
            self.positions[self.filling] = said.decode().strip()
        else:
            write_log_line(f"blame of {self.filling} was left for later: exit code {process.returncode}")

    def close(self) -> None:
        if self.process is not None:
            with self.process:
                self.process.kill()


def read_state(workspace: Workspace) -> WorktreeState | None:
    """Return a key that changes with each commit, checkout and record; None if unreadable. Starts no process."""
    common, name = workspace.common_dir, read_head_reference(workspace)
    if common is None or name is None:
        return None
    try:
        sizes = list_segment_sizes(workspace.log_folder)
    except OSError:  # a segment became an archive just now
        return None
    return (name, file_state(common / name), file_state(common / "packed-refs"), *sizes)
