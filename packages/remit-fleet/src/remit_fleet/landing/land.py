"""Landing of a train: members are merged in order in the object store and checked in a separate worktree; a single
update moves the target's ref from the commit read at the start.

1. Check each member: its paths against its write set, its contents for conflict markers.
2. Merge the member on the candidate so far; no line added by a side may be lost. The same commit sets its intent DONE.
3. Make the common files anew, once for the train.
4. Run the checks, contained; a red run is repeated once, and a red train is bisected until the rest is green.
5. Move the target: no ref has moved before, and none moves if the target was moved meanwhile.
6. Record the landed members, and write the notes of their commits.

A landing repeated after a crash finds the landed members by the trailers of the target's commits.
"""

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.record import KEY, Body
from remit.core.scope.path_patterns import InvalidPath, Scope, check_path_bounds
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.gate.context import RECORDING_ERRORS, WorkspaceContext
from remit.workspace.git.command import GIT_FATAL_EXIT_CODE, TIMEOUT_S, Git, GitError
from remit.workspace.git.repository import BRANCH_PREFIX, prefix_in_repository
from remit.workspace.intents_file.committed import change_committed_status, read_committed_files
from remit.workspace.merging import NO_COMMIT, REMOVED_MODE, ChangedEntry, Identity, RefMoved, TreeStore
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import read_regular_file
from remit.workspace.worktrees import Worktrees, is_governing
from remit_fleet.landing.checks import CheckResult, RunCheck
from remit_fleet.landing.merge_rules import (
    FindCulprit,
    LandingFault,
    find_lost_line,
    find_path_fault,
    has_new_markers,
)

DEFAULT_TARGET = "remit/next"
LANDER = ("Remit", "remit@localhost")
INTENT_TRAILER, ATTEMPT_TRAILER, MADE_TRAILER = "Remit-Intent", "Remit-Attempt", "Remit-Made"
MAX_SEARCHED_COMMITS = 1000  # of the target that are searched for what has landed before

MAX_SEARCHED_RECORDS = 100
CANDIDATE_REFS = "refs/remit/landing/"
"""Refs that name the newest candidate for each target, so that git keeps it until the target holds it."""

AUTHOR_LINE = re.compile(rb"^author ([^<>\n]*?) ?<([^<>\n]*)> ([0-9]{1,15}) [+-][0-9]{4}$", re.MULTILINE)
MAX_COMMON_BYTES = 64 << 20

LandingForm: TypeAlias = Literal["merge", "squash"]


class LandingMember(Struct, frozen=True):
    """Handed-in attempt; `commit` holds its work, and a named `branch` may not have moved from there. Each changed path
    has to match each set of `patterns`: the intent's scope, the assigned patterns, and the role's paths. `checks` are
    its criteria trusted by a person.
    """

    intent: str
    attempt: int
    token: int
    commit: str
    patterns: tuple[tuple[str, ...], ...]
    title: str = ""
    checks: tuple[str, ...] = ()
    branch: str = ""

    @property
    def name(self) -> str:
        return f"{self.intent}/{self.attempt}"


class CommonFiles(Struct, frozen=True):
    """Patterns of files touched by every change, such as a lock file, and the trusted command that makes them."""

    paths: tuple[str, ...]
    make: str


class LandingTerms(Struct, frozen=True):
    """Settings of a landing. `target` is a branch without a checkout; with a `remote`, the remote's branch is moved
    first.

    Non-empty `checks` replace the members' own checks. A missing target begins at `base`; `remote_tip` is the tip of
    the remote's target if different from the local tip.
    """

    target: str = DEFAULT_TARGET
    form: LandingForm = "merge"
    remote: str = ""
    base: str = "HEAD"
    checks: tuple[str, ...] = ()
    commons: tuple[CommonFiles, ...] = ()
    remote_tip: str = ""
    union: tuple[str, ...] = ()
    """Patterns of files in the repository that keep the lines of both sides of a merge."""
    limit_s: float = TIMEOUT_S
    """Time limit of each exchange with the remote."""

    @property
    def ref(self) -> str:
        return f"{BRANCH_PREFIX}{self.target}"


class TrainResult(Struct, frozen=True):
    """Result of a landing: the target before and after, the commit of each landed intent, and the faults of the rest.

    `target_moved`: the target was moved meanwhile, no member landed, and the train has to be gathered anew. `flaky` are
    checks that were red once and green when repeated.
    """

    old: str
    new: str
    landed: dict[str, str] = {}
    faults: tuple[LandingFault, ...] = ()
    flaky: tuple[str, ...] = ()
    verify_ms: int = 0
    target_moved: bool = False


