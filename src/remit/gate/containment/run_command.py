"""A contained command: run in a sandbox, with its effects judged like file writes and kept or dropped.

With an overlay the real tree is untouched until the effects are judged. Without an overlay the command writes below its
scope, the workspace is compared afterwards, and violations are undone.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.config import ContainmentRules
from remit.core.facts import Facts
from remit.gate.answer import Attempts
from remit.gate.containment.apply import LayerTransfer
from remit.gate.containment.changed_paths import literal_prefix, nearest_existing
from remit.gate.containment.judge import EffectJudge
from remit.gate.containment.messages import limit_exceeded
from remit.gate.containment.record import ContainedRecording, ContainedResult
from remit.gate.context import WorkspaceContext
from remit.gate.records.call_records import contents_of_changes
from remit.gate.remember import restore_file
from remit.gate.state.tickets import Ticket, has_uncontained_call
from remit.workspace.sandbox import landlock, layers, package_caches
from remit.workspace.sandbox.bubblewrap import Jail, bubblewrap_command
from remit.workspace.sandbox.containment import Containment, kind_for_workspace
from remit.workspace.sandbox.object_checks import check_objects
from remit.workspace.sandbox.run_command import (
    MEBIBYTE,
    CommandEnd,
    Limits,
    describe_end,
    find_size_limit,
    run_in_bubblewrap,
    run_without_bubblewrap,
)
from remit.workspace.sandbox.sockets import find_ssh_sockets
from remit.workspace.sandbox.staged_changes import measure_bytes


def limits_from(rules: ContainmentRules) -> Limits:
    return Limits(rules.time_limit_s or None, rules.size_limit_mib * MEBIBYTE)


def apply_size_limit(ended: CommandEnd, staging: layers.Staging, limits: Limits) -> CommandEnd:
    """Return the end state, corrected if the command passed a limit and ended between two measurements."""
    if ended.must_discard:
        return ended
    stop = find_size_limit(measure_bytes(staging.root.upper), limits)
    return describe_end(stop, ended.code, limits) if stop else ended


class CommandRun:
    """Runner of contained commands in one workspace."""

    def __init__(self, site: WorkspaceContext, how: Containment, ticket: Ticket | None = None) -> None:
        self.site = site
        self.containment = replace(how, way=kind_for_workspace(how, site.workspace))
        self.judge = EffectJudge(site, ticket)
        self.recording = ContainedRecording(self.judge, staged=self.containment.way == "overlay")

    def run_command(self, call: ToolCall, command: Sequence[str], limits: Limits) -> ContainedResult:
        """Run `command` in the call's folder and keep the effects that the call's intent allows.

        Raises NotContained, NoScratch, OSError, and the errors in RECORDING_ERRORS; after an error no effect was kept.
        """
        if self.containment.way == "overlay":
            return self.run_in_overlay(call, command, limits)
        return self.run_without_overlay(call, command, limits, self.judge.gather_facts(call))

    # -- with an overlay ------------------------------------------------------------------------------------

    def run_in_overlay(self, call: ToolCall, command: Sequence[str], limits: Limits) -> ContainedResult:
        """Run the command over the workspace and judge the contents of its layers."""
        around, workspace = self.site.environment, self.site.workspace
        shared = not has_uncontained_call(call, self.site.state)
        with layers.open_staging(workspace, around.home, around.temporary, shared=shared) as staging:
            limits = replace(limits, written=lambda: sum(measure_bytes(layer.upper) for layer in staging.layers))
            package_caches.lend_caches(staging, workspace.root, self.judge.find_intent_id(call))
            ended = apply_size_limit(
                run_in_bubblewrap(lambda status: self.sandbox_words(call, command, staging, status), limits),
                staging,
                limits,
            )
            if not ended.must_discard:
                package_caches.trim_caches(package_caches.keep_caches(staging.folder))
            return self.judge_staged(call, ended, staging)

    def settle_staged(self, call: ToolCall, folder: Path, ended: CommandEnd) -> ContainedResult:
        """Judge the effects that another process staged in `folder`; the caller deletes the folder.

        Raises like `run_command`.
        """
        staging = layers.reopen_staging(folder, self.site.workspace)
        return self.judge_staged(
            call, apply_size_limit(ended, staging, limits_from(self.judge.containment_rules)), staging
        )

    def judge_staged(self, call: ToolCall, ended: CommandEnd, staging: layers.Staging) -> ContainedResult:
        """Judge staged effects; beyond the size limit none is kept."""
        if ended.must_discard:
            return self.recording.record_result(call, ended, {}, [limit_exceeded(ended)], ())
        check_objects(self.site.workspace, staging)
        return LayerTransfer(self.recording).take_over(call, ended, staging)

    def sandbox_words(self, call: ToolCall, command: Sequence[str], staging: layers.Staging, status: int) -> list[str]:
        """Return the sandbox command line; `status` is the descriptor for bubblewrap's status output."""
        around, workspace = self.site.environment, self.site.workspace
        home = () if layers.is_inside(around.home, workspace.root) else (around.home,)
        jail = Jail(
            folder=Path(call.cwd),
            layers=staging.layers,
            writable=staging.writable,
            read_only=(*home, *layers.read_only_paths(workspace, around.settings, layered=True)),
            hidden=self.recording.find_hidden_sockets(),
            emptied=layers.own_state_folders(workspace, around.home),
            shown=find_ssh_sockets(self.judge.containment_rules.ssh_agent),
            network=self.judge.has_network(call),
            above=workspace.is_nested,
        )
        return bubblewrap_command(self.containment.program, jail, command, status)

    # -- without one ----------------------------------------------------------------------------------------

    def run_without_overlay(
        self, call: ToolCall, command: Sequence[str], limits: Limits, before: Facts
    ) -> ContainedResult:
        """Run the command with write access and undo its violations. The call was prepared by `Gate.before`."""
        ended = self.run_in_sandbox(call, command, limits, before)
        tries = Attempts()
        pending = self.recording.remembering.find_pending_call(call, tries)
        done = {c.path: c for c in self.recording.remembering.observe_effects(call, pending) if not c.possible_sessions}
        objections = self.judge.find_objections(call, done)
        self.site.keep_contents(contents_of_changes(done[path] for path in objections))
        for path in objections:
            restore_file(self.site.workspace.root, path, done[path].before)
        kept = {path: c for path, c in done.items() if path not in objections}
        return self.recording.record_result(call, ended, kept, list(objections.values()), tuple(kept))

    def run_in_sandbox(self, call: ToolCall, command: Sequence[str], limits: Limits, before: Facts) -> CommandEnd:
        """Run the command in the strongest sandbox available without overlays."""
        around, workspace, folder = self.site.environment, self.site.workspace, Path(call.cwd)
        limits = replace(limits, size=None)
        writable = self.writable_folders(before)
        if self.containment.way == "bind":
            read_only = (*layers.read_only_paths(workspace, around.settings), *layers.own_ref_paths(workspace))
            shown, network = find_ssh_sockets(self.judge.containment_rules.ssh_agent), self.judge.has_network(call)
            emptied = layers.own_state_folders(workspace, around.home)
            jail = Jail(folder, (), writable, read_only, self.recording.find_hidden_sockets(), emptied, shown, network)
            return run_in_bubblewrap(
                lambda status: bubblewrap_command(self.containment.program, jail, command, status), limits
            )
        if self.containment.way == "landlock":
            script = landlock.__file__
            rest = [*map(str, (*writable, "/dev")), "--", *command]
            return run_without_bubblewrap([sys.executable, "-I", "-S", script, *rest], folder, limits)
        return run_without_bubblewrap(command, folder, limits)

    def writable_folders(self, facts: Facts) -> tuple[Path, ...]:
        """Return the literal folders of the scope's globs, git's, and the temporary folder; the workspace in observe
        and warn.
        """
        root, common = self.site.workspace.root, self.site.workspace.common_dir
        scope = facts.active.owned_scope if facts.active is not None and facts.mode == "enforce" else ("**",)
        named = {root / literal_prefix(glob) for glob in scope if not glob.startswith("!")}
        found = [*named, self.site.environment.temporary, *([common] if common else [])]
        return tuple(dict.fromkeys(nearest_existing(place, root) for place in found))
