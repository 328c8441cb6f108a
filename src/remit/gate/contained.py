"""A command that runs contained: what it changed is judged as file writes are, and then kept or dropped.

With an overlay nothing happens in the real tree before it is judged. Without one the command writes below its scope,
the workspace is compared afterwards, and what may not stay is undone.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.config import ContainmentRules
from remit.core.facts import Facts
from remit.gate.answer import Attempts
from remit.gate.call_records import contents_of
from remit.gate.contained_paths import existing, literal
from remit.gate.contained_recording import Recording, Result
from remit.gate.contained_taking import Taking
from remit.gate.contained_tickets import Ticket
from remit.gate.contained_verdicts import Verdicts
from remit.gate.contained_words import too_much
from remit.gate.remembering import restore
from remit.gate.site import Site
from remit.gate.steady import uncontained
from remit.workspace.sandbox import landlock, places, warm
from remit.workspace.sandbox.choosing import Containment, way_here
from remit.workspace.sandbox.doors import ssh_doors
from remit.workspace.sandbox.jail import Jail, argv
from remit.workspace.sandbox.object_checks import check_objects
from remit.workspace.sandbox.running import MEBIBYTE, Ended, Limits, run, run_bare, stop_by_size, stopped_by
from remit.workspace.sandbox.staged import measure_bytes


def limits_in(rules: ContainmentRules) -> Limits:
    """What every contained command gets."""
    return Limits(rules.time_limit_s or None, rules.size_limit_mib * MEBIBYTE)


def measured(ended: Ended, staging: places.Staging, limits: Limits) -> Ended:
    """Return how it ended, where it may have passed a limit and ended before anybody looked."""
    if ended.too_much:
        return ended
    stop = stop_by_size(measure_bytes(staging.root.upper), limits)
    return stopped_by(stop, ended.code, limits) if stop else ended


class Contained:
    """Runs commands contained, in one workspace."""

    def __init__(self, site: Site, how: Containment, ticket: Ticket | None = None) -> None:
        self.site = site
        self.how = replace(how, way=way_here(how, site.workspace))
        self.verdicts = Verdicts(site, ticket)
        self.recording = Recording(self.verdicts, staged=self.how.way == "overlay")

    def run(self, call: ToolCall, command: Sequence[str], limits: Limits) -> Result:
        """Run `command` in the call's folder, and keep of its effects what the call's intent may change.

        Raises NotContained, NoScratch, OSError, and what CannotRecord names: then nothing was kept.
        """
        if self.how.way == "overlay":
            return self.staged(call, command, limits)
        return self.compared(call, command, limits, self.verdicts.facts(call))

    # -- with an overlay ------------------------------------------------------------------------------------

    def staged(self, call: ToolCall, command: Sequence[str], limits: Limits) -> Result:
        """Run it over the workspace, then look at what its layer took."""
        around, workspace = self.site.environment, self.site.workspace
        shared = not uncontained(call, self.site.state)
        with places.staging(workspace, around.home, around.temporary, shared=shared) as staging:
            limits = replace(limits, written=lambda: sum(measure_bytes(layer.upper) for layer in staging.layers))
            warm.lend(staging, workspace.root, self.verdicts.intent_id(call))
            ended = measured(run(lambda status: self.words(call, command, staging, status), limits), staging, limits)
            if not ended.too_much:
                warm.trim(warm.keep(staging.folder))
            return self.judged(call, ended, staging)

    def settle(self, call: ToolCall, folder: Path, ended: Ended) -> Result:
        """Judge what another process staged in `folder`; whose that is takes it away. Raises what `run` does."""
        staging = places.reopened(folder, self.site.workspace)
        return self.judged(call, measured(ended, staging, limits_in(self.verdicts.rules)), staging)

    def judged(self, call: ToolCall, ended: Ended, staging: places.Staging) -> Result:
        """What comes of what was staged: nothing, where it is more than may be."""
        if ended.too_much:
            return self.recording.settled(call, ended, {}, [too_much(ended)], ())
        check_objects(self.site.workspace, staging)
        return Taking(self.recording).taken(call, ended, staging)

    def words(self, call: ToolCall, command: Sequence[str], staging: places.Staging, status: int) -> list[str]:
        """The words that run it over the workspace; `status` is the descriptor for bubblewrap's news."""
        around, workspace = self.site.environment, self.site.workspace
        home = () if places.inside(around.home, workspace.root) else (around.home,)
        jail = Jail(
            folder=Path(call.cwd),
            layers=staging.layers,
            writable=staging.writable,
            read_only=(*home, *places.steady(workspace, around.settings, layered=True)),
            hidden=self.recording.doors(),
            emptied=places.own_state(workspace, around.home),
            shown=ssh_doors(self.verdicts.rules.ssh_agent),
            network=self.verdicts.networked(call),
            above=workspace.nested,
        )
        return argv(self.how.program, jail, command, status)

    # -- without one ----------------------------------------------------------------------------------------

    def compared(self, call: ToolCall, command: Sequence[str], limits: Limits, before: Facts) -> Result:
        """Run it where it may write; then undo what it changed beyond that. The call was prepared: see `Preparing`."""
        ended = self.ran(call, command, limits, before)
        tries = Attempts()
        pending = self.recording.remembering.came_back(call, tries)
        done = {c.path: c for c in self.recording.remembering.effects_of(call, pending) if not c.shared}
        objections = self.verdicts.objections(call, done)
        self.site.keep(contents_of(done[path] for path in objections))
        for path in objections:
            restore(self.site.workspace.root, path, done[path].before)
        kept = {path: c for path, c in done.items() if path not in objections}
        return self.recording.settled(call, ended, kept, list(objections.values()), tuple(kept))

    def ran(self, call: ToolCall, command: Sequence[str], limits: Limits, before: Facts) -> Ended:
        """Run it in what there is."""
        around, workspace, folder = self.site.environment, self.site.workspace, Path(call.cwd)
        limits = replace(limits, size=None)
        writable = self.writable(before)
        if self.how.way == "bind":
            read_only = (*places.steady(workspace, around.settings), *places.own_refs(workspace))
            shown, network = ssh_doors(self.verdicts.rules.ssh_agent), self.verdicts.networked(call)
            emptied = places.own_state(workspace, around.home)
            jail = Jail(folder, (), writable, read_only, self.recording.doors(), emptied, shown, network)
            return run(lambda status: argv(self.how.program, jail, command, status), limits)
        if self.how.way == "landlock":
            script = landlock.__file__
            rest = [*map(str, (*writable, "/dev")), "--", *command]
            return run_bare([sys.executable, "-I", "-S", script, *rest], folder, limits)
        return run_bare(command, folder, limits)

    def writable(self, facts: Facts) -> tuple[Path, ...]:
        """The folders that the scope's globs begin with, git's, and the temporary one; in observe and warn, all."""
        root, common = self.site.workspace.root, self.site.workspace.common_dir
        scope = facts.active.owned_scope if facts.active is not None and facts.mode == "enforce" else ("**",)
        named = {root / literal(glob) for glob in scope if not glob.startswith("!")}
        found = [*named, self.site.environment.temporary, *([common] if common else [])]
        return tuple(dict.fromkeys(existing(place, root) for place in found))
