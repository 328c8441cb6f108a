"""A command that runs contained: what it changed is judged as file writes are, and then kept or dropped.

With an overlay nothing happens in the real tree before it is judged. Without one the command writes below its scope,
the workspace is compared afterwards, and what may not stay is undone.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.decision import Decision, Finding
from remit.core.facts import Facts, SessionFacts, Target
from remit.core.globs import Scope
from remit.core.repopath import InvalidPath
from remit.core.text import shown
from remit.gate import effects
from remit.gate.answer import Attempts
from remit.gate.between import Between
from remit.gate.contained_paths import existing, is_cache, is_git, leads_away, literal, silent
from remit.gate.contained_tickets import Ticket
from remit.gate.contained_words import (
    in_words,
    left_running,
    meanwhile,
    moved_under,
    objection,
    read_only,
    too_large,
    too_much,
    unwritten,
)
from remit.gate.gather import with_holders, with_ignored
from remit.gate.judging import Judging
from remit.gate.observed import explain
from remit.gate.remembering import Remembering, contents_of, restore
from remit.gate.site import Site
from remit.gate.snapshots import Snapshots
from remit.gate.state import PendingCall
from remit.gate.steady import uncontained
from remit.gate.undoing import as_writes
from remit.gate.untold import Untold
from remit.policy.engine import decide
from remit.workspace.observe import Change, glance
from remit.workspace.paths import Surroundings, folds_case, target
from remit.workspace.sandbox import landlock, places
from remit.workspace.sandbox.choosing import Containment, way_here
from remit.workspace.sandbox.committing import Committing, put_aside
from remit.workspace.sandbox.git_changes import GitChanges
from remit.workspace.sandbox.jail import Jail, argv, doors
from remit.workspace.sandbox.running import Ended, Limits, run, run_bare
from remit.workspace.sandbox.staged import Touched, changed_since, touched, written

ASIDE = "aside"
"""In Remit's own folder: what a command made of files that somebody else changed meanwhile."""

GIT = ".git"

OWN = ".local/state/remit"
"""Below HOME: the daemon's door, and what others stage. Who is contained has nothing to look for there."""

LARGEST = 1 << 32
"""Bytes of a file that is brought over: one of holes alone costs its command nothing, and all others a disk."""

MOST_RECORDED = 100
"""Dropped paths that one record names."""


class Result(Struct, frozen=True):
    """What came of a contained command. `dropped` gives each path's reason; `said` is all of it for a model."""

    code: int
    kept: tuple[str, ...] = ()
    dropped: dict[str, str] = {}
    said: str = ""


