"""What a person mends: intents files that git could not merge, and intents that were closed too early."""

import os
from collections.abc import Iterator, Mapping

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.core.intent import FINAL_STATUSES, Intent, IntentsDocument
from remit.core.intents.life import LifeRecord, fingerprint, identify
from remit.gate.governing import put_life_record, read_life
from remit.gate.intents.intents import Intents, redact_statement
from remit.gate.intents.person_edits import PERSON
from remit.gate.intents.refusals import IntentError
from remit.workspace.git.command import Git
from remit.workspace.git.repository import current_branch, head_commit
from remit.workspace.intents_file.resolve import merge_intent_lists
from remit.workspace.intents_file.storage import write_intents
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

OURS, THEIRS = 2, 3
"""Numbers of the sides in git's index; the last common version is 1. Source: git-ls-files(1) of git 2.39."""


class MendedFile(Struct, frozen=True):
    """A file that was merged: its path from the workspace's root, our side's text and the merged one, and remarks."""

    path: str
    ours: str
    text: str
    remarks: tuple[str, ...] = ()


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
        if workspace.root / path != workspace.intents_path:
            continue
        if OURS not in stages or THEIRS not in stages:
            side = "deleted" if OURS not in stages else "kept"
            raise IntentError(f"{path} was {side} here and not there: keep one with `git rm` or `git add`")
        base, ours, theirs = (git.run("cat-file", "blob", stages[n]).decode() if n in stages else "" for n in (1, 2, 3))
        merged = merge_intent_lists(base, ours, theirs, now=intents.format_now())
        content = workspace.intents_path.read_bytes()
        lock = workspace.state / "intents.lock"
        write_intents(workspace.intents_path, merged.text, expected_sha256=sha256(content), lock=lock)
        mended.append(MendedFile(path, ours, merged.text, merged.remarks))
    if mended:
        intents.context.record_intent_changes(intents.rules, by=PERSON)
    elif any(finding.code == "CONFLICT_MARKERS" for finding in intents.document.errors):
        raise IntentError(
            "git does not know both sides of the markers any more; bring them back with `git checkout -m -- FILE`, or "
            "mend the file by hand"
        )
    return mended


def read_stages(git: Git) -> Mapping[str, Mapping[int, str]]:
    """Return the blobs of Remit's files that git has not merged, by path and stage."""
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
    intents.recorder.append([intents.make_record("intent_reopened", intent_id, None, detail)])
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
    put_life_record(intents.workspace, identify(intent), record)
    intents.context.record_intent_changes(intents.rules, by=PERSON)
    return intents.get(intent_id)
