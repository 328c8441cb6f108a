"""What a person mends: intents files that git could not merge, intents that were closed too early, and intents that
turned out to be one piece of work, of which one takes the others over.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import sha256
from remit.core.intent import FINAL_STATUSES, INTENTS_FOLDER, Intent, IntentsDocument, identify
from remit.core.intents.life import LifeRecord, fingerprint
from remit.core.intents.merge import absorb_intents, find_narrowed
from remit.core.intents.validation import PlacedIntent, validate_intents
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.governing.lives import read_life
from remit.gate.intents.bindings import Bindings
from remit.gate.intents.history import describe_differences
from remit.gate.intents.identity import list_worktrees, pick_id
from remit.gate.intents.intents import Intents, redact_statement
from remit.gate.intents.person_edits import PERSON
from remit.gate.intents.refusals import IntentError
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import current_branch, head_commit
from remit.workspace.intents_file import resolve
from remit.workspace.intents_file.edit import name_intent_file, render_intent_file
from remit.workspace.intents_file.parse import find_conflict, parse_intents, parse_single_intent
from remit.workspace.intents_file.storage import VIEW_MARK, list_intent_files
from remit.workspace.place.assignment_file import read_assignment
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, workspace_at
from remit.workspace.safe_files import remove_below

STAGES = (1, 2, 3)
"""Numbers in git's index of the last common version, ours and theirs. Source: git-ls-files(1) of git 2.39."""


class MendedFile(Struct, frozen=True):
    """A file that was merged: its path from the workspace's root, our side's text and the merged one, and remarks. An
    obsolete list was removed instead: what it said stands in the files of intents.
    """

    path: str
    ours: str
    text: str
    remarks: tuple[str, ...] = ()
    is_obsolete: bool = False


def resolve_conflicts(intents: Intents) -> list[MendedFile]:
    """Merge by meaning what git left unmerged of the intents, and write it; git's index stays for the person to add.

    Raises IntentError, EditRefused, GitError, OSError.
    """
    workspace = intents.workspace
    if workspace.common_dir is None:
        raise IntentError("this folder has no git, so nothing was merged here")
    git = Git(workspace.root)
    mended: list[MendedFile] = []
    for path, stages in read_stages(git).items():
        file = workspace.root / path
        is_list = file == workspace.intents_path
        if not is_list and not (
            path.startswith(f"{ORCHESTRATION_FOLDER}/{INTENTS_FOLDER}/") and path.endswith(".yaml")
        ):
            continue
        base, ours, theirs = (git.run("cat-file", "blob", stages[n]).decode() if n in stages else "" for n in STAGES)
        if is_list:
            base, ours, theirs = map(omit_view, (base, ours, theirs))
        if is_list and intents.document.files and not (ours and theirs):
            remarks = follow_migration(intents, base, ours or theirs)
            remove_below(workspace.root, file)
            mended.append(MendedFile(path, ours, "", remarks, is_obsolete=True))
            continue
        if not ours or not theirs:
            merged = resolve.Resolution(ours or theirs, (describe_deletion(path, is_list=is_list, ours=bool(ours)),))
        elif is_list:
            merged = resolve.merge_intent_lists(base, ours, theirs, now=intents.format_now())
        else:
            merged = resolve.merge_intent_files(base, ours, theirs)
        found = file.read_bytes() if file.is_file() else None
        intents.write_text(file, merged.text, None if found is None else sha256(found))
        mended.append(MendedFile(path, ours, merged.text, merged.remarks))
    mended += join_doubled_files(intents)
    if mended:
        intents.context.record_intent_changes(intents.rules, by=PERSON)
    elif any(finding.code == "CONFLICT_MARKERS" for finding in intents.document.errors):
        raise IntentError(
            "git does not know both sides of the markers any more; bring them back with `git checkout -m -- FILE`, or "
            "mend the file by hand"
        )
    return mended


def join_doubled_files(intents: Intents) -> Iterator[MendedFile]:
    """Merge what git put twice into the file of an intent without a conflict. Raises EditRefused, OSError."""
    names = {finding.file for finding in intents.document.errors if finding.file.startswith(f"{INTENTS_FOLDER}/")}
    for name in sorted(names):
        file = intents.workspace.folder / name
        found, text = file.read_bytes(), ""
        with suppress(UnicodeDecodeError):
            text = found.decode()
        merged = None if find_conflict(found) else resolve.join_doubled_fields(text)
        if merged is not None:
            intents.write_text(file, merged.text, sha256(found))
            yield MendedFile(f"{ORCHESTRATION_FOLDER}/{name}", text, merged.text, merged.remarks)


def omit_view(text: str) -> str:
    """Return the text of a list, none for a view: somebody committed it, and it declares nothing."""
    return "" if text.startswith(VIEW_MARK.decode()) else text


