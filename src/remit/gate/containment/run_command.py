"""A contained command: run in a sandbox, with its effects judged like file writes and kept or dropped.

With an overlay the real tree is untouched until the effects are judged. Without an overlay the command writes below its
scope, the workspace is compared afterwards, and violations are undone.
"""

import re
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.config import ContainmentRules
from remit.gate.containment.bound_data import DATA_FILE, bind_data, bind_unstaged, settle_bound, settle_unstaged_data
from remit.gate.containment.contained_command import ContainedCommand, find_write_objections
from remit.gate.containment.messages import make_finding
from remit.gate.containment.take_over import BROUGHT_FILE, ContainedResult, record_result, take_over
from remit.gate.context import Attempts, WorkspaceContext, contents_of_changes
from remit.gate.effects.changes import find_stray_changes, observe_effects
from remit.gate.state.staged_entries import note_persons_staging
from remit.gate.state.tickets import Ticket, has_uncontained_call
from remit.gate.state.workspace_state import PendingCall
from remit.gate.undo.git_state import GitStateCheck
from remit.gate.undo.governing_files import restore_file
from remit.workspace.sandbox import landlock
from remit.workspace.sandbox.containment import (
    MEBIBYTE,
    CommandEnd,
    Containment,
    Limits,
    describe_end,
    find_size_limit,
    kind_for_workspace,
    run_in_bubblewrap,
    run_without_bubblewrap,
)
from remit.workspace.sandbox.git_folder_checks import check_objects
from remit.workspace.sandbox.jail import Jail, bubblewrap_command, find_ssh_sockets
from remit.workspace.sandbox.secret_places import make_empty_file
from remit.workspace.sandbox.staging import (
    END_FILE,
    Staging,
    create_staging,
    find_leftovers,
    find_scratch_folder,
    find_shared_folders,
    is_inside,
    keep_caches,
    lend_caches,
    measure_bytes,
    open_staging,
    own_ref_paths,
    own_state_folders,
    read_only_paths,
    remove_leftovers,
    remove_tree,
    reopen_staging,
    save_as_spare,
    trim_caches,
)

FIRST_WILDCARD = re.compile(r"(?:^|/)[^/]*[*?\[].*", re.DOTALL)
"""The part of a glob from its first component with a wildcard on."""


def limits_from(rules: ContainmentRules) -> Limits:
    return Limits(rules.time_limit_s or None, rules.size_limit_mib * MEBIBYTE)


def run_contained(
    context: WorkspaceContext,
    containment: Containment,
    call: ToolCall,
    words: Sequence[str],
    limits: Limits,
    ticket: Ticket | None = None,
    shown: tuple[Path, ...] = (),
) -> ContainedResult:
    """Run `words` in the call's folder and keep the effects that the call's intent allows. `shown` are secret places
    that a person lets this command see.

    Raises NotContained, NoScratch, OSError, and the errors in RECORDING_ERRORS; after an error no effect was kept.
    """
    way = kind_for_workspace(containment, context.workspace)
    command = ContainedCommand(context, call, ticket, is_staged=way == "overlay", shown=shown)
    if command.is_staged:
        return run_in_overlay(command, containment.program, words, limits)
    return run_without_overlay(command, replace(containment, way=way), words, limits)


def run_in_overlay(
    command: ContainedCommand, program_name: str, words: Sequence[str], limits: Limits
) -> ContainedResult:
    environment, workspace = command.context.environment, command.context.workspace
    shared = not has_uncontained_call(command.call, command.context.state)
    note_persons_staging(workspace, command.context.state, command.call)
    with open_staging(workspace, environment.home, environment.temporary, shared=shared) as staging:
        limits = replace(limits, written=lambda: sum(measure_bytes(layer.upper) for layer in staging.layers))
        lend_caches(staging, workspace.root, command.intent_id)
        ended = run_in_bubblewrap(
            lambda status: make_sandbox_words(command, program_name, words, staging, status), limits
        )
        return judge_staged(command, ended, staging, limits)