class LandingCandidate(Struct, frozen=True):
    """Possible new tip of the target, with the commit of each merged member and the faults of the rest."""

    commit: str
    steps: dict[str, str]
    faults: tuple[LandingFault, ...] = ()


class Lander:
    """Landing in one repository. Methods raise RECORDING_ERRORS.

    `run_check` runs a trusted command in a worktree (`checks.ContainedChecks.run`); `find_culprit` is pure.
    """

    def __init__(
        self, context: WorkspaceContext, trees: Worktrees, run_check: RunCheck, find_culprit: FindCulprit
    ) -> None:
        self.context = context
        self.trees = trees
        self.store = TreeStore(context.workspace)
        self.run_check = run_check
        self.find_culprit = find_culprit
        self.results: list[CheckResult] = []

    def land(self, terms: LandingTerms, members: Sequence[LandingMember]) -> TrainResult:
        """Land the allowed members in order. Raises RefCheckedOut if a person has the target checked out.

        Each member lands or has a fault; with `target_moved` no member has landed. May be repeated after a crash.
        """
        old, before = self.find_landed(terms.ref, members)
        tip = old or self.trees.require_commit(terms.base)
        if old is None:
            _, before = self.find_landed(tip, members)
        self.record_unrecorded(terms, before, members)
        faults: list[LandingFault] = []
        flaky: list[str] = []
        waiting = [member for member in members if member.intent not in before]
        spent_ms = 0
        while True:
            candidate = self.build(terms, tip, waiting)
            found = list(candidate.faults)
            if not found:
                began = time.monotonic()
                found = self.verify(terms, tip, waiting, candidate, flaky)
                spent_ms += round((time.monotonic() - began) * 1000)
            if not found:
                break
            faults += found
            dropped = {fault.intent for fault in found}
            waiting = [member for member in waiting if member.intent not in dropped]
            if not waiting:
                return TrainResult(tip, tip, before, tuple(faults), tuple(flaky), spent_ms)
        try:
            self.move_target(terms, candidate.commit, old or NO_COMMIT)
        except RefMoved:
            return TrainResult(tip, tip, before, tuple(faults), tuple(flaky), spent_ms, target_moved=True)
        result = TrainResult(
            tip, candidate.commit, {**before, **candidate.steps}, tuple(faults), tuple(flaky), spent_ms
        )
        self.record(terms, result, waiting)
        return result

    def try_member(self, terms: LandingTerms, member: LandingMember) -> LandingFault | None:
        """Return why a member alone would not land now; None for one that would. No ref moves."""
        tip = self.store.find_commit(terms.ref) or self.trees.require_commit(terms.base)
        built = self.build(terms, tip, [member])
        faults = built.faults or self.verify(terms, tip, [member], built, [])
        return faults[0] if faults else None

    # 1, 2 Members

    def build(self, terms: LandingTerms, tip: str, members: Sequence[LandingMember]) -> LandingCandidate:
        """Merge the members on the tip in order, and make the common files anew."""
        steps: dict[str, str] = {}
        faults: list[LandingFault] = []
        at = tip
        for member in members:
            try:
                made = self.merge_member(terms, at, member)
            except GitError as error:
                # What an attempt has put into its objects holds up nobody else.
                made = LandingFault(member.intent, "unknown", f"git cannot work with its commit: {error}"[:500])
            if isinstance(made, LandingFault):
                faults.append(made)
            else:
                at = steps[member.intent] = made
        # A member that does not land is left out first: the common files are made once for those that do.
        if steps and terms.commons and not faults:
            made = self.make_commons(terms, at)
            if isinstance(made, CheckResult):
                why = f"the common files could not be made: {describe_red(made)}"
                return LandingCandidate(tip, {}, tuple(LandingFault(intent, "commons", why) for intent in steps))
            at = made
        return LandingCandidate(at, steps, tuple(faults))

    def merge_member(self, terms: LandingTerms, tip: str, member: LandingMember) -> str | LandingFault:
        store = self.store
        fork = store.find_fork(tip, member.commit)
        if fork is None:
            named = (member.commit or member.branch)[:60]
            why = f"{named!r} is no commit here that has anything in common with {terms.target}"
            return LandingFault(member.intent, "unknown", why)
        there = store.find_commit(member.branch) if member.branch else None
        if there not in (None, fork.commit):  # another agent of the intent can write it
            why = f"{member.branch!r} was moved after its work was handed in, to {there}; to land what was handed in, "
            why += f"`git update-ref {member.branch} {fork.commit}`; else `remit task retry {member.intent}`"
            return LandingFault(member.intent, "unknown", why)
        merged = store.merge(tip, fork.commit, terms.union)
        changes, landing = store.list_merge_changes(fork, merged.tree)
        found = store.read_objects((fork.commit, *list_blobs(changes)))
        if fault := self.check_member(member, changes, found):
            return fault
        if merged.conflicts:
            why = f"{merged.conflicts[0]!r} was changed by both, and git cannot merge it"
            return LandingFault(member.intent, "conflict", why, merged.conflicts)
        if landing != changes:
            states = (fork.base, tip, fork.commit, merged.tree)
            if fault := self.check_merge(member, changes, landing, states):
                return fault
        at = int(self.context.environment.clock.now())
        author, committer = read_author(fork.commit, found[fork.commit]), Identity(*LANDER, at)
        message = f"{sanitise_line(member.title or member.intent, 200)}\n\n{INTENT_TRAILER}: {member.intent}\n"
        message += f"{ATTEMPT_TRAILER}: {member.name}\n"
        files = self.close_intent(fork.tip_tree, member)
        ref = f"{CANDIDATE_REFS}{terms.target}"
        if terms.form == "squash":
            return store.commit_files(ref, merged.tree, (tip,), message, author, committer, files)
        parents = (tip, fork.commit)
        return store.commit_files(ref, merged.tree, parents, f"Land {message}", committer, committer, files)

    def check_member(
        self, member: LandingMember, changes: Sequence[ChangedEntry], blobs: Mapping[str, bytes]
    ) -> LandingFault | None:
        prefix = prefix_in_repository(self.context.workspace)
        own = {c.path.removeprefix(prefix): c for c in changes if c.path.startswith(prefix)}
        foreign = tuple(c.path for c in changes if not c.path.startswith(prefix))
        if foreign:
            return LandingFault(member.intent, "outside_scope", f"{foreign[0]!r} lies outside the workspace", foreign)
        modes = {path: change.new_mode for path, change in own.items()}
        if fault := find_path_fault(member.intent, modes, member.patterns, is_governing):
            return fault
        for path, change in own.items():
            try:
                if not change.is_removed:
                    check_path_bounds(path, is_new=change.old_mode == REMOVED_MODE)
            except InvalidPath as error:
                return LandingFault(member.intent, "bounds", str(error), (path,))
        marked = tuple(
            path
            for path, change in own.items()
            if has_new_markers(blobs.get(change.old_blob, b""), blobs.get(change.new_blob, b""))
        )
        if marked:
            return LandingFault(member.intent, "markers", f"{marked[0]!r} holds conflict markers", marked)
        return None

    def check_merge(
        self,
        member: LandingMember,
        changes: Sequence[ChangedEntry],
        landing: Sequence[ChangedEntry],
        states: tuple[str, str, str, str],
    ) -> LandingFault | None:
        """Return the fault of a merge that leaves the write set or has lost a line of either side (law L6).

        `states` are the merge base, the tip, the member's commit and the merged tree; `changes` are the member's
        changes, `landing` the merge's changes at the tip.
        """
        base, tip, _, _ = states
        if fault := self.check_member(member, landing, self.store.read_blobs(list_blobs(landing))):
            return fault
        others = self.store.list_changes(base, tip)
        both = {change.path for change in (*changes, *landing)} & {change.path for change in others}
        if not both:
            # No file was changed by both: the result has to hold the member's files, byte for byte.
            wanted, found = ({c.path: c.new_blob for c in side} for side in (changes, landing))
            lost = tuple(path for path, blob in wanted.items() if found.get(path) != blob)
            return LandingFault(member.intent, "lost_line", f"the merge changed {lost[0]!r}", lost) if lost else None
        paths = sorted({change.path for side in (changes, landing, others) for change in side})
        contents = [self.store.read_files(state, paths) for state in states]
        line = find_lost_line(*([text for text in found.values() if text is not None] for found in contents))
        if line is None:
            return None
        shown = sanitise_line(line.decode("utf-8", "replace"), 120)
        return LandingFault(member.intent, "lost_line", f"the merge lost the line {shown!r}", tuple(sorted(both)))

    def close_intent(self, tree: str, member: LandingMember) -> dict[str, bytes]:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.context.environment.clock.now()))
        contents = read_committed_files(self.store.git, tree, prefix_in_repository(self.context.workspace))
        return change_committed_status(contents, member.intent, "DONE", moment)

    # 3 Common files

    def make_commons(self, terms: LandingTerms, commit: str) -> str | CheckResult:
        tree = self.trees.prepare_for_verification(commit)
        for command in (common.make for common in terms.commons):
            done = self.check(tree, command)
            if not done.is_green:
                return done
        patterns = Scope(tuple(path for common in terms.commons for path in common.paths))
        prefix = prefix_in_repository(tree)
        changed = [path for path in self.trees.list_changed_files(tree) if patterns.matches(path)]
        try:
            files = {f"{prefix}{p}": read_made_file(tree.root, p) for p in changed if not is_governing(p)}
        except OSError as error:
            return CheckResult(terms.commons[0].make, is_green=False, output=str(error))
        if not files:
            return commit
        made = self.store.replace_files(self.store.read_tree_name(commit), files)
        who = Identity(*LANDER, int(self.context.environment.clock.now()))
        message = f"Make common files anew\n\n{MADE_TRAILER}: {', '.join(sorted(map(quote_path, files)))}\n"
        return self.store.commit(made, (commit,), message, who)

    # 4 Checks

    def verify(
        self,
        terms: LandingTerms,
        tip: str,
        members: Sequence[LandingMember],
        candidate: LandingCandidate,
        flaky: list[str],
    ) -> list[LandingFault]:
        """Return the faults of a red candidate: of the culprit, or of every member if no member can be blamed."""
        red = self.find_red(terms, members, candidate.commit, flaky)
        if red is None:
            return []
        what = describe_red(red)
        # The checks of the settings hold for the target too: where it is red by itself, no member is at fault.
        if red.command in terms.checks and self.find_red(terms, (), tip, flaky) is not None:
            why = f"{terms.target} is red without any of them: {what}"
            return [LandingFault(member.intent, "red_target", why) for member in members]
        by_name = {member.intent: member for member in members}
        known: dict[tuple[str, ...], bool] = {tuple(by_name): False}

        def is_green(some: Sequence[str]) -> bool:
            key = tuple(some)
            if key not in known:
                chosen = [by_name[name] for name in some]
                built = self.build(terms, tip, chosen)
                known[key] = not built.faults and self.find_red(terms, chosen, built.commit, flaky) is None
            return known[key]

        names = list(by_name)
        intent, partner = self.find_culprit(names, is_green) if len(names) > 1 else (*names, "")
        claimed = [*names[: names.index(partner) + 1], intent] if partner else [intent]
        # Every part was green: only a second look at the whole tells a pair that fails from a check that tosses a coin.
        if len(names) > 1 and claimed == names and self.find_red(terms, members, candidate.commit, flaky) is None:
            why = f"it is red and green for the same files, so no intent can be named: {what}"
            return [LandingFault(name, "flaky", why) for name in names]
        with_whom = f" together with {partner}" if partner else ""
        why = f"`{sanitise_line(red.command, 200)}` fails{with_whom}:\n{red.output}"
        return [LandingFault(intent, "red", why, partner=partner)]

    def check(self, tree: Workspace, command: str) -> CheckResult:
        self.results.append(done := self.run_check(tree, command))
        return done

    def find_red(
        self, terms: LandingTerms, members: Sequence[LandingMember], commit: str, flaky: list[str]
    ) -> CheckResult | None:
        """Return the first check that is red twice; a check that is green when repeated is noted as flaky. A check
        ended by its time limit is not repeated.
        """
        commands = terms.checks or dict.fromkeys(check for member in members for check in member.checks)
        for command in commands:
            done = self.check(self.trees.prepare_for_verification(commit), command)
            if not done.is_green:
                again = done if done.is_late else self.check(self.trees.prepare_for_verification(commit), command)
                if not again.is_green:
                    return again
                flaky += [command] if command not in flaky else []
        return None

    # 5 The target

    def move_target(self, terms: LandingTerms, new: str, old: str) -> None:
        """Move the target from `old` to `new`, at the remote first. Raises RefMoved, RefCheckedOut, RemoteAway,
        RemoteRefused.
        """
        if terms.remote:
            self.store.refuse_checked_out(terms.ref)
            far = TreeStore(self.context.workspace, terms.limit_s)
            far.push_ref(terms.remote, terms.ref, new, terms.remote_tip or old)
        self.store.swap_ref(terms.ref, new, old)
        with suppress(GitError):  # the target holds the commits now
            self.store.git.run("update-ref", "-d", f"{CANDIDATE_REFS}{terms.target}")

    def find_landed(self, target: str, members: Iterable[LandingMember]) -> tuple[str | None, dict[str, str]]:
        """Return the target's commit, None without one, and the commit of each member already in the target."""
        tip, landed = read_landed_attempts(self.store, target)
        return tip, {member.intent: landed[member.name] for member in members if member.name in landed}

    # 6 Records and notes

    def record(self, terms: LandingTerms, result: TrainResult, members: Sequence[LandingMember]) -> None:
        """Record each landed intent, and write the notes of the commits. A failure here does not revert the landing."""
        recorder = self.context.recorder
        bodies = [
            Body(
                event="task_landed",
                intent_id=member.intent,
                detail={
                    "attempt": member.attempt,
                    "token": member.token,
                    "commit": result.landed[member.intent],
                    "target": terms.target,
                    "old": result.old,
                    "new": result.new,
                    "form": terms.form,
                    **({"flaky": list(result.flaky)} if result.flaky else {}),
                },
            )
            for member in members
        ]
        recorder.append_or_spool([recorder.make_record(body) for body in bodies])
        write_notes(self.context, list_new_commits(self.store.git, result.old, result.new))

    def record_unrecorded(
        self, terms: LandingTerms, landed: Mapping[str, str], members: Sequence[LandingMember]
    ) -> None:
        if landed:
            self.context.recorder.take_spooled()
        for member in (member for member in members if member.intent in landed):
            commit = landed[member.intent]
            with self.context.index() as index:
                known = index.find(event="task_landed", intent_id=member.intent, limit=MAX_SEARCHED_RECORDS)
                is_recorded = any(record["metadata"][KEY].get("commit") == commit for record in known)
            if not is_recorded:
                old = self.trees.require_commit(f"{commit}^1")
                self.record(terms, TrainResult(old, commit, {member.intent: commit}), [member])


