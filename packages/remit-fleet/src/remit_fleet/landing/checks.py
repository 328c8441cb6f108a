"""Checks of a candidate for the target: trusted commands, each contained, in a worktree of its own."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from remit.gate.hooks.tool_call_hooks import command_environment
from remit.gate.hooks.verify_commands import OUTPUT_TAIL_BYTES, output_tail
from remit.gate.machine import Environment
from remit.workspace.place.workspace import Workspace
from remit.workspace.processes.limited_command import run_trusted_command
from remit.workspace.sandbox.containment import find_containment
from remit.workspace.sandbox.jail import Jail, bubblewrap_command, find_sockets
from remit.workspace.sandbox.scratch_run import STATUS_DESCRIPTOR, WITHOUT_STATUS
from remit.workspace.sandbox.secret_places import SecretSearch, make_empty_file
from remit.workspace.sandbox.staging import own_state_folders

CHECK_TIMEOUT_S = 1800.0


class CheckResult(Struct, frozen=True):
    """Result of one command. `output` is the redacted end of the output; `is_late` marks a command ended by its time
    limit.
    """

    command: str
    is_green: bool
    output: str = ""
    ms: int = 0
    is_late: bool = False


RunCheck: TypeAlias = Callable[[Workspace, str], CheckResult]


class ContainedChecks:
    """Runner of checks. A command may write only its worktree and its own temporary folder.

    Without a sandbox, the command runs like a trusted criterion: limited in time, with the variables needed by
    programs.
    """

    def __init__(
        self, environment: Environment, temporary: Path, *, network: bool = True, timeout_s: float = CHECK_TIMEOUT_S
    ) -> None:
        self.environment = environment
        self.temporary = temporary
        self.network = network
        self.timeout_s = timeout_s

    def run(self, tree: Workspace, command: str) -> CheckResult:
        """Run a command in the worktree. Raises OSError."""
        began = time.monotonic()
        self.temporary.mkdir(parents=True, exist_ok=True, mode=0o700)
        variables = {**command_environment(self.environment), "TMPDIR": str(self.temporary)}
        ran = run_trusted_command(
            self.build_words(tree, command),
            folder=tree.root,
            variables=variables,
            timeout_s=self.timeout_s,
            tail_bytes=OUTPUT_TAIL_BYTES,
            with_stderr=True,
        )
        output = "\n".join(filter(None, (ran.failure, output_tail(ran))))
        ms = round((time.monotonic() - began) * 1000)
        return CheckResult(command, ran.exit_code == 0, output, ms, is_late=ran.exit_code is None and ms > 0)

    def build_words(self, tree: Workspace, command: str) -> list[str]:
        home = self.environment.home
        containment = find_containment(home, self.environment.temporary)
        words = ["/bin/sh", "-c", command]
        if containment.way not in ("overlay", "bind"):
            return words
        secrets = SecretSearch(home, self.environment.settings_variables, kept=(tree.root, self.temporary)).find()
        jail = Jail(
            folder=tree.root,
            writable=(tree.root, self.temporary),
            read_only=(tree.root / ".git",),
            hidden=(*find_sockets(home, ()), *secrets.files),
            emptied=(*secrets.folders, *own_state_folders(tree, home)),
            shown=secrets.visible,
            empty=make_empty_file(home),
            network=self.network,
        )
        return [
            "sh",
            "-c",
            WITHOUT_STATUS,
            "sh",
            *bubblewrap_command(containment.program, jail, words, STATUS_DESCRIPTOR),
        ]
