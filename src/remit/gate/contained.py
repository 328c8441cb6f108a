"""A command that runs contained: what it changed is judged as file writes are, and then kept or dropped.

With an overlay nothing happens in the real tree before it is judged. Without one the command writes below its scope,
the workspace is compared afterwards, and what may not stay is undone.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.decision import Decision, Finding
from remit.core.facts import Facts, Target
from remit.core.repopath import InvalidPath
from remit.gate import effects
from remit.gate.answer import Attempts
from remit.gate.contained_words import in_words, meanwhile, objection, too_much, unwritten
from remit.gate.gather import with_holders, with_ignored
from remit.gate.judging import Judging
from remit.gate.remembering import Remembering, contents_of, restore
from remit.gate.site import Site
from remit.gate.state import PendingCall
from remit.policy.engine import decide
from remit.workspace.observe import Change, glance
from remit.workspace.paths import Surroundings, folds_case, target
from remit.workspace.sandbox import landlock, places
from remit.workspace.sandbox.choosing import Containment
from remit.workspace.sandbox.committing import Committing, put_aside
from remit.workspace.sandbox.git_changes import GitChanges
from remit.workspace.sandbox.jail import Jail, argv, doors
from remit.workspace.sandbox.running import Ended, Limits, run, run_bare
from remit.workspace.sandbox.staged import Touched, changed_since, touched, written

ASIDE = "aside"
"""In Remit's own folder: what a command made of files that somebody else changed meanwhile."""

GIT = ".git"


class Result(Struct, frozen=True):
    """What came of a contained command. `dropped` gives each path's reason; `said` is all of it for a model."""

    code: int
    kept: tuple[str, ...] = ()
    dropped: dict[str, str] = {}
    said: str = ""


