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
from remit.gate.containment.apply import take_over
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.judge import find_objections
from remit.gate.containment.messages import limit_exceeded
from remit.gate.containment.record import ContainedResult, record_result
from remit.gate.context import WorkspaceContext, contents_of_changes
from remit.gate.effects.changes import observe_effects
from remit.gate.state.pending_calls import PendingCall
from remit.gate.state.tickets import Ticket, has_uncontained_call
from remit.gate.undo.governing_files import restore_file
from remit.workspace.sandbox import landlock, layers, package_caches
from remit.workspace.sandbox.bubblewrap import Jail, bubblewrap_command
from remit.workspace.sandbox.containment import Containment, kind_for_workspace
from remit.workspace.sandbox.layer_changes import measure_bytes
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


def limits_from(rules: ContainmentRules) -> Limits:
    return Limits(rules.time_limit_s or None, rules.size_limit_mib * MEBIBYTE)


def run_contained(
    context: WorkspaceContext,
    containment: Containment,
    call: ToolCall,
    words: Sequence[str],
    limits: Limits,
    ticket: Ticket | None = None,
) -> ContainedResult:
    """Run `words` in the call's folder and keep the effects that the call's intent allows.

    Raises NotContained, NoScratch, OSError, and the errors in RECORDING_ERRORS; after an error no effect was kept.
    """
    way = kind_for_workspace(containment, context.workspace)
    command = ContainedCommand(context, call, ticket, is_staged=way == "overlay")
    if command.is_staged:
        return run_in_overlay(command, containment.program, words, limits)
    return run_without_overlay(command, replace(containment, way=way), words, limits)


def run_in_overlay(
    command: ContainedCommand, program_name: str, words: Sequence[str], limits: Limits
) -> ContainedResult:
    """Run the command over the workspace and judge the contents of its layers."""
    environment, workspace = command.context.environment, command.context.workspace
    shared = not has_uncontained_call(command.call, command.context.state)
    with layers.open_staging(workspace, environment.home, environment.temporary, shared=shared) as staging:
        limits = replace(limits, written=lambda: sum(measure_bytes(layer.upper) for layer in staging.layers))
        package_caches.lend_caches(staging, workspace.root, command.intent_id)
        ended = run_in_bubblewrap(
            lambda status: make_sandbox_words(command, program_name, words, staging, status), limits
        )
        ended = apply_size_limit(ended, staging, limits)
        if not ended.must_discard:
            package_caches.trim_caches(package_caches.keep_caches(staging.folder))
        return judge_staged(command, ended, staging)


def settle_staging(command: ContainedCommand, folder: Path, ended: CommandEnd) -> ContainedResult:
    """Judge the effects that another process staged in `folder`; the caller deletes the folder.

    Raises like `run_contained`.
    """
    staging = layers.reopen_staging(folder, command.context.workspace)
    return judge_staged(command, apply_size_limit(ended, staging, limits_from(command.settings)), staging)


def judge_staged(command: ContainedCommand, ended: CommandEnd, staging: layers.Staging) -> ContainedResult:
    """Judge staged effects; beyond the size limit none is kept."""
    if ended.must_discard:
        return record_result(command, ended, {}, [limit_exceeded(ended)], ())
    check_objects(command.context.workspace, staging)
    return take_over(command, ended, staging)


def apply_size_limit(ended: CommandEnd, staging: layers.Staging, limits: Limits) -> CommandEnd:
    """Return the end state, corrected if the command passed a limit and ended between two measurements."""
    if ended.must_discard:
        return ended
    stop = find_size_limit(measure_bytes(staging.root.upper), limits)
    return describe_end(stop, ended.code, limits) if stop else ended


