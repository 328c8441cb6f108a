"""Undo of a landing: an intent's landed changes are reverted on the target, in the object store, and checked."""

import time
from collections.abc import Sequence

from msgspec import Struct

from remit.core.record import Body
from remit.workspace.git.repository import prefix_in_repository
from remit.workspace.intents_file.committed import (
    change_committed_status,
    read_committed_files,
    read_committed_intents,
)
from remit.workspace.merging import Identity, RefMoved, TreeStore
from remit_fleet.landing import land
from remit_fleet.landing.merge_rules import LandingFault

UNDONE_TRAILER = "Remit-Undone"


class LandingUndone(Struct, frozen=True):
    """Result of an undo: the target before and after; `fault` is the reason of a refused undo. `dependants` are landed
    intents that need the undone work.
    """

    old: str
    new: str
    undone: tuple[str, ...] = ()
    fault: LandingFault | None = None
    dependants: tuple[str, ...] = ()
    target_moved: bool = False


class LandingUndo:
    """Undoing in one repository, with the store and checks of its lander. Methods raise RECORDING_ERRORS."""

    def __init__(self, lander: land.Lander) -> None:
        self.lander = lander
        self.store = lander.store

    def undo(
        self,
        terms: land.LandingTerms,
        intent: str,
        dependants: Sequence[str] = (),
        *,
        with_dependants: bool = False,
        checks: Sequence[str] = (),
    ) -> LandingUndone:
        """Revert an intent on the target; `checks` are the criteria of the remaining intents.

        `dependants` are the intents that need the undone intent, directly or transitively. A landed dependant refuses
        the undo, unless `with_dependants` reverts the dependants first, newest first.
        """
        tip = self.store.find_commit(terms.ref)
        if tip is None:
            return LandingUndone("", "", fault=LandingFault(intent, "unknown", f"there is no {terms.target}"))
        landed = find_landings(self.store, tip)
        needing = tuple(name for name in landed if name in set(dependants) and name != intent)
        if intent not in landed:
            return LandingUndone(tip, tip, fault=LandingFault(intent, "unknown", f"{terms.target} holds nothing of it"))
        if needing and not with_dependants:
            why = f"{', '.join(needing)} landed after it and need it"
            return LandingUndone(tip, tip, fault=LandingFault(intent, "conflict", why), dependants=needing)
        gone = [name for name in landed if name == intent or name in needing]  # the newest first
        at = tip
        for name in gone:
            made = self.revert(at, name, landed[name])
            if isinstance(made, LandingFault):
                return LandingUndone(tip, tip, fault=made, dependants=needing)
            at = made
        red = self.lander.find_red(land.LandingTerms(checks=tuple(checks)), (), at, []) if checks else None
        if red is not None:
            why = f"without it `{red.command}` fails:\n{red.output}"
            return LandingUndone(tip, tip, fault=LandingFault(intent, "red", why), dependants=needing)
        try:
            self.lander.move_target(terms, at, tip)
        except RefMoved:
            return LandingUndone(tip, tip, target_moved=True)
        self.record(terms, tip, at, gone)
        return LandingUndone(tip, at, tuple(gone), dependants=needing)

    def revert(self, tip: str, intent: str, commit: str) -> str | LandingFault:
        """Return the commit that reverts a landing on the tip, or the fault naming the paths changed since."""
        merged = self.store.revert(commit, tip)
        reopened = self.reopen_intent(tip, intent, commit)
        conflicts = tuple(path for path in merged.conflicts if path not in reopened)
        if conflicts:
            why = f"{conflicts[0]!r} was changed since, and git cannot take {intent} out of it"
            why += f"; undo what changed it first, or take {commit[:12]} out by hand with `git revert`"
            return LandingFault(intent, "conflict", why, conflicts)
        tree = self.store.replace_files(merged.tree, reopened) if merged.conflicts else merged.tree
        who = Identity(*land.LANDER, int(self.lander.context.environment.clock.now()))
        message = f"Undo {intent}\n\n{land.INTENT_TRAILER}: {intent}\n{UNDONE_TRAILER}: {commit}\n"
        return self.store.commit(tree, (tip,), message, who)

    def reopen_intent(self, tip: str, intent: str, commit: str) -> dict[str, bytes]:
        """Return the tip's file of the intent with the status it had before its landing; empty without one.

        Entries beside it may have come since, and git would take them for a conflict.
        """
        git, prefix = self.store.git, prefix_in_repository(self.lander.context.workspace)
        known = read_committed_intents(git, f"{commit}^1", prefix).get(intent)
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.lander.context.environment.clock.now()))
        now = read_committed_files(git, tip, prefix)
        return change_committed_status(now, intent, known.status, moment) if known else {}

    def record(self, terms: land.LandingTerms, old: str, new: str, gone: Sequence[str]) -> None:
        recorder = self.lander.context.recorder
        detail = {"target": terms.target, "old": old, "new": new, "undone": True}
        bodies = [Body(event="task_landed", intent_id=name, detail=detail) for name in gone]
        recorder.append_or_spool([recorder.make_record(body) for body in bodies])
        land.write_notes(self.lander.context, land.list_new_commits(self.store.git, old, new))


def find_landings(store: TreeStore, tip: str) -> dict[str, str]:
    """Return the commit of each intent in the target, newest first, without undone intents."""
    return read_landings(store, tip)[0]


def read_landings(store: TreeStore, tip: str) -> tuple[dict[str, str], dict[str, float]]:
    """Return the commit of each intent in the target, newest first, and when each of the others was undone."""
    out = store.git.text(
        *("log", "--first-parent", f"--max-count={land.MAX_SEARCHED_COMMITS}", f"--committer={land.LANDER[1]}"),
        f"--format=%H %ct %(trailers:key={land.INTENT_TRAILER},valueonly,separator=%x20)"
        f" %(trailers:key={UNDONE_TRAILER},valueonly,separator=%x20)",
        tip,
    )
    found: dict[str, str] = {}
    gone: dict[str, float] = {}
    undone: set[str] = set()
    for row in (line.split() for line in out.splitlines()):
        if len(row) == 4:
            undone.add(row[3])
            gone.setdefault(row[2], float(row[1]))
        elif len(row) == 3 and row[0] not in undone:
            found.setdefault(row[2], row[0])
    return found, {intent: at for intent, at in gone.items() if intent not in found}
