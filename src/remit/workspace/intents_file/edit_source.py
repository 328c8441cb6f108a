"""An intents file under change: its text, its nodes, and the places where something can be put in."""

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
    """What goes in place of the characters from `start` to `end`."""

    start: int
    end: int
    text: str


class IntentsSource(Struct, frozen=True):
    """A file under change. `text` is without byte order mark; `mark` is that mark, or empty."""

    text: str
    mark: str
    newline: str
    root: YamlMapping | None

    @property
    def active(self) -> YamlNode | None:
        """The value of `active_intents`, null included."""
        return None if self.root is None else find_value(self.root, "active_intents")

    def apply_splices(self, splices: Iterable[TextSplice]) -> str:
        """The text with all changes made; of two at one place the first comes first."""
        pieces: list[str] = [self.mark]
        at = 0
        for splice in sorted(splices, key=lambda s: s.start):
            pieces += [self.text[at : splice.start], splice.text]
            at = splice.end
        return "".join([*pieces, self.text[at:]])

    def insert_lines(self, at: int, lines: Sequence[str]) -> TextSplice:
        """Whole lines put in at `at`, a line's start or the end of a file without a last newline."""
        whole = "".join(line + self.newline for line in lines)
        broken = at > 0 and self.text[at - 1] != "\n"
        return TextSplice(at, at, self.newline + whole if broken else whole)


def open_source(text: str) -> IntentsSource:
    """The text with its nodes. Raises EditRefused for what is no YAML, or no mapping."""
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


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EditRefused(f"{text[error.start]!r} cannot be written as UTF-8") from error


def parse_document(text: str) -> IntentsDocument:
    """The text as a reader takes it. Raises EditRefused for what UTF-8 cannot hold."""
    return parse_intents(_encode(text))


def list_entries(source: IntentsSource) -> tuple[IntentNode, ...]:
    """The intents of the file, with where they stand."""
    return () if source.active is None else list_intent_nodes(source.active)


def find_value(table: YamlMapping, name: str) -> YamlNode | None:
    """The value of the first key of that name."""
    return next((v for k, v in table.pairs if isinstance(k, YamlScalar) and k.text == name), None)


def intent_id_of(entry: IntentNode) -> str | None:
    """The id of an intent; None where it says none."""
    if entry.key is not None:
        return entry.key.text
    node = find_value(entry.node, "id") if isinstance(entry.node, YamlMapping) else None
    return node.text if isinstance(node, YamlScalar) else None


def find_entry(source: IntentsSource, intent_id: str) -> IntentNode:
    """The one intent of that id. Raises EditRefused."""
    found = [entry for entry in list_entries(source) if intent_id_of(entry) == intent_id]
    if len(found) == 1:
        return found[0]
    raise EditRefused(f"{intent_id!r} stands {len(found)} times in the file; expected once")


def require_mapping(entry: IntentNode, intent_id: str) -> YamlMapping:
    """The intent's own mapping. Raises EditRefused where it stands elsewhere: behind an alias."""
    if isinstance(entry.node, YamlMapping) and not entry.node.aliased:
        return entry.node
    raise EditRefused(f"{intent_id} is not written out as a mapping; edit the file by hand")


def _last_leaf(node: YamlNode) -> YamlNode:
    """The node whose text ends where a block collection's does."""
    while not node.aliased:
        if isinstance(node, YamlMapping) and node.pairs and not node.flow:
            node = node.pairs[-1][1]
        elif isinstance(node, YamlSequence) and node.items and not node.flow:
            node = node.items[-1]
        else:
            break
    return node


def is_block_scalar(node: YamlNode) -> bool:
    """Whether the value is text in lines of its own, behind `|` or `>`."""
    return isinstance(node, YamlScalar) and node.style in ("|", ">")


def is_block(node: YamlNode) -> bool:
    """Whether the value is a list or a mapping in lines, not in brackets."""
    return isinstance(node, (YamlSequence, YamlMapping)) and not node.flow and not node.aliased


def content_end(text: str, node: YamlNode) -> int:
    """The offset behind the last character of the value, without line ends that only follow it."""
    leaf = _last_leaf(node)
    return len(text[: leaf.end].rstrip()) if is_block_scalar(leaf) else leaf.end


def line_after(text: str, node: YamlNode) -> int:
    """The start of the first line behind the value; the end of the text where there is none."""
    leaf = _last_leaf(node)
    if is_block_scalar(leaf) and "+" in text[leaf.start :].split("\n", 1)[0]:
        return leaf.end
    newline = text.find("\n", content_end(text, node))
    return len(text) if newline < 0 else newline + 1


def skip_comments(text: str, at: int, column: int) -> int:
    """`at`, a line's start, moved behind the comments that follow it indented deeper than `column` spaces."""
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
    """The start of the line that `at` is in."""
    return text.rfind("\n", 0, at) + 1


def starts_line(text: str, at: int) -> bool:
    """Whether nothing but spaces stands before `at` in its line."""
    return not text[line_start(text, at) : at].strip(" ")


def append_to_flow(node: YamlMapping | YamlSequence, text: str) -> TextSplice:
    """`text` as the last part of a collection in brackets or braces."""
    parts = node.items if isinstance(node, YamlSequence) else [value for _, value in node.pairs]
    if not parts:
        return TextSplice(node.end - 1, node.end - 1, text)
    return TextSplice(parts[-1].end, parts[-1].end, f", {text}")