def read_landed_attempts(store: TreeStore, target: str) -> tuple[str | None, dict[str, str]]:
    """Return the target's commit, None without one, and the commit of each attempt that landed in its history, undone
    ones too, by the trailers of the lander's commits.
    """
    words = (
        *("log", "--first-parent", f"--max-count={MAX_SEARCHED_COMMITS}"),
        *(f"--format=%H %ce %(trailers:key={ATTEMPT_TRAILER},valueonly,separator=%x20)", target, "--"),
    )
    try:
        out = store.git.text(*words)
    except GitError as error:
        if error.code != GIT_FATAL_EXIT_CODE or store.find_commit(target) is not None:
            raise
        return None, {}
    rows = [line.split() for line in out.splitlines()]
    return rows[0][0], {row[2]: row[0] for row in rows if len(row) == 3 and row[1] == LANDER[1]}


def list_blobs(changes: Iterable[ChangedEntry]) -> Iterable[str]:
    return (blob for change in changes for blob in (change.old_blob, change.new_blob))


def read_author(name: str, commit: bytes) -> Identity:
    """Return the author of a commit object. Raises GitError."""
    found = AUTHOR_LINE.search(commit.partition(b"\n\n")[0])
    if found is None:
        raise GitError(("cat-file", name), None, "the commit has no author with a time")
    author, email, at = (part.decode("utf-8", "replace") for part in found.groups())
    return Identity(author, email, int(at))


def describe_red(red: CheckResult) -> str:
    return f"`{sanitise_line(red.command, 200)}` fails:\n{red.output}"


def read_made_file(root: Path, path: str) -> bytes | None:
    """Return the content of a file made by a command; None for a deleted file. Raises OSError unless the path is a
    regular file inside the work tree.
    """
    place = root / path
    if not place.parent.resolve().is_relative_to(root):
        raise OSError(f"{path!r} is reached by a link that leads out of the work tree")
    return read_regular_file(place, MAX_COMMON_BYTES) if os.path.lexists(place) else None


def list_new_commits(git: Git, old: str, new: str) -> list[str]:
    return git.text("rev-list", "--reverse", new, f"^{old}").split()


def write_notes(context: WorkspaceContext, commits: Iterable[str]) -> None:
    """Write the notes of commits, as after a commit in a work tree; a failure leaves them to the next writer."""
    from remit.provenance.blame.blame import Blamer
    from remit.provenance.notes.note_writer import NoteWriter
    from remit.workspace.sharing.shared_refs import NotesBusy

    with suppress(NotesBusy, *RECORDING_ERRORS), context.index() as index:
        NoteWriter(Blamer(context.workspace, index, context.contents)).write(commits)
