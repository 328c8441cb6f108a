"""Landing and undoing in a person's own process: at once, and with the work tree that has the target checked out.

A worker never moves a branch under a person. For a person's request, the tree follows the target, as far as git can
update the tree without touching an uncommitted change.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.intent import IntentsDocument
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.hooks.verify_commands import split_by_trust
from remit.workspace.git.command import GitError, execute
from remit.workspace.git.repository import prefix_in_repository
from remit.workspace.intents_file.edit import set_fields
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.intents_file.storage import EditRefused
from remit.workspace.merging import NO_COMMIT, ChangedEntry, RefCheckedOut, RefMoved
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER
from remit.workspace.safe_files import write_atomically
from remit.workspace.worktrees import Worktrees
from remit_fleet.landing.land import Lander, LandingTerms
from remit_fleet.landing.undo import LandingUndo, LandingUndone, find_landings
from remit_fleet.workers.landing_rounds import make_lander

INTENTS_NAME = "active_intents.yaml"
MAX_NAMED_FILES = 5


class TreeInTheWay(RefCheckedOut):
    """Error for a checked-out target whose tree holds uncommitted changes that git would have to overwrite."""

    def __init__(self, ref: str, place: str, files: Sequence[str]) -> None:
        super().__init__(ref, place)
        named = ", ".join(sanitise_line(path, 200) for path in files[:MAX_NAMED_FILES]) or "uncommitted changes"
        self.hint = f"in the way: {named}; commit or stash it there, then `remit plan land`"


class PersonalLander(Lander):
    """Lander that also updates the work tree with the target checked out."""

    def move_target(self, terms: LandingTerms, new: str, old: str) -> None:
        """Move the target, and its checked-out work tree. Raises RefCheckedOut, TreeInTheWay, RefMoved."""
        place = self.store.find_checkout(terms.ref)
        if place is None or old == NO_COMMIT:
            super().move_target(terms, new, old)
            return
        if terms.remote:
            # Tree and remote cannot be moved as one: a failure between them would leave two states of the target.
            refused = RefCheckedOut(terms.ref, place)
            refused.hint = "check out another branch there, then `remit plan land`"
            raise refused
        if self.store.find_commit(terms.ref) != old:
            raise RefMoved(terms.ref, old)
        own = IntentsFileOfTree(self, Path(place), old, new)
        own.set_aside()
        try:
            forward_tree(terms.ref, Path(place), new)
        except (RefCheckedOut, GitError, OSError):
            own.put_back()
            raise
        own.bring_back()


class PreviewLander(Lander):
    """Lander that moves no ref, and keeps the target's would-be commit."""

    made = ""

    def move_target(self, terms: LandingTerms, new: str, old: str) -> None:
        self.made = new
        raise RefMoved(terms.ref, old)


class IntentsFileOfTree:
    """Intents file of an updated work tree, changed both by the fleet in the tree and by the landing."""

    def __init__(self, lander: Lander, place: Path, old: str, new: str) -> None:
        path = f"{prefix_in_repository(lander.context.workspace)}{ORCHESTRATION_FOLDER}/{INTENTS_NAME}"
        self.path = place / path
        self.copy = lander.context.workspace.state / f"before-landing.{INTENTS_NAME}"
        """Where it is kept, in case this process dies before it is back."""
        self.before = lander.store.read_files(old, [path]).get(path)
        self.after = lander.store.read_files(new, [path]).get(path)
        self.found = self.path.read_bytes() if self.path.is_file() and not self.path.is_symlink() else None

    @property
    def must_move(self) -> bool:
        """Return whether git would refuse to update the tree because of this file."""
        return None not in (self.before, self.after, self.found) and self.found != self.before != self.after

    def set_aside(self) -> None:
        if self.must_move and self.before is not None and self.found is not None:
            write_atomically(self.copy, self.found, 0o600)
            write_atomically(self.path, self.before, 0o644)

    def put_back(self) -> None:
        if self.must_move and self.found is not None:
            write_atomically(self.path, self.found, 0o644)
            self.copy.unlink(missing_ok=True)

    def bring_back(self) -> None:
        """Write the file of the person and the fleet back, with the statuses changed by the landing."""
        if not self.must_move or self.before is None or self.after is None or self.found is None:
            return
        before, after = parse_intents(self.before), parse_intents(self.after)
        text = self.found.decode("utf-8", "replace")
        for intent in after.intents:
            known = next((other for other in before.intents if other.id == intent.id), None)
            if known is not None and known.status != intent.status:
                with suppress(EditRefused):
                    text = set_fields(text, intent.id, {"status": intent.status}, now=intent.updated_at or "")
        written = text.encode("utf-8")
        is_same = describe_intents(parse_intents(written)) == describe_intents(after)
        write_atomically(self.path, self.after if is_same else written, 0o644)
        self.copy.unlink(missing_ok=True)


