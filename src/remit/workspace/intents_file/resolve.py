"""Merging of intents files by meaning, where git stopped: text in, text out, with each byte outside a change kept."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from remit.core.intent import Intent, IntentsDocument, identify
from remit.core.intents.merge import merge_intents
from remit.core.untrusted_input import sanitise_line
from remit.workspace.intents_file import edit
from remit.workspace.intents_file.parse import parse_intents, read_intent_node
from remit.workspace.intents_file.storage import EditRefused
from remit.workspace.intents_file.yaml_nodes import YamlMapping

TOP_FIELD = re.compile(r"^[a-z_]+(?=:)", re.MULTILINE)


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
        new = find_next_id(intent_id, {*mine, *other, *old, *renamed.values()})
        renamed[intent_id] = new
        if age_key(mine[intent_id]) > age_key(other[intent_id]):
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
            text, told = apply_merge(text, before, own, intent, now=now)
            remarks += told
        elif before is None:
            text = edit.add_intent(text, intent, now=intent.updated_at or now)
        elif replace(intent, updated_at=None) != replace(before, updated_at=None):
            text = edit.add_intent(text, intent, now=intent.updated_at or now)
            remarks.append(f"{intent.id}: ours deleted it, theirs changed it; it was kept")
    for intent_id, before in old.items():
        if intent_id in mine and intent_id not in other:
            if replace(mine[intent_id], updated_at=None) == replace(before, updated_at=None):
                text = edit.remove_intent(text, intent_id)
            else:
                remarks.append(f"{intent_id}: theirs deleted it, ours changed it; it was kept")
    return Resolution(text, tuple(remarks))


def merge_intent_files(base: str, ours: str, theirs: str) -> Resolution:
    """Merge two versions of the file of one intent; see `merge_intent_lists`. Raises EditRefused."""
    sides = [read_side(name, text).intents for name, text in (("base", base), ("ours", ours), ("theirs", theirs))]
    old, own, other = (intents[0] if intents else None for intents in sides)
    if own is None or other is None or (own.id, own.uid) != (other.id, other.uid):
        raise EditRefused("both sides have another intent in this file; save theirs under another name and keep ours")
    text, remarks = apply_merge(ours, old, own, other, now=None)
    return Resolution(text, tuple(remarks))


def join_doubled_fields(text: str) -> Resolution | None:
    """Merge the doubled fields in the file of an intent, left by git if both sides added them in different places; None
    without doubled fields. Raises EditRefused.
    """
    starts = [match.start() for match in TOP_FIELD.finditer(text)]
    fields = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    names = [field.partition(":")[0] for field in fields]
    doubled = [name for name, times in Counter(names).items() if times > 1]
    if not doubled:
        return None
    if any(names.count(name) > 2 for name in doubled):
        raise EditRefused(f"{doubled[0]} stands here more than twice; mend it by hand")
    seconds = {n for n, name in enumerate(names) if name in names[:n]}
    firsts = {names.index(name) for name in doubled}
    ours, theirs = (
        text[: starts[0]] + "".join(field for n, field in enumerate(fields) if n not in left_out)
        for left_out in (seconds, firsts)
    )
    merged = merge_intent_files("", ours, theirs)
    return Resolution(merged.text, (*(f"{name} stood here twice" for name in doubled), *merged.remarks))


def apply_merge(text: str, old: Intent | None, own: Intent, other: Intent, *, now: str | None) -> tuple[str, list[str]]:
    """Write into `text`, which has `own`, what the `other` side changed; return it and what a person should know."""
    merged = merge_intents(old, own, other)
    before, after = fields_of(own), fields_of(merged.intent)
    changes = {name: value for name, value in after.items() if value != before[name] and name != "updated_at"}
    gone = [name for name, value in changes.items() if value in (None, ()) and now is None]
    kept = {name: value for name, value in changes.items() if name not in gone}
    text = edit.drop_fields(text, own.id, gone) if gone else text
    text = edit.set_fields(text, own.id, kept, now=now) if kept else text
    return text, [f"{own.id}: both sides changed {name}; ours was kept" for name in merged.kept_ours]


def change_id(text: str, intent_id: str, new: str, choose: Callable[[Sequence[Intent]], int]) -> str:
    """Give one of the intents with an id a new one, and write down which it was. `choose` takes them in file order.

    Raises EditRefused.
    """
    source = edit.IntentsSource(text)
    entries = source.list_entries(intent_id)
    placed = [read_intent_node(entry) for entry in entries]
    found = [(entry, intent) for entry, intent in zip(entries, placed, strict=True) if intent is not None]
    if len(found) != len(entries) or not found:
        raise EditRefused(f"{intent_id} cannot be read; mend the file first")
    entry, intent = found[choose([intent for _, intent in found])]
    node = entry.key or (edit.find_value(entry.node, "id") if isinstance(entry.node, YamlMapping) else None)
    if node is None:
        raise EditRefused(f"{intent_id} is not written out as a mapping; edit the file by hand")
    text = f"{source.mark}{source.text[: node.start]}{new}{source.text[node.end :]}"
    if [i.id for i in parse_intents(text.encode()).intents].count(new) != 1:
        raise EditRefused("the file would not read back as asked; edit it by hand")
    wanted = {"uid": identify(intent), "formerly": tuple(dict.fromkeys((*intent.formerly, intent_id)))}
    return edit.set_fields(text, new, wanted, now=None)


def find_next_id(intent_id: str, used: Collection[str]) -> str:
    letters = intent_id.rpartition("-")[0]
    return f"{letters}-{max(int(i.rpartition('-')[2]) for i in used if i.startswith(f'{letters}-')) + 1:03d}"


def read_side(name: str, text: str) -> IntentsDocument:
    document = parse_intents(text.encode()) if text else IntentsDocument()
    if document.errors:
        first = document.errors[0]
        raise EditRefused(f"{name} (line {first.line}) cannot be read: {first.message}; mend it by hand")
    return document


def age_key(intent: Intent) -> tuple[str, str, tuple[str, ...]]:
    """Return what orders intents by age, the younger last; the same on every machine."""
    return intent.created_at or "", intent.name, intent.owned_scope


def rename_intent(text: str, intent_id: str, new: str, *, now: str) -> str:
    document = parse_intents(text.encode())
    renamed = rename_in({i.id: i for i in document.intents}, {}, intent_id, new)
    # First the new one: at no step may a dependency lead nowhere.
    text = edit.add_intent(text, renamed.pop(new), now=now)
    for intent in renamed.values():
        if intent not in document.intents:
            changes: dict[str, edit.FieldValue] = {
                "dependencies": intent.dependencies,
                "parent_intent": intent.parent_intent,
            }
            text = edit.set_fields(text, intent.id, changes, now=now)
    return edit.remove_intent(text, intent_id)


def rename_in(intents: Mapping[str, Intent], unchanged: Mapping[str, Intent], old: str, new: str) -> dict[str, Intent]:
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


def fields_of(intent: Intent) -> dict[str, edit.FieldValue]:
    return {name: getattr(intent, name) for name in Intent.__struct_fields__ if name != "id"}