def describe_deletion(path: str, *, is_list: bool, ours: bool) -> str:
    who, other = ("theirs", "ours") if ours else ("ours", "theirs")
    what = "the list" if is_list else path.rpartition("/")[2]
    return f"{who} deleted {what}, {other} changed it; it was kept"


def follow_migration(intents: Intents, base: str, changed: str) -> tuple[str, ...]:
    old = {intent.id: intent for intent in resolve.read_side("base", base).intents}
    remarks = ["each intent has a file of its own now; what the list changed went there"]
    for intent in resolve.read_side("the list", changed).intents:
        before = old.get(intent.id)
        if before is not None and replace(before, updated_at=None) == replace(intent, updated_at=None):
            continue
        name = intents.document.files.get(intent.id)
        if name is None:
            text = render_intent_file(replace(intent, updated_at=None))
            intents.write_text(intents.workspace.folder / INTENTS_FOLDER / name_intent_file(intent), text, None)
            continue
        path = intents.workspace.folder / name
        text = path.read_bytes().decode()
        [own] = resolve.read_side(name, text).intents
        text, told = resolve.apply_merge(text, before, own, replace(intent, updated_at=own.updated_at), now=None)
        intents.write_text(path, text, sha256(path.read_bytes()))
        remarks += told
    return tuple(remarks)


def renumber_intent(intents: Intents, intent_id: str, file: str | None = None) -> tuple[str, str]:
    """Give one of two intents with an id a new one: the younger, or the one in `file`. Return its name and the new id.

    Raises IntentError, EditRefused, OSError.
    """
    folder, chosen = intents.workspace.folder, list[tuple[Path, Intent]]()
    for name in list_intent_files(folder):
        placed, _ = parse_single_intent((folder / name).read_bytes())
        if placed is not None and placed.intent.id == intent_id:
            chosen.append((folder / name, placed.intent))
    if file is not None:
        chosen = [(path, intent) for path, intent in chosen if path.name == file.rpartition("/")[2]]
        if not chosen:
            raise IntentError(
                f"no file {file!r} of {intent_id} is in {INTENTS_FOLDER}/; `remit intent lint` names them"
            )
    new = pick_id(intents.context)
    if chosen:
        path, _ = max(chosen, key=lambda each: resolve.age_key(each[1]))
    elif intents.workspace.intents_path.is_file():
        path = intents.workspace.intents_path
    else:
        raise IntentError(f"no file declares {intent_id}; see `remit intent list`")
    content = path.read_bytes()
    text = resolve.change_id(
        content.decode(),
        intent_id,
        new,
        lambda found: max(enumerate(map(resolve.age_key, found)), key=itemgetter(1))[0],
    )
    intents.write_text(path, text, sha256(content))
    renamed = next(i for i in parse_intents(text.encode()).intents if i.id == new)
    detail = {"uid": identify(renamed), "from": intent_id, "to": new, "by": PERSON}
    intents.recorder.append([intents.make_record("intent_renumbered", new, None, detail)])
    intents.context.record_intent_changes(intents.rules, by=PERSON)
    return renamed.title, new


def read_stages(git: Git) -> Mapping[str, Mapping[int, str]]:
    found: dict[str, dict[int, str]] = {}
    for path, stage, blob in parse_stages(os.fsdecode(git.run("ls-files", "-u", "-z", "--", ORCHESTRATION_FOLDER))):
        found.setdefault(path, {})[stage] = blob
    return found


def parse_stages(output: str) -> Iterator[tuple[str, int, str]]:
    for line in filter(None, output.split("\0")):
        entry, _, path = line.partition("\t")
        _, blob, stage = entry.split(" ")
        yield path, int(stage), blob


def reopen_intent(intents: Intents, intent_id: str, reason: str, *, here: bool = False) -> Intent:
    """Revoke the end of an intent, which is no step of its life. `here` is needed for an end on another branch.

    Raises IntentError, EditRefused.
    """
    intent = intents.get(intent_id)
    rules = intents.rules
    if intent.status not in FINAL_STATUSES:
        raise IntentError(f"{intent_id} is {intent.status}; only a closed intent can be reopened")
    found = rules.life.get(intent_id)
    if found is not None and found.origin == "elsewhere" and not here:
        raise IntentError(f"{intent_id} is {intent.status} {found.said}; `--here` reopens it in this checkout alone")
    with intents.context.index() as index:
        ends = index.find(event="intent_transition", intent_id=intent_id, limit=1)
    written = next((i for i in (rules.written or IntentsDocument()).intents if i.id == intent_id), intent)
    known = read_life(intents.workspace).get(identify(intent))
    detail = {
        "cancels": ends[0].get("id") if ends else None,
        "from": intent.status,
        "reason": redact_statement(reason),
        "by": PERSON,
    }
    if written.status in FINAL_STATUSES:
        intents.write_status(intent, "DRAFT", None)
    record = LifeRecord(
        intent_id,
        "IN_PROGRESS",
        intents.format_now(),
        PERSON,
        str(intents.workspace.root),
        current_branch(intents.workspace) or "",
        head_commit(intents.workspace),
        # A file with exactly these words, from an older checkout for example, counts as open, too.
        reopened=tuple(dict.fromkeys((*(known.reopened if known else ()), fingerprint(written)))),
    )
    intents.record_life(intent, record, detail, event="intent_reopened")
    intents.context.record_intent_changes(intents.rules, by=PERSON)
    return intents.get(intent_id)


