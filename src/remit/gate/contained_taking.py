"""What the layers of a contained command took: judged, and brought into the real tree as far as it may stay."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision, ErrorType, Finding
from remit.core.text import shown
from remit.gate import effects
from remit.gate.between import Between
from remit.gate.contained_git import GIT, GitTaking, GitVerdict
from remit.gate.contained_meanwhile import overtaken
from remit.gate.contained_paths import is_below, is_cache, is_git, leads_away, lies_on_the_way, new_trees, silent
from remit.gate.contained_recording import Recording, Result
from remit.gate.contained_words import (
    half_done,
    moved_away,
    moved_under,
    of_git,
    special,
    still,
    too_large,
    unprivileged,
    unwritten,
    with_git,
    work_tree,
)
from remit.gate.generated import GeneratedChange, generated_record, keeps_anywhere, remember_left
from remit.gate.redirected import places_awaited
from remit.gate.snapshots import Snapshots
from remit.gate.steady import uncontained
from remit.workspace.observe import Change, glance
from remit.workspace.place import is_folder
from remit.workspace.sandbox.committing import Committing, put_aside
from remit.workspace.sandbox.places import Staging
from remit.workspace.sandbox.running import Ended
from remit.workspace.sandbox.staged import MAX_FILE_BYTES, SPECIAL, Touched, privileged, touched
from remit.workspace.versions import hash_file

NEVER_EXCUSED: frozenset[ErrorType] = frozenset({"PROTECTED_PATH", "OUTSIDE_WORKSPACE", "INVALID_ARGUMENTS"})
"""What holds against a file also where git brought it, as somebody committed it."""


class Taking:
    """Takes over what contained commands did in one workspace."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.verdicts = recording.verdicts
        self.site = recording.site
        self.ticket = recording.ticket

    def taken(self, call: ToolCall, ended: Ended, staging: Staging) -> Result:
        """Judge what the layers took; bring over what may stay, and record it."""
        upper, all_of_it = staging.root.upper, touched(staging.root.upper, self.site.workspace.root, times=True)
        if self.ticket is not None and not all_of_it and staging.common is None and not ended.stopped:
            return Result(ended.code, said=self.recording.aftermath(call, ended))
        own, never = self.apart(all_of_it, upper)
        changed = [c for c in own if not c.times]
        git = GitTaking(self.verdicts, staging, [c for c in all_of_it if not c.times], changed)
        judged = git.judge(call)
        generated = self.generated(own)
        objections, cached = self.objections(call, own, staging, generated, judged.excused if judged.stays else ())
        late = {c.path for c in own if c.times} & objections.keys()  # times alone, of which git's part says nothing
        judged, found = together(judged, {path: f for path, f in objections.items() if path not in late})
        objections = {**found, **{path: objections[path] for path in late}}
        kept = [c for c in own if c.path not in objections]
        counted = [c for c in kept if c.path in generated and c.kind != "folder" and not c.times]
        sizes = {c.path: hash_file(upper / c.path) if c.kind != "gone" else None for c in counted}
        done, failed = self.brought(call, upper, kept, generated)
        unsaid = silent(own) | cached
        aside = [path for path, f in objections.items() if f.code == "STALE_FILE" and path not in unsaid]
        put_aside(upper, [*aside, *failed], self.recording.aside(call))
        findings = [f for path, f in objections.items() if path not in unsaid]
        findings += [unwritten(path, why) for path, why in failed.items()]
        if failed and judged.stays:
            judged = replace(judged, stays=False, findings=(*judged.findings, apart_from_git(failed)))
        findings += git.bring(call, judged)
        told = self.git_findings(git, judged)
        findings = [f for f in findings if f.path not in {one.path for one in told}] + told
        findings += never
        findings += [unprivileged(c.path) for c in kept if not c.times and privileged(upper, c)]
        self.count(call, [c for c in counted if c.path not in failed], generated, sizes)
        done = {path: replace(change, brought=path in judged.brought) for path, change in done.items()}
        names = tuple(c.path for c in kept if c.path not in failed and c.path not in unsaid and c.kind != "folder")
        return self.recording.settled(call, ended, done, findings, names)

    def git_findings(self, git: GitTaking, judged: GitVerdict) -> list[Finding]:
        """What is told of git's part, with the commits that were kept without a name."""
        commits = git.keep_objects(judged) if judged.findings else ()
        found = list(judged.findings)
        at = next((i for i, f in enumerate(found) if commits and f.path == GIT), None)
        if at is not None:
            found[at] = replace(found[at], message=f"{found[at].message}{still(commits)}")
        return found

    def apart(self, changes: Sequence[Touched], upper: Path) -> tuple[list[Touched], list[Finding]]:
        """The changes outside of git's folder that may come over; and what never does, whoever may write there."""
        root, common = self.site.workspace.root, self.site.workspace.common_dir
        own = [c for c in changes if not is_git(c.path, root, common)]
        trees = new_trees(own, upper)
        own = [c for c in own if not any(is_below(c.path, tree) for tree in trees)]
        never = [*map(work_tree, trees), *(special(c.path, c.kind) for c in own if c.kind in SPECIAL)]
        return [c for c in own if c.kind not in SPECIAL], never

    def generated(self, own: Sequence[Touched]) -> dict[str, str]:
        """Those of the changes that are to generated files, by the rules from before the command."""
        root = self.site.workspace.root
        # A folder that became a file or a link is judged as that: it has no ignored folder's leave.
        plain = {c.path for c in own if c.kind not in ("folder", "gone")}
        was_folder = (c.path for c in own if c.kind == "folder" or (c.kind == "gone" and is_folder(root / c.path)))
        folders = [path for path in was_folder if path not in plain]
        known = frozenset(folders)
        return self.verdicts.generated([c.path for c in own if c.path not in known], folders)

    def count(
        self,
        call: ToolCall,
        counted: Sequence[Touched],
        generated: Mapping[str, str],
        sizes: Mapping[str, tuple[str, int] | None],
    ) -> None:
        """Record the generated files that stayed, as one number. Raises OSError, StateError."""
        if not counted:
            return
        found = [GeneratedChange(c.path, generated[c.path], *(sizes[c.path] or (None, 0))) for c in counted]
        remember_left(self.site.state, found)
        record = generated_record(self.site, call, self.verdicts.intent_id(call) or None, found)
        self.site.recorder.append_or_spool([record])

    def objections(
        self,
        call: ToolCall,
        own: Sequence[Touched],
        staging: Staging,
        generated: Mapping[str, str],
        excused: Container[str],
    ) -> tuple[dict[str, Finding], set[str]]:
        """By path, why a change may not stay; and the paths among them whose loss is worth no word.

        `excused` is what git brought as somebody committed it: that is no violation of the agent's.
        """
        root, upper = self.site.workspace.root, staging.root.upper
        anywhere = {path for path, top in generated.items() if keeps_anywhere(top)}
        found = self.verdicts.objections(call, [c.path for c in own], anywhere)
        fresh = [c for c in own if c.path not in found and c.path not in generated and not c.times]
        found |= self.verdicts.broken(call, fresh, upper)
        found = {path: f for path, f in found.items() if path not in excused or f.code in NEVER_EXCUSED}
        beyond = {path for path, finding in found.items() if finding.code == "SCOPE_VIOLATION"}
        made = {c.path for c in own if c.kind != "gone"}
        emptied = {c.path for c in own if c.kind == "gone" and c.path not in made and (root / c.path).is_dir()}
        others = [c for c in own if c.path not in found]
        found |= overtaken(self.site, upper, others, staging.began_ns)
        awaited = places_awaited(call, self.site.state.open_calls())
        alone = not awaited and not uncontained(call, self.site.state)
        links = [c.path for c in others if c.kind == "link" and lies_on_the_way(root / c.path, awaited)]
        for change in others:
            if link := next((path for path in links if is_below(change.path, path)), None):
                found[change.path] = moved_away(change.path, link)
            if change.kind == "file" and (upper / change.path).lstat().st_size > MAX_FILE_BYTES:
                found.setdefault(change.path, too_large(change.path))
            elif not alone and leads_away(upper, root, change):
                found.setdefault(change.path, moved_under(change.path))
        return found, {path for path in beyond if is_cache(path) or path in emptied}

    def brought(
        self, call: ToolCall, upper: Path, kept: Sequence[Touched], generated: Container[str]
    ) -> tuple[dict[str, Change], dict[str, str]]:
        """Bring these over; the changes of files that are recorded one by one, and what could not be brought."""
        root = self.site.workspace.root
        files = [c.path for c in kept if c.kind != "folder" and not c.times and c.path not in generated]
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
        facts = self.verdicts.facts(call)
        decision = Decision("contain", "contain", "destructive", facts.mode, intent_id=facts.session.intent_id)
        kept = Snapshots(self.site).before(call, facts, decision, self.site.observe())
        if kept.refusal is not None:
            return kept.refusal.message
        self.site.recorder.append_or_spool(kept.records)
        return ""


def together(judged: GitVerdict, objections: Mapping[str, Finding]) -> tuple[GitVerdict, dict[str, Finding]]:
    """The verdict on git's part beside those on the files: both stay, or neither does.

    Where a file that git's part speaks of may not stay, that part does not, and with it goes what it brought.
    """
    objections = {**objections, **{path: half_done(path) for path in judged.halves if path not in judged.brought}}
    wrong = sorted(judged.about & objections.keys())
    if judged.stays and wrong:
        judged = replace(judged, stays=False, findings=(*judged.findings, of_git(GIT, because(wrong))))
    if judged.stays:
        return judged, dict(objections)
    return judged, {**{path: with_git(path) for path in judged.brought}, **objections}


def because(paths: Sequence[str]) -> str:
    """Why git's part may not stay where files of it may not."""
    few = ", ".join(shown(path, 80) for path in paths[:3]) + (", …" if len(paths) > 3 else "")
    return f"it speaks of {few}, which may not change so"


def apart_from_git(failed: Mapping[str, str]) -> Finding:
    """Git's part may not stay where a file could not be written."""
    return of_git(GIT, f"{shown(next(iter(failed)), 80)} could not be written")
