"""Merging of intents files by meaning, where git stopped: text in, text out, with each byte outside a change kept."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from remit.core.intent import Intent, IntentsDocument
from remit.core.intents.merge import merge_intents
from remit.core.untrusted_input import sanitise_line
from remit.workspace.intents_file.edit import FieldValue, add_intent, next_id, remove_intent, set_fields
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.intents_file.storage import EditRefused


class Resolution(Struct, frozen=True):
    """A merged file, and what a person should know of it."""

    text: str
    remarks: tuple[str, ...] = ()


def merge_intent_lists(base: str, ours: str, theirs: str, *, now: str) -> Resolution:
    """Merge two versions of a list of intents; `base` is their last common version, empty if both sides made the file.

    Two intents of one id, each made by one side, both stay: the younger gets the next free id. Raises EditRefused if a
    side cannot be read.
    """
    sides = {name: read_side(name, text) for name, text in (("base", base), ("ours", ours), ("theirs", theirs))}
    old, mine, other = ({i.id: i for i in document.intents} for document in sides.values())
    text, remarks = ours, list[str]()
    renamed: dict[str, str] = {}
    for intent_id in other.keys() & mine.keys() - old.keys():
        if (mine[intent_id].created_at, mine[intent_id].name) == (other[intent_id].created_at, other[intent_id].name):
            # One intent that came to both sides, by a cherry-pick for example.
            continue
        used = (*sides["ours"].intents, *sides["theirs"].intents, *(Intent(i, ()) for i in renamed.values()))
        new = next_id(IntentsDocument(used), intent_id.rpartition("-")[0])
        renamed[intent_id] = new
        if is_younger(mine[intent_id], other[intent_id]):
            # Ours gets the new id, and with it all that ours alone says of it.
            text = rename_intent(text, intent_id, new, now=now)
            mine = {i.id: i for i in parse_intents(text.encode()).intents}
        else:
            other = rename_in(other, old, intent_id, new)
        younger = mine[new] if new in mine else other[new]
        remarks.append(f"{intent_id} was made twice: {sanitise_line(younger.title, 80)!r} is {new} now")
    for intent in other.values():
        own, before = mine.get(intent.id), old.get(intent.id)
        if own is not None:
            merged = merge_intents(before, own, intent)
            changes = {name: value for name, value in fields_of(merged.intent).items() if value != fields_of(own)[name]}
            if changes.keys() - {"updated_at"}:
                text = set_fields(text, intent.id, changes, now=now)
            remarks += [f"{intent.id}: both sides changed {name}; ours was kept" for name in merged.kept_ours]
        elif before is None:
            text = add_intent(text, intent, now=intent.updated_at or now)
        elif replace(intent, updated_at=None) != replace(before, updated_at=None):
            text = add_intent(text, intent, now=intent.updated_at or now)
            remarks.append(f"{intent.id}: ours deleted it, theirs changed it; it was kept")
    for intent_id, before in old.items():
        if intent_id in mine and intent_id not in other:
            if replace(mine[intent_id], updated_at=None) == replace(before, updated_at=None):
                text = remove_intent(text, intent_id)
            else:
                remarks.append(f"{intent_id}: theirs deleted it, ours changed it; it was kept")
    return Resolution(text, tuple(remarks))


def read_side(name: str, text: str) -> IntentsDocument:
    document = parse_intents(text.encode()) if text else IntentsDocument()
    if document.errors:
        first = document.errors[0]
        raise EditRefused(f"{name} (line {first.line}) cannot be read: {first.message}; mend it by hand")
    return document


def is_younger(one: Intent, other: Intent) -> bool:
    """Return whether `one` was made after `other`; the same answer on every machine."""
    return (one.created_at or "", one.name, one.owned_scope) > (other.created_at or "", other.name, other.owned_scope)


def rename_intent(text: str, intent_id: str, new: str, *, now: str) -> str:
    """Give an intent a new id, also where others of the text name it as a dependency or parent."""
    document = parse_intents(text.encode())
    renamed = rename_in({i.id: i for i in document.intents}, {}, intent_id, new)
    # First the new one: at no step may a dependency lead nowhere.
    text = add_intent(text, renamed.pop(new), now=now)
    for intent in renamed.values():
        if intent not in document.intents:
            changes: dict[str, FieldValue] = {
                "dependencies": intent.dependencies,
                "parent_intent": intent.parent_intent,
            }
            text = set_fields(text, intent.id, changes, now=now)
    return remove_intent(text, intent_id)


def rename_in(intents: Mapping[str, Intent], unchanged: Mapping[str, Intent], old: str, new: str) -> dict[str, Intent]:
    """Return the intents with a new id for `old`, except in those that are as in `unchanged`: they mean another."""
    renamed: dict[str, Intent] = {}
    for intent in intents.values():
        if unchanged.get(intent.id) != intent:
            intent = replace(
                intent,
                id=new if intent.id == old else intent.id,
                dependencies=tuple(new if name == old else name for name in intent.dependencies),
                parent_intent=new if intent.parent_intent == old else intent.parent_intent,
            )
        renamed[intent.id] = intent
    return renamed


def fields_of(intent: Intent) -> dict[str, FieldValue]:
    return {name: getattr(intent, name) for name in Intent.__struct_fields__ if name != "id"}