def stage_command(context: WorkspaceContext, call: ToolCall, temporary: Path, owner: int) -> Staging:
    """Return a new staging area for a command whose process is `owner`. Raises NoScratchFolder, OSError, StateError."""
    workspace, home = context.workspace, context.environment.home
    place = find_scratch_folder(workspace, home, temporary)
    if find_leftovers(place):
        threading.Thread(target=remove_leftovers, args=(place,), daemon=True).start()
    shared = not has_uncontained_call(call, context.state)
    note_persons_staging(workspace, context.state, call)
    return create_staging(place, workspace, home, temporary, owner, shared=shared)


def release_staging(folder: Path, *, discarded: bool) -> None:
    """Keep a settled area for the next command, or remove it."""
    for name in (END_FILE, BROUGHT_FILE, DATA_FILE):
        (folder / name).unlink(missing_ok=True)
    kept = None if discarded else keep_caches(folder)
    if not save_as_spare(folder) or kept is not None:
        threading.Thread(target=clear_staging, args=(folder, kept), daemon=True).start()


def clear_staging(folder: Path, kept: Path | None) -> None:
    remove_tree(folder)
    trim_caches(kept)


def settle_staging(command: ContainedCommand, folder: Path, ended: CommandEnd) -> ContainedResult:
    """Judge the effects that another process staged in `folder`; the caller deletes the folder.

    Raises like `run_contained`.
    """
    staging = reopen_staging(folder, command.context.workspace)
    return judge_staged(command, ended, staging, limits_from(command.settings))


def judge_staged(command: ContainedCommand, ended: CommandEnd, staging: Staging, limits: Limits) -> ContainedResult:
    data = settle_bound(command, staging.folder, staging.root.upper)
    if not ended.must_discard:
        # The command may have passed a limit and ended between two measurements.
        stop = find_size_limit(measure_bytes(staging.root.upper), limits)
        ended = describe_end(stop, ended.code, limits) if stop else ended
    if ended.must_discard:
        dropped = make_finding("COMMAND_BLOCKED", ".", f"nothing was kept: {ended.stop_text}.")
        return record_result(command, ended, {}, [dropped], (), data=data)
    trim_caches(keep_caches(staging.folder))
    check_objects(command.context.workspace, staging)
    return take_over(command, ended, staging, data)


def make_sandbox_words(
    command: ContainedCommand, program_name: str, words: Sequence[str], staging: Staging, status: int
) -> list[str]:
    """Return the sandbox command line; `status` is the descriptor for bubblewrap's status output."""
    return bubblewrap_command(program_name, make_staged_jail(command, staging), words, status)


def make_staged_jail(command: ContainedCommand, staging: Staging) -> Jail:
    environment, workspace = command.context.environment, command.context.workspace
    home = () if is_inside(environment.home, workspace.root) else (environment.home,)
    read_only = (*home, *staging.held, *read_only_paths(workspace, environment.settings, layered=True))
    jail = make_jail(command, (*staging.writable, *bind_data(command, staging.folder)), read_only)
    return replace(jail, layers=staging.layers, entries=staging.entries, above=workspace.is_nested)


def make_jail(command: ContainedCommand, writable: tuple[Path, ...], read_only: tuple[Path, ...]) -> Jail:
    context, home = command.context, command.context.environment.home
    secrets = command.find_secrets()
    return Jail(
        folder=Path(command.call.cwd),
        writable=writable,
        read_only=read_only,
        hidden=(*command.find_hidden_sockets(), *secrets.files),
        emptied=(*secrets.folders, *own_state_folders(context.workspace, home)),
        shown=(*find_ssh_sockets(command.settings.ssh_agent), *secrets.visible),
        empty=make_empty_file(home),
        network=command.has_network,
    )


# -- without an overlay -------------------------------------------------------------------------------------


def run_without_overlay(
    command: ContainedCommand, containment: Containment, words: Sequence[str], limits: Limits
) -> ContainedResult:
    return settle_unstaged(command, plan_sandbox(command, containment).run(words, replace(limits, size=None)))