def make_sandbox_words(
    command: ContainedCommand, program_name: str, words: Sequence[str], staging: layers.Staging, status: int
) -> list[str]:
    """Return the sandbox command line; `status` is the descriptor for bubblewrap's status output."""
    environment, workspace = command.context.environment, command.context.workspace
    home = () if layers.is_inside(environment.home, workspace.root) else (environment.home,)
    jail = Jail(
        folder=Path(command.call.cwd),
        layers=staging.layers,
        writable=staging.writable,
        read_only=(*home, *layers.read_only_paths(workspace, environment.settings, layered=True)),
        hidden=command.find_hidden_sockets(),
        emptied=layers.own_state_folders(workspace, environment.home),
        shown=find_ssh_sockets(command.settings.ssh_agent),
        network=command.has_network,
        above=workspace.is_nested,
    )
    return bubblewrap_command(program_name, jail, words, status)


# -- without an overlay -------------------------------------------------------------------------------------


def run_without_overlay(
    command: ContainedCommand, containment: Containment, words: Sequence[str], limits: Limits
) -> ContainedResult:
    """Run the command with write access and undo its violations. The call was prepared by `Gate.before`."""
    context, call = command.context, command.call
    ended = run_in_sandbox(command, containment, words, replace(limits, size=None))
    pending: PendingCall | None = None
    with Attempts().step():
        _, pending = context.state.find_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256)
    effects = observe_effects(context, call, pending, context.recorder.vcs)
    done = {c.path: c for c in effects.changes if not c.possible_sessions}
    objections = find_objections(command, done)
    context.keep_contents(contents_of_changes(done[path] for path in objections))
    for path in objections:
        restore_file(context.workspace.root, path, done[path].before)
    kept = {path: change for path, change in done.items() if path not in objections}
    return record_result(command, ended, kept, list(objections.values()), tuple(kept), effects.observation)


def run_in_sandbox(
    command: ContainedCommand, containment: Containment, words: Sequence[str], limits: Limits
) -> CommandEnd:
    """Run the command in the strongest sandbox available without overlays."""
    environment, workspace, folder = command.context.environment, command.context.workspace, Path(command.call.cwd)
    writable = find_writable_folders(command, command.gather_facts())
    if containment.way == "bind":
        jail = Jail(
            folder=folder,
            layers=(),
            writable=writable,
            read_only=(*layers.read_only_paths(workspace, environment.settings), *layers.own_ref_paths(workspace)),
            hidden=command.find_hidden_sockets(),
            emptied=layers.own_state_folders(workspace, environment.home),
            shown=find_ssh_sockets(command.settings.ssh_agent),
            network=command.has_network,
        )
        return run_in_bubblewrap(lambda status: bubblewrap_command(containment.program, jail, words, status), limits)
    if containment.way == "landlock":
        rules = [*map(str, writable), "/dev", "--"]
        return run_without_bubblewrap([sys.executable, "-I", "-S", landlock.__file__, *rules, *words], folder, limits)
    return run_without_bubblewrap(words, folder, limits)


def find_writable_folders(command: ContainedCommand, facts: Facts) -> tuple[Path, ...]:
    """Return the literal folders of the scope's globs, git's, and the temporary folder.

    In observe and warn the whole workspace is writable.
    """
    root, common = command.context.workspace.root, command.context.workspace.common_dir
    scope = facts.active.owned_scope if facts.active is not None and facts.mode == "enforce" else ("**",)
    named = {root / literal_prefix(glob) for glob in scope if not glob.startswith("!")}
    folders = [*named, command.context.environment.temporary, *([common] if common else [])]
    return tuple(dict.fromkeys(nearest_existing(folder, root) for folder in folders))


def literal_prefix(glob: str) -> str:
    """Return the folders of a glob before its first wildcard."""
    parts = glob.split("/")
    fixed = next((n for n, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    return "/".join(parts[:fixed]) or "."


def nearest_existing(place: Path, root: Path) -> Path:
    """Return the nearest existing file or folder at or above a place."""
    while not place.exists() and place != root:
        place = place.parent
    return place