class Contained:
    """Runs commands contained, in one workspace."""

    def __init__(self, site: Site, how: Containment) -> None:
        self.site = site
        self.how = how
        self.judging = Judging(site)
        self.remembering = Remembering(site)

    def run(self, call: ToolCall, command: Sequence[str], limits: Limits) -> Result:
        """Run `command` in the call's folder, and keep of its effects what the call's intent may change.

        Raises NotContained, NoScratch, OSError, and what CannotRecord names: then nothing was kept.
        """
        before = self.facts(call)
        if self.how.way == "overlay" and places.mounts_in(self.site.workspace.root):
            self.how = replace(self.how, way="bind")
        if self.how.way == "overlay":
            return self.staged(call, command, limits, before)
        return self.compared(call, command, limits, before)

    def facts(self, call: ToolCall) -> Facts:
        """What the effects are judged by: as for a tool that writes files, of which none is named yet."""
        rules = self.site.governing
        found = self.judging.gathered(as_writes(call), rules)
        return replace(found.facts, grants=self.site.approvals.grants())

    # -- with an overlay ------------------------------------------------------------------------------------

    def staged(self, call: ToolCall, command: Sequence[str], limits: Limits, before: Facts) -> Result:
        """Run it over the workspace, then look at what its layer took."""
        around, workspace = self.site.environment, self.site.workspace
        with places.staging(workspace, around.home, around.temporary) as staging:
            jail = Jail(
                folder=Path(call.cwd),
                layers=staging.layers,
                read_only=places.steady(workspace, around.settings),
                hidden=doors(),
                network=networked(before),
            )
            limits = replace(limits, written=lambda: sum(written(layer.upper) for layer in staging.layers))
            ended = run(lambda status: argv(self.how.program, jail, command, status), limits)
            if ended.stopped.startswith("it wrote"):
                return self.settled(call, ended, {}, [too_much(ended)], ())
            return self.taken(call, ended, staging)

    def taken(self, call: ToolCall, ended: Ended, staging: places.Staging) -> Result:
        """Judge what the layers took; bring over what may stay, and record it."""
        root, common = self.site.workspace.root, self.site.workspace.common_dir
        all_of_it = touched(staging.root.upper, root)
        own = [c for c in all_of_it if not is_git(c.path, root, common)]
        upper, objections = staging.root.upper, dict[str, Finding]()
        objections |= self.objections(call, own)
        for change in own:
            if change.path not in objections and changed_since(upper, root, change, staging.began_ns):
                objections[change.path] = meanwhile(change.path)
        kept = [c for c in own if c.path not in objections]
        done, failed = self.brought(upper, kept)
        aside = [path for path, f in objections.items() if f.code == "STALE_FILE"]
        put_aside(upper, [*aside, *failed], self.aside(call))
        unsaid = silent(own)
        findings = [f for path, f in objections.items() if path not in unsaid]
        findings += [unwritten(path, why) for path, why in failed.items()]
        findings += self.of_git(staging, all_of_it, whole=not findings)
        names = tuple(c.path for c in kept if c.path not in failed and c.path not in unsaid and c.kind != "folder")
        return self.settled(call, ended, done, findings, names)

    def brought(self, upper: Path, kept: Sequence[Touched]) -> tuple[dict[str, Change], dict[str, str]]:
        """Bring these over; the changes as they were made, by path, and what could not be."""
        root = self.site.workspace.root
        files = [c.path for c in kept if c.kind != "folder"]
        before = {path: glance(root / path) for path in files}
        self.site.keep(effects.keepable(before.items()))
        failed = Committing(upper, root).kept(kept)
        made = (Change(path, before[path], glance(root / path)) for path in files if path not in failed)
        return {c.path: c for c in made if c.before is not None or c.after is not None}, failed

    def of_git(self, staging: places.Staging, changes: Sequence[Touched], *, whole: bool) -> list[Finding]:
        """Bring over what was done to git's folder, if all else stays; why not, where it may not."""
        common, root = self.site.workspace.common_dir, self.site.workspace.root
        if common is None:
            return []
        if staging.common is not None:
            upper, own = staging.common.upper, touched(staging.common.upper, common)
        else:
            name = str(common.relative_to(root))
            upper = staging.root.upper / name
            own = [replace(c, path=c.path[len(name) + 1 :]) for c in changes if c.path.startswith(f"{name}/")]
        found = GitChanges(upper, common, own)
        if not found.changes:
            return []
        why = found.objection() if whole else "it belongs with changes that were dropped"
        if why is None and any(changed_since(upper, common, c, staging.began_ns) for c in found.changes):
            why = "somebody else used git meanwhile"
        if why is not None:
            return [objection("PROTECTED_PATH", GIT, f"what it did to git's own folder was dropped: {why}")]
        failed = Committing(upper, common).kept_in_order(found.in_order())
        return [unwritten(f"{GIT}/{path}", why) for path, why in failed.items()]

    # -- without one ----------------------------------------------------------------------------------------

    def compared(self, call: ToolCall, command: Sequence[str], limits: Limits, before: Facts) -> Result:
        """Run it where it may write; then undo what it changed beyond that. The call was prepared: see `Judging`."""
        ended = self.ran(call, command, limits, before)
        tries = Attempts()
        pending = self.remembering.came_back(call, tries)
        done = {c.path: c for c in self.remembering.effects_of(call, pending) if not c.shared}
        changes = [Touched(path, "gone" if c.after is None else "file") for path, c in done.items()]
        objections = self.objections(call, changes)
        self.site.keep(contents_of(done[path] for path in objections))
        for path in objections:
            restore(self.site.workspace.root / path, done[path].before)
        kept = {path: c for path, c in done.items() if path not in objections}
        return self.settled(call, ended, kept, list(objections.values()), tuple(kept))

    def ran(self, call: ToolCall, command: Sequence[str], limits: Limits, before: Facts) -> Ended:
        """Run it in what there is."""
        around, workspace, folder = self.site.environment, self.site.workspace, Path(call.cwd)
        limits = replace(limits, size=None)
        writable = self.writable(before)
        if self.how.way == "bind":
            read_only = places.steady(workspace, around.settings)
            jail = Jail(folder, (), writable, read_only, doors(), networked(before))
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

    # -- both -----------------------------------------------------------------------------------------------

    def objections(self, call: ToolCall, changes: Iterable[Touched]) -> dict[str, Finding]:
        """By path, why a change may not stay: what every check says of a write to that file."""
        changes = list(changes)
        facts, folds = self.facts(call), folds_case(self.site.workspace.root)
        around, found = self.site.environment, dict[str, Finding]()
        surroundings = Surroundings(around.home, around.temporary, around.settings, around.own_folders)
        targets: list[Target] = []
        for change in changes:
            real = str(self.site.workspace.root / change.path)
            try:
                targets.append(replace(target(self.site.workspace, real, change.path, surroundings), folds=folds))
            except InvalidPath as error:
                found[change.path] = objection("INVALID_ARGUMENTS", change.path, str(error))
        rules = self.site.governing
        since = around.clock() - rules.config.session.lease_s
        targets = list(
            with_holders(with_ignored(tuple(targets), self.site.workspace, rules), call, self.site.state, since)
        )
        for one in targets:
            decision = decide(as_writes(call), replace(facts, targets=(one,)))
            if decision.effect != "allow" and decision.leading is not None:
                found[one.raw] = decision.leading
        return found

    def aside(self, call: ToolCall) -> Path:
        """Where this call's version of files is kept that somebody else changed."""
        return self.site.workspace.state / ASIDE / (call.call_id or "call")

    def settled(
        self,
        call: ToolCall,
        ended: Ended,
        done: Mapping[str, Change],
        findings: Sequence[Finding],
        kept: tuple[str, ...],
    ) -> Result:
        """Record what stayed and what was dropped, and put it into words."""
        tries = Attempts()
        pending = self.remembering.came_back(call, tries) or self.unprepared(call)
        pending = replace(pending, judged=tuple(done), whole=False)
        outcome = Outcome(ok=ended.code == 0, exit_code=ended.code, summary=ended.stopped)
        changes = tuple(c for c in done.values() if c.before is None or c.after is None or c.before != c.after)
        records = tries.made(lambda: self.remembering.records_of(call, outcome, pending, changes, tries), ())
        waiting = tries.made(lambda: self.site.recorder.append_or_spool(records), None)
        tries.made(lambda: self.refuse(call, findings), None)
        tries.made(lambda: self.remembering.settled(call, outcome, None, changes, tries), None)
        dropped = {str(f.path): f.message for f in findings}
        said = in_words(ended, kept, findings, self.aside(call))
        return Result(ended.code, kept, dropped, "\n".join(filter(None, (said, waiting or "", tries.said))))

    def unprepared(self, call: ToolCall) -> PendingCall:
        """What a call is recorded by that was not judged before: the state as it is."""
        facts = self.facts(call)
        active = facts.active
        scope = active.owned_scope if active else ()
        return PendingCall(
            facts.session.intent_id, "allow", facts.mode, (), (), False, None, {}, agent=call.agent, owned_scope=scope
        )

    def refuse(self, call: ToolCall, findings: Sequence[Finding]) -> None:
        """Record what was dropped, as refused."""
        if not findings:
            return
        facts = self.facts(call)
        decision = Decision("deny", "deny", "destructive", facts.mode, tuple(findings), facts.session.intent_id)
        self.judging.refused(call, facts, decision)