class Contained:
    """Runs commands contained, in one workspace."""

    def __init__(self, site: Site, how: Containment, ticket: Ticket | None = None) -> None:
        self.site = site
        self.how = how
        self.ticket = ticket
        """Of an agent's own shell call: its hook lets the call through, and records that it came back."""
        self.judging = Judging(site)
        self.remembering = Remembering(site)

    def run(self, call: ToolCall, command: Sequence[str], limits: Limits) -> Result:
        """Run `command` in the call's folder, and keep of its effects what the call's intent may change.

        Raises NotContained, NoScratch, OSError, and what CannotRecord names: then nothing was kept.
        """
        self.how = replace(self.how, way=way_here(self.how, self.site.workspace))
        if self.how.way == "overlay":
            return self.staged(call, command, limits)
        return self.compared(call, command, limits, self.facts(call))

    def facts(self, call: ToolCall) -> Facts:
        """What the effects are judged by: as for a tool that writes files, of which none is named yet."""
        rules = self.site.governing
        found = self.judging.gathered(as_writes(call), rules)
        session = found.facts.session
        intent_id = self.ticket.intent_id if self.ticket is not None else session.intent_id
        # What went wrong in a row stops calls, and not what one that went through has done.
        session = SessionFacts(intent_id, session.source)
        return replace(found.facts, session=session, grants=self.site.approvals.grants(rules.config.grants))

    # -- with an overlay ------------------------------------------------------------------------------------

    def staged(self, call: ToolCall, command: Sequence[str], limits: Limits) -> Result:
        """Run it over the workspace, then look at what its layer took."""
        around, workspace = self.site.environment, self.site.workspace
        shared = not uncontained(call, self.site.state)
        with places.staging(workspace, around.home, around.temporary, shared=shared) as staging:
            limits = replace(limits, written=lambda: sum(written(layer.upper) for layer in staging.layers))
            ended = run(lambda status: self.words(call, command, staging, status), limits)
            if ended.stopped.startswith("it wrote"):
                return self.settled(call, ended, {}, [too_much(ended)], ())
            return self.taken(call, ended, staging)

    def settle(self, call: ToolCall, folder: Path, ended: Ended) -> Result:
        """Judge what another process staged in `folder`; whose that is takes it away. Raises what `run` does."""
        return self.taken(call, ended, places.reopened(folder, self.site.workspace))

    def words(self, call: ToolCall, command: Sequence[str], staging: places.Staging, status: int) -> list[str]:
        """The words that run it over the workspace; `status` is the descriptor for bubblewrap's news."""
        around, workspace = self.site.environment, self.site.workspace
        home = () if places.inside(around.home, workspace.root) else (around.home,)
        own = around.home / OWN
        jail = Jail(
            folder=Path(call.cwd),
            layers=staging.layers,
            writable=staging.writable,
            read_only=(*home, *places.steady(workspace, around.settings)),
            hidden=(*doors(), *([own] if own.is_dir() else [])),
            network=self.networked(call),
        )
        return argv(self.how.program, jail, command, status)

    def networked(self, call: ToolCall) -> bool:
        """Whether the command may use the network."""
        intent_id = self.ticket.intent_id if self.ticket is not None else self.site.state.active(call.session).intent_id
        intent = self.site.governing.intents.get(intent_id)
        return intent is None or intent.network == "allow"

    def taken(self, call: ToolCall, ended: Ended, staging: places.Staging) -> Result:
        """Judge what the layers took; bring over what may stay, and record it."""
        root, common = self.site.workspace.root, self.site.workspace.common_dir
        all_of_it = touched(staging.root.upper, root)
        if self.ticket is not None and not all_of_it and staging.common is None and not ended.stopped:
            return Result(ended.code, said=self.aftermath(call, ended))
        own = [c for c in all_of_it if not is_git(c.path, root, common)]
        upper, objections = staging.root.upper, self.objections(call, own)
        beyond = {path for path, finding in objections.items() if finding.code == "SCOPE_VIOLATION"}
        emptied = {c.path for c in own if c.kind == "gone" and (root / c.path).is_dir()}
        cached = {path for path in beyond if is_cache(path) or path in emptied}
        for change in own:
            if change.path not in objections and changed_since(upper, root, change, staging.began_ns):
                objections[change.path] = meanwhile(change.path)
            elif change.kind == "file" and (upper / change.path).lstat().st_size > LARGEST:
                objections.setdefault(change.path, too_large(change.path))
            elif leads_away(upper, root, change) and uncontained(call, self.site.state):
                objections.setdefault(change.path, moved_under(change.path))
        kept = [c for c in own if c.path not in objections]
        done, failed = self.brought(call, upper, kept)
        aside = [path for path, f in objections.items() if f.code == "STALE_FILE"]
        put_aside(upper, [*aside, *failed], self.aside(call))
        unsaid = silent(own) | cached
        findings = [f for path, f in objections.items() if path not in unsaid]
        findings += [unwritten(path, why) for path, why in failed.items()]
        findings += self.of_git(staging, all_of_it, whole=not findings)
        made_anew = self.generated({c.path for c in kept})
        done = {path: change for path, change in done.items() if path not in made_anew}
        names = tuple(c.path for c in kept if c.path not in failed and c.path not in unsaid and c.kind != "folder")
        return self.settled(call, ended, done, findings, names)

    def brought(self, call: ToolCall, upper: Path, kept: Sequence[Touched]) -> tuple[dict[str, Change], dict[str, str]]:
        """Bring these over; the changes as they were made, by path, and what could not be."""
        root = self.site.workspace.root
        files = [c.path for c in kept if c.kind != "folder"]
        before = {path: glance(root / path) for path in files}
        self.site.keep(effects.keepable(before.items()))
        Between(self.site).noticed("after a contained command", before, call.session)
        trouble = self.snapshot(call) if any(before.values()) else ""
        if trouble:
            return {}, {c.path: trouble for c in kept}
        failed = Committing(upper, root).kept(kept)
        made = (Change(path, before[path], glance(root / path)) for path in files if path not in failed)
        return {c.path: c for c in made if c.before is not None or c.after is not None}, failed

    def snapshot(self, call: ToolCall) -> str:
        """Keep the state before an agent's own call changes what is there; why that cannot be, where it may not go on.

        It was not kept when the call was let through: most commands change nothing.
        """
        if self.ticket is None:
            return ""
        facts = self.facts(call)
        decision = Decision("contain", "contain", "destructive", facts.mode, intent_id=facts.session.intent_id)
        kept = Snapshots(self.site).before(call, facts, decision, self.site.observe())
        if kept.refusal is not None:
            return kept.refusal.message
        self.site.recorder.append_or_spool(kept.records)
        return ""

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
            restore(self.site.workspace.root, path, done[path].before)
        kept = {path: c for path, c in done.items() if path not in objections}
        return self.settled(call, ended, kept, list(objections.values()), tuple(kept))

    def ran(self, call: ToolCall, command: Sequence[str], limits: Limits, before: Facts) -> Ended:
        """Run it in what there is."""
        around, workspace, folder = self.site.environment, self.site.workspace, Path(call.cwd)
        limits = replace(limits, size=None)
        writable = self.writable(before)
        if self.how.way == "bind":
            read_only = places.steady(workspace, around.settings)
            jail = Jail(folder, (), writable, read_only, doors(), self.networked(call))
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
        made_anew = self.generated(path for path, finding in found.items() if finding.code == "SCOPE_VIOLATION")
        return {path: finding for path, finding in found.items() if path not in made_anew}

    def generated(self, paths: Iterable[str]) -> set[str]:
        """Those that a person let every contained command make anew."""
        patterns = self.site.governing.config.containment.generated
        scope = Scope(patterns) if patterns else None
        return {path for path in paths if scope is not None and scope.matches(path)}

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
        pending = replace(pending, judged=tuple(done), whole=self.how.way != "overlay")
        outcome = Outcome(ok=ended.code == 0, exit_code=ended.code, summary=ended.stopped)
        changes = tuple(c for c in done.values() if c.before is None or c.after is None or c.before != c.after)
        records = tries.made(lambda: self.remembering.records_of(call, outcome, pending, changes, tries), ())
        if self.ticket is not None:
            records = records[:-1]  # its hook records what came of the call
        waiting = tries.made(lambda: self.site.recorder.append_or_spool(records), None)
        tries.made(lambda: self.refuse(call, findings), None)
        if self.ticket is None:
            tries.made(lambda: self.remembering.settled(call, outcome, pending, changes, tries), None)
        else:
            tries.made(lambda: self.explained(call, pending, changes), None)
        dropped = {str(f.path): f.message for f in findings}
        words = (
            in_words(ended, kept, findings, self.aside(call)),
            self.aftermath(call, ended),
            waiting or "",
            tries.said,
        )
        said = "\n".join(filter(None, words))
        if self.ticket is not None:
            token = self.ticket.token
            Attempts().made(lambda: Untold(self.site.state).late(call, token, said), None)
        return Result(ended.code, kept, dropped, said)

    def aftermath(self, call: ToolCall, ended: Ended) -> str:
        """What the sandbox itself kept the command from, as far as its text tells."""
        root, settings = self.site.workspace.root, self.site.environment.settings
        inside = [str(p.relative_to(root)) for p in places.steady(self.site.workspace, settings) if root in p.parents]
        names = dict.fromkeys((*inside, *settings)) if ended.code else ()
        return "\n".join(filter(None, (read_only(call, names), left_running(call))))

    def explained(self, call: ToolCall, pending: PendingCall, changes: tuple[Change, ...]) -> None:
        """These changes have a record: what comes after the call need not wonder about them, nor look for others."""
        state = self.site.state
        with state.together():
            explain(state, changes)
            self.remembering.windows.tell(call.session, changes)
            if self.remembering.row is not None and self.how.way != "overlay":
                self.remembering.forgotten()
                pending = replace(pending, whole=False, judged=(), before={})
                now = self.site.environment.clock()
                state.put_call(call.session, call.call_id, call.tool, call.arguments_sha256, pending, now)

    def unprepared(self, call: ToolCall) -> PendingCall:
        """What a call is recorded by that was not judged before: the state as it is."""
        facts = self.facts(call)
        active = facts.active
        scope = active.owned_scope if active else ()
        verdict = "allow" if self.ticket is None else "contain"
        return PendingCall(
            facts.session.intent_id, verdict, facts.mode, (), (), False, None, {}, agent=call.agent, owned_scope=scope
        )

    def refuse(self, call: ToolCall, findings: Sequence[Finding]) -> None:
        """Record what was dropped, as refused. It was no try to get round anything: the session may go on as it was."""
        if not findings:
            return
        facts, (first, *others) = self.facts(call), findings
        dropped = [shown(f.path or "", 200) for f in findings[:MOST_RECORDED]]
        first = replace(first, context={**first.context, "dropped": dropped, "dropped_count": len(findings)})
        session = facts.session.intent_id
        self.judging.denied(call, facts, Decision("deny", "deny", "destructive", facts.mode, (first, *others), session))
