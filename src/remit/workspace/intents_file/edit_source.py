"""An intents file under edit: text, nodes, and the positions for insertions."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from remit.core.intent import IntentsDocument
from remit.workspace.intents_file.parse import IntentNode, list_intent_nodes, parse_intents
from remit.workspace.intents_file.storage import EditRefused
from remit.workspace.intents_file.yaml_nodes import (
    UnreadableYaml,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
    compose_nodes,
    decode_yaml,
    is_null,
)


class TextSplice(Struct, frozen=True):
    """A replacement for the characters from `start` to `end`."""

    start: int
    end: int
    text: str


class IntentsSource(Struct, frozen=True):
    """A file under edit. `text` is without byte order mark; `mark` is the mark, or empty."""

    text: str
    mark: str
    newline: str
    root: YamlMapping | None

    @property
    def active(self) -> YamlNode | None:
        """The value of `active_intents`, null included."""
        return None if self.root is None else find_value(self.root, "active_intents")

    @property
    def is_json(self) -> bool:
        """Whether the file is in braces: new text is then spelled as JSON."""
        return self.root is not None and self.root.flow

    def entries_of(self, intent_id: str) -> list[IntentNode]:
        entries = () if self.active is None else list_intent_nodes(self.active)
        return [entry for entry in entries if read_id(entry) == intent_id]

    def find_entry(self, intent_id: str) -> IntentNode:
        """Return the only intent with the id. Raises EditRefused."""
        found = self.entries_of(intent_id)
        if len(found) == 1:
            return found[0]
        raise EditRefused(f"{intent_id!r} stands {len(found)} times in the file; expected once")

    def apply_splices(self, splices: Iterable[TextSplice]) -> str:
        """Return the text with the changes; of several at a position, the first comes first."""
        pieces: list[str] = [self.mark]
        at = 0
        for splice in sorted(splices, key=lambda s: s.start):
            pieces += [self.text[at : splice.start], splice.text]
            at = splice.end
        return "".join([*pieces, self.text[at:]])

    def insert_lines(self, at: int, lines: Sequence[str], end: int | None = None) -> TextSplice:
        """Return whole lines for `at`, a line's start or the end of the text, in place of the lines up to `end`."""
        whole = "".join(line + self.newline for line in lines)
        is_broken = at > 0 and self.text[at - 1] != "\n"
        return TextSplice(at, at if end is None else end, self.newline + whole if is_broken else whole)


def open_source(text: str) -> IntentsSource:
    """Return the text with its nodes. Raises EditRefused for invalid YAML, or a file without a mapping."""
    bare = text.removeprefix("\ufeff")
    first = bare.find("\n")
    newline = "\r\n" if first > 0 and bare[first - 1] == "\r" else "\n"
    try:
        root = compose_nodes(decode_yaml(_encode(text)))
    except UnreadableYaml as error:
        raise EditRefused(f"line {error.line}, column {error.column}: {error}; mend the file first") from error
    if root is not None and not isinstance(root, YamlMapping) and not is_null(root):
        raise EditRefused("the file is no mapping; mend it first")
    return IntentsSource(bare, text[: len(text) - len(bare)], newline, root if isinstance(root, YamlMapping) else None)


def parse_document(text: str) -> IntentsDocument:
    """Return the text as read by others. Raises EditRefused for text that UTF-8 cannot encode."""
    return parse_intents(_encode(text))


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EditRefused(f"{text[error.start]!r} cannot be written as UTF-8") from error


def find_value(mapping: YamlMapping, name: str) -> YamlNode | None:
    return next((v for k, v in mapping.pairs if isinstance(k, YamlScalar) and k.text == name), None)


def read_id(entry: IntentNode) -> str | None:
    """Return the id of an intent; None if absent."""
    if entry.key is not None:
        return entry.key.text
    node = find_value(entry.node, "id") if isinstance(entry.node, YamlMapping) else None
    return node.text if isinstance(node, YamlScalar) else None


# -- positions -----------------------------------------------------------------------------------------------


def is_block_scalar(node: YamlNode) -> bool:
    """Return whether the value is text on its own lines, after `|` or `>`."""
    return isinstance(node, YamlScalar) and node.style in ("|", ">")


def is_block(node: YamlNode) -> bool:
    """Return whether the value is a list or a mapping in lines, not in brackets."""
    return isinstance(node, YamlSequence | YamlMapping) and not node.flow and not node.aliased


def _last_leaf(node: YamlNode) -> YamlNode:
    """Return the node at the end of a block collection's text."""
    while not node.aliased:
        if isinstance(node, YamlMapping) and node.pairs and not node.flow:
            node = node.pairs[-1][1]
        elif isinstance(node, YamlSequence) and node.items and not node.flow:
            node = node.items[-1]
        else:
            break
    return node


def content_end(text: str, node: YamlNode) -> int:
    """Return the offset after the value's last character, without trailing line ends."""
    leaf = _last_leaf(node)
    return len(text[: leaf.end].rstrip()) if is_block_scalar(leaf) else leaf.end


def line_after(text: str, node: YamlNode) -> int:
    """Return the start of the first line after the value, or the end of the text."""
    leaf = _last_leaf(node)
    if is_block_scalar(leaf) and "+" in text[leaf.start :].split("\n", 1)[0]:
        return leaf.end  # `|+` keeps the blank lines after the text
    newline = text.find("\n", content_end(text, node))
    return len(text) if newline < 0 else newline + 1


def skip_comments(text: str, at: int, column: int) -> int:
    """Move the line start `at` past following comments that are indented by more than `column` spaces."""
    end = at
    for line in text[at:].splitlines(keepends=True):
        bare = line.strip()
        at += len(line)
        if not bare:
            continue
        if not bare.startswith("#") or len(line) - len(line.lstrip(" ")) <= column:
            break
        end = at
    return end


def line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def starts_line(text: str, at: int) -> bool:
    return not text[line_start(text, at) : at].strip(" ")


def append_to_flow(node: YamlMapping | YamlSequence, text: str) -> TextSplice:
    """Return `text` as the last part of a collection in brackets or braces."""
    parts = node.items if isinstance(node, YamlSequence) else [value for _, value in node.pairs]
    if not parts:
        return TextSplice(node.end - 1, node.end - 1, text)
    return TextSplice(parts[-1].end, parts[-1].end, f", {text}")