class IntentMerge(Struct, frozen=True):
    """A merge of intents: the one that stays, those that end, each change as a line, by intent, and remarks."""

    into: str
    merged: tuple[str, ...]
    changes: dict[str, list[str]]
    remarks: tuple[str, ...] = ()


def merge_into(context: WorkspaceContext, into: str, merged: Sequence[str], *, dry_run: bool = False) -> IntentMerge:
    """Let one intent take others over, which become ABORTED; who named one of them names it. All is looked at before
    anything is written, and what a crash leaves undone, the same call does.

    Raises IntentError, EditRefused, OSError.
    """
    intents = Intents(context)
    kept, others = require_mergeable(context, intents, into, merged)
    known = intents.document.intents
    changes = absorb_intents(kept, others, known)
    require_sound(intents, known, changes)
    by_id = {intent.id: intent for intent in known}
    lines = {
        name: list(describe_differences(by_id[name], replace(by_id[name], **new))) for name, new in changes.items()
    }
    reason = f"merged into {into}"
    lines |= {other.id: [f"status {other.status} → ABORTED: {reason}"] for other in others}
    narrowed = find_narrowed(changes.get(into, {}).get("owned_scope", kept.owned_scope), (kept, *others))
    remark = f"the exclusions of the others may take paths of {', '.join(narrowed)} away: look at the scope of {into}"
    made = IntentMerge(into, tuple(other.id for other in others), lines, (remark,) if narrowed else ())
    if dry_run:
        return made
    for name, new in changes.items():
        intents.edit(name, new, by=PERSON)
    for other in others:
        intents.set_status(other.id, "ABORTED", by=PERSON, notes=reason, reason=reason)
    return made


def require_mergeable(
    context: WorkspaceContext, intents: Intents, into: str, merged: Sequence[str]
) -> tuple[Intent, list[Intent]]:
    """Return the intent that stays and those that end. Raises IntentError for one that cannot be merged."""
    names = (into, *merged)
    for name in names:
        if names.count(name) > 1:
            raise IntentError(f"{sanitise_line(name, 60)} is named twice; name each intent once")
        if broken := intents.describe_broken_file(name):
            raise IntentError(f"{sanitise_line(name, 60)} cannot be merged: {broken}")
        intent = intents.get(name)
        if intent.status in FINAL_STATUSES:
            cure = f"leave it out, or `remit intent reopen {name}` first"
            raise IntentError(f"{name} is {intent.status} and cannot be merged; {cure}")
    for name, holder, cure in list_holders(context):
        if name in merged:
            raise IntentError(f"{name} cannot end by a merge: {holder}; {cure}")
    return intents.get(into), [intents.get(name) for name in merged]


def list_holders(context: WorkspaceContext) -> Iterator[tuple[str, str, str]]:
    """Yield the intents that a person or a plan holds work to, by what, and how to end that. Raises StateError."""
    for bound in Bindings(context.state).list_all():
        option = {"worktree": "--worktree", "terminal": "--terminal"}.get(bound.kind, f"--{bound.kind} {bound.name}")
        place = "this work tree" if bound.kind == "worktree" else f"{bound.kind} {sanitise_line(bound.name, 80)}"
        if bound.intent_id:
            yield bound.intent_id, f"it is bound to {place}", f"run `remit intent unbind {sanitise_line(option, 100)}`"
    if context.workspace.common_dir is None:
        return
    with suppress(GitError):
        for root in list_worktrees(context.workspace.root):
            held = read_assignment(workspace_at(root, root))
            if held is not None and held.terms is not None:
                name = held.terms.intent
                yield name, "a plan works on it", f"run `remit task drop {name}`, or wait until it has landed"


def require_sound(intents: Intents, known: Iterable[Intent], changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise IntentError where a changed intent cannot be written, or intents would then wait for each other."""
    for name in changes:
        if broken := intents.describe_broken_file(name):
            raise IntentError(f"{name} names one of them, and cannot be read: {broken}")
    after = [PlacedIntent(replace(one, **changes.get(one.id, {})), {}) for one in known]
    ids = {one.intent.id for one in after}
    before = {f.message for f in validate_intents([PlacedIntent(one, {}) for one in known], ids)}
    for finding in validate_intents(after, ids):
        if finding.code in ("CIRCULAR_DEPENDENCY", "INVALID_PARENT") and finding.message not in before:
            cure = "take one of these away first: `remit intent edit ID --needs …` or `--parent …`"
            raise IntentError(f"after this merge {finding.message}; {cure}")