def settle_unstaged(command: ContainedCommand, ended: CommandEnd) -> ContainedResult:
    """Compare the workspace after a command without an overlay, undo its violations, and record the rest."""
    context, call = command.context, command.call
    pending: PendingCall | None = None
    with Attempts():
        _, pending = context.state.find_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256)
    data = settle_unstaged_data(command)
    effects = observe_effects(context, call, pending, context.recorder.vcs)
    done = {c.path: c for c in effects.changes if not c.possible_sessions}
    objections = find_write_objections(command, done)
    context.keep_contents(contents_of_changes(done[path] for path in objections))
    for path in objections:
        restore_file(context.workspace.root, path, done[path].before)
    kept = {path: change for path, change in done.items() if path not in objections}
    findings = list(objections.values())
    if pending is not None:
        stray = (
            find_stray_changes(context.workspace, context.state, call, pending, effects.observation.files)
            if effects.observation
            else ()
        )
        git_state = GitStateCheck(context, call, pending)
        if why := git_state.restore([change.path for change in stray]):
            findings.append(make_finding("PROTECTED_PATH", ".git", why))
    return record_result(command, ended, kept, findings, tuple(kept), effects.observation, data=data)


class CommandSandbox(Struct, frozen=True):
    """A sandbox for a command: the jail with bubblewrap, otherwise the writable folders."""

    containment: Containment
    folder: Path
    writable: tuple[Path, ...]
    jail: Jail | None = None

    def run(self, words: Sequence[str], limits: Limits) -> CommandEnd:
        jail, program = self.jail, self.containment.program
        if jail is not None:
            return run_in_bubblewrap(lambda status: bubblewrap_command(program, jail, words, status), limits)
        if self.containment.way == "landlock":
            rules = [*map(str, self.writable), "/dev", "--"]
            words = [sys.executable, "-I", "-S", landlock.__file__, *rules, *words]
        return run_without_bubblewrap(words, self.folder, limits)


def plan_sandbox(command: ContainedCommand, containment: Containment) -> CommandSandbox:
    workspace, facts, folder = command.context.workspace, command.gather_facts(), Path(command.call.cwd)

    # Writable are the literal folders of the scope's globs, git's, and the temporary folder; in observe and warn the
    # whole workspace.
    root, common = workspace.root, workspace.common_dir
    scope = facts.active.owned_scope if facts.active is not None and facts.mode == "enforce" else ("**",)
    named = literal_folders(root, scope)
    for patterns in facts.narrowings if facts.mode == "enforce" or facts.has_floor else ():
        narrow = literal_folders(root, patterns)
        # Of two folders, one inside the other, the inner one.
        pairs = [sorted((one, other), key=lambda path: len(path.parts)) for one in named for other in narrow]
        named = {inner for outer, inner in pairs if inner.is_relative_to(outer)}
    environment = command.context.environment
    shared = find_shared_folders(environment.temporary, workspace, environment.home)
    if containment.way != "bind":  # Landlock excepts nothing below a folder
        shared = tuple(one for one in shared if not one.held)
    temporary = (environment.temporary, *(Path(one.path) for one in shared))
    folders = (*named, *bind_unstaged(command), *temporary, *([common] if common else []))
    writable = tuple(dict.fromkeys(nearest_existing(folder, root) for folder in folders))

    sandbox = CommandSandbox(containment, folder, writable)
    if containment.way != "bind":
        return sandbox
    held = (Path(path) for one in shared for path in sorted(one.held))
    read_only = (
        *(path for path in held if path not in writable),
        *read_only_paths(workspace, environment.settings),
        *own_ref_paths(workspace),
    )
    return replace(sandbox, jail=make_jail(command, writable, read_only))


def literal_folders(root: Path, patterns: Iterable[str]) -> set[Path]:
    return {root / FIRST_WILDCARD.sub("", glob) for glob in patterns if not glob.startswith("!")}


def nearest_existing(place: Path, root: Path) -> Path:
    while not place.exists() and place != root:
        place = place.parent
    return place
