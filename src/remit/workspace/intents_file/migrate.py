"""A list of intents as files of one each, with the comments of each entry."""

import re
from collections.abc import Iterable
from contextlib import suppress

from msgspec.structs import replace

from remit.core.intent import FINAL_STATUSES, Intent
from remit.workspace.intents_file.edit import IntentsSource, drop_fields, name_intent_file, render_intent_file
from remit.workspace.intents_file.parse import IntentNode, parse_intents
from remit.workspace.intents_file.storage import EditRefused
from remit.workspace.intents_file.yaml_nodes import YamlMapping

KEPT_WORDS = (*FINAL_STATUSES, "BLOCKED")


def split_list(text: str) -> dict[str, str]:
    """Return the files of a list's intents, by name. Raises EditRefused where the files would not say the same."""
    source = IntentsSource(text)
    if source.document.errors:
        first = source.document.errors[0]
        raise EditRefused(f"{first.place}: {first.code}: {first.message}; mend the list first")
    files: dict[str, str] = {}
    for intent in source.document.intents:
        wanted = bare(intent)
        made = render_intent_file(wanted)
        with suppress(EditRefused):
            cut = cut_entry(source, source.find_entry(intent.id))
            gone = ["updated_at", *([] if intent.status in KEPT_WORDS else ["status"])]
            cut = drop_fields(cut, intent.id, gone) if cut else made
            made = cut if parse_intents(cut.encode()).intents == (wanted,) else made
        files[name_intent_file(intent)] = made
    require_same(source.document.intents, files.values())
    return files


def bare(intent: Intent) -> Intent:
    """Return an intent without what a file of its own does not say."""
    return replace(intent, updated_at=None, status=intent.status if intent.status in KEPT_WORDS else "DRAFT")


def require_same(intents: Iterable[Intent], texts: Iterable[str]) -> None:
    wanted = {intent.id: bare(intent) for intent in intents}
    found = {i.id: i for text in texts for i in parse_intents(text.encode()).intents}
    if differing := sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name)):
        raise EditRefused(f"{', '.join(differing)} would not read the same in files of their own; nothing was written")


def cut_entry(source: IntentsSource, entry: IntentNode) -> str:
    node, key, text = entry.node, entry.key, source.text
    if not isinstance(node, YamlMapping) or node.flow or node.aliased or not node.pairs:
        return ""
    first = (key or node.pairs[0][0]).start
    lines = text[text.rfind("\n", 0, first) + 1 : node.end].split("\n")
    margin = node.column - 1
    if key is None:
        # The dash gives way to the margin.
        lines[0] = re.sub(r"^( *)-( )", r"\1 \2", lines[0])
    else:
        lines[0] = f"{' ' * margin}id: {key.text}"
    while lines and (not lines[-1].strip() or len(lines[-1]) - len(lines[-1].lstrip()) < margin):
        lines.pop()
    above = list_comments_above(text, first)
    body = [line[margin:] if not line[:margin].strip() else line.lstrip() for line in lines]
    return "".join(f"{line.rstrip(chr(13))}\n" for line in (*above, *body))


def list_comments_above(text: str, at: int) -> list[str]:
    found: list[str] = []
    for line in reversed(text[: text.rfind("\n", 0, at) + 1].split("\n")[:-1]):
        if not line.strip().startswith("#") or not line.startswith(" "):
            break
        found.insert(0, line.strip())
    return found
