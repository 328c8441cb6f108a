"""The list that Remit writes beside files of one intent each: for people, and for an older Remit on this machine."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from remit.core.diff.contents import sha256
from remit.core.intent import LIST_FILE, MAX_FILE_BYTES, Intent, IntentsDocument, is_intent_id
from remit.workspace.intents_file.edit import item_lines, shown_fields
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.intents_file.storage import VIEW_MARK
from remit.workspace.safe_files import read_regular_file, write_below

VIEW_HEAD = (
    "# Remit writes this list at each step of an intent, and git ignores it. Change the files in intents/ instead.\n"
    'version: "1.0"\nactive_intents:'
)


def write_view(folder: Path, document: IntentsDocument, times: Mapping[str, str]) -> None:
    """Write the list with the statuses of `document`, if git ignores it and it is Remit's; `times` are those of the
    newest steps. A view that a person has edited stays. Raises OSError.
    """
    path = folder / LIST_FILE
    with suppress(FileNotFoundError):
        if LIST_FILE.encode() not in (folder / ".gitignore").read_bytes().splitlines() or is_edited(path, document):
            return
        rows: list[str] = []
        for intent in document.intents:
            if not is_intent_id(intent.id):
                continue
            at = times.get(intent.id, intent.updated_at)
            plain = replace(intent, updated_at=at, source={}, uid=None, formerly=())
            rows += item_lines(shown_fields(plain), 2, 2)
        body = "\n".join([VIEW_HEAD + ("" if rows else " []"), *rows, ""]).encode()
        text = VIEW_MARK + sha256(body).encode() + b"\n" + body
        if not path.exists() or read_regular_file(path, MAX_FILE_BYTES) != text:
            write_below(folder.parent, path, text)


def is_edited(path: Path, document: IntentsDocument) -> bool:
    """Return whether the list says something that neither Remit nor an older one wrote: more than statuses and times.
    Raises OSError.
    """
    try:
        content = read_regular_file(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return False
    mark, _, body = content.partition(b"\n")
    if not mark.startswith(VIEW_MARK):
        return True
    if mark.removeprefix(VIEW_MARK).decode("ascii", "replace").split(" ")[0] == sha256(body):
        return False
    found, known = parse_intents(body), {name_rules(intent) for intent in document.intents}
    return bool(found.errors) or any(name_rules(intent) not in known for intent in found.intents)


def name_rules(intent: Intent) -> str:
    bare = replace(intent, status="DRAFT", updated_at=None, blocked_reason=None, source={}, uid=None, formerly=())
    return repr(bare)