def describe_intents(document: IntentsDocument) -> list[object]:
    return [[getattr(i, name) for name in i.__struct_fields__ if name != "updated_at"] for i in document.intents]


def forward_tree(ref: str, place: Path, new: str) -> None:
    """Fast-forward a work tree to a commit of its branch, as its person would. Raises TreeInTheWay, GitError."""
    arguments = ("merge", "--ff-only", "--quiet", new)
    done = execute(("git", "-C", str(place), *arguments), arguments, b"", place)
    if done.code:
        named = [line.strip() for line in done.errors.splitlines() if line.startswith("\t")]
        if named:
            raise TreeInTheWay(ref, str(place), named)
        raise GitError(arguments, done.code, done.errors)


# Undoing


class UndoPreview(Struct, frozen=True):
    """Preview of an undo: the undone intents, the changed files, or the reason of a refusal."""

    undone: LandingUndone
    changes: tuple[ChangedEntry, ...] = ()


def preview_undo(
    gate: Gate, trees: Worktrees, target: str, intent: str, *, with_dependants: bool = False
) -> UndoPreview:
    """Build the undo in the object store without moving a ref. The criteria of the remaining intents are not run."""
    lander = make_lander(gate, trees, PreviewLander)
    assert isinstance(lander, PreviewLander)
    undo = LandingUndo(lander)
    dependants = list_dependants(gate.intents.document, intent)
    made = undo.undo(make_terms(gate, target), intent, dependants, with_dependants=with_dependants)
    if not lander.made:
        return UndoPreview(made)
    needing = tuple(name for name in find_landings(undo.store, made.old) if name in dependants)
    return UndoPreview(replace(made, dependants=needing), undo.store.list_changes(made.old, lander.made))


def undo_landing(
    gate: Gate, trees: Worktrees, target: str, intent: str, *, with_dependants: bool = False
) -> LandingUndone:
    """Revert an intent on the target if `[verify] landing` passes afterwards; without `[verify] landing`, if the
    trusted criteria of the remaining intents pass. Raises RefCheckedOut.
    """
    undo = LandingUndo(make_lander(gate, trees, PersonalLander))
    dependants = list_dependants(gate.intents.document, intent)
    tip = undo.store.find_commit(LandingTerms(target).ref)
    going = {intent, *(dependants if with_dependants else ())}
    staying = [name for name in (find_landings(undo.store, tip) if tip else ()) if name not in going]
    return undo.undo(
        make_terms(gate, target),
        intent,
        dependants,
        with_dependants=with_dependants,
        checks=tuple(dict.fromkeys(list_checks(gate, staying))),
    )


def list_dependants(document: IntentsDocument, intent: str) -> tuple[str, ...]:
    found: dict[str, None] = {intent: None}
    pending = [intent]
    while pending:
        need = pending.pop()
        parent = next((i.parent_intent for i in document.intents if i.id == need), None)
        for other in document.intents:
            if (need in other.dependencies or other.id == parent) and other.id not in found:
                found[other.id] = None
                pending.append(other.id)
    return tuple(name for name in found if name != intent)


def make_terms(gate: Gate, target: str) -> LandingTerms:
    settings = gate.rules.config.orchestrator
    return LandingTerms(target, settings.form, settings.remote)


def list_checks(gate: Gate, names: Iterable[str]) -> Iterable[str]:
    verify = gate.rules.config.verify
    if verify.landing:
        trusted = gate.trusted_digests()
        yield from verify.landing if all(item.digest in trusted for item in verify.landing_items) else ()
        return
    for name in names:
        intent = gate.intents.find_intent(name)
        if intent is not None:
            yield from split_by_trust(gate, intent)[0]