def as_writes(call: ToolCall) -> ToolCall:
    """The call as its effects are judged: a tool that writes files, and looks at what is there itself."""
    return replace(
        call, effect="write", command=None, paths=(), checks_itself=True, whole_workspace=False, opens_stdin=False
    )


def networked(facts: Facts) -> bool:
    """Whether the command may use the network."""
    return facts.active is None or facts.active.network == "allow"


def is_git(path: str, root: Path, common: Path | None) -> bool:
    """Whether a path lies in the repository's own git folder."""
    if common is None or not common.is_relative_to(root):
        return False
    name = str(common.relative_to(root))
    return path == name or path.startswith(f"{name}/")


def silent(changes: Sequence[Touched]) -> set[str]:
    """The changes whose loss is worth no word: a folder for the sake of what is in it, and another name for a file."""
    above = {str(place) for c in changes for place in PurePosixPath(c.path).parents}
    return {c.path for c in changes if c.same or (c.kind == "folder" and c.path in above)}


def literal(glob: str) -> str:
    """The folder that a glob surely stays in."""
    parts = glob.split("/")
    fixed = next((n for n, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    return "/".join(parts[:fixed]) or "."


def existing(place: Path, root: Path) -> Path:
    """The nearest folder, or file, at or above a place that is there."""
    while not place.exists() and place != root:
        place = place.parent
    return place
