"""An intents file under change: its text, its nodes, and the places where something can be put in."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from remit.core.intent import IntentsDocument
from remit.workspace.intents_file import Entry, entries, parse_intents
from remit.workspace.intents_writing import EditRefused
from remit.workspace.yaml_nodes import Node, Scalar, Series, Table, Unreadable, compose, decode, is_null


class Splice(Struct, frozen=True):
    """What goes in place of the characters from `start` to `end`."""

    start: int
    end: int
    text: str


class Source(Struct, frozen=True):
    """A file under change. `text` is without byte order mark; `mark` is that mark, or empty."""

    text: str
    mark: str
    newline: str
    root: Table | None

    @property
    def active(self) -> Node | None:
        """The value of `active_intents`, null included."""
        return None if self.root is None else value_of(self.root, "active_intents")

    def spliced(self, splices: Iterable[Splice]) -> str:
        """The text with all changes made; of two at one place the first comes first."""
        pieces: list[str] = [self.mark]
        at = 0
        for splice in sorted(splices, key=lambda s: s.start):
            pieces += [self.text[at : splice.start], splice.text]
            at = splice.end
        return "".join([*pieces, self.text[at:]])

    def lines_at(self, at: int, lines: Sequence[str]) -> Splice:
        """Whole lines put in at `at`, a line's start or the end of a file without a last newline."""
        whole = "".join(line + self.newline for line in lines)
        broken = at > 0 and self.text[at - 1] != "\n"
        return Splice(at, at, self.newline + whole if broken else whole)


def opened(text: str) -> Source:
    """The text with its nodes. Raises EditRefused for what is no YAML, or no mapping."""
    bare = text.removeprefix("\ufeff")
    first = bare.find("\n")
    newline = "\r\n" if first > 0 and bare[first - 1] == "\r" else "\n"
    try:
        root = compose(decode(_encoded(text)))
    except Unreadable as error:
        raise EditRefused(f"line {error.line}, column {error.column}: {error}; mend the file first") from error
    if root is not None and not isinstance(root, Table) and not is_null(root):
        raise EditRefused("the file is no mapping; mend it first")
    return Source(bare, text[: len(text) - len(bare)], newline, root if isinstance(root, Table) else None)


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EditRefused(f"{text[error.start]!r} cannot be written as UTF-8") from error


def document_of(text: str) -> IntentsDocument:
    """The text as a reader takes it. Raises EditRefused for what UTF-8 cannot hold."""
    return parse_intents(_encoded(text))


def entries_of(source: Source) -> tuple[Entry, ...]:
    """The intents of the file, with where they stand."""
    return () if source.active is None else entries(source.active)


def value_of(table: Table, name: str) -> Node | None:
    """The value of the first key of that name."""
    return next((v for k, v in table.pairs if isinstance(k, Scalar) and k.text == name), None)


def id_of(entry: Entry) -> str | None:
    """The id of an intent; None where it says none."""
    if entry.key is not None:
        return entry.key.text
    node = value_of(entry.node, "id") if isinstance(entry.node, Table) else None
    return node.text if isinstance(node, Scalar) else None


def entry_of(source: Source, intent_id: str) -> Entry:
    """The one intent of that id. Raises EditRefused."""
    found = [entry for entry in entries_of(source) if id_of(entry) == intent_id]
    if len(found) == 1:
        return found[0]
    raise EditRefused(f"{intent_id!r} stands {len(found)} times in the file; expected once")


def table_of(entry: Entry, intent_id: str) -> Table:
    """The intent's own mapping. Raises EditRefused where it stands elsewhere: behind an alias."""
    if isinstance(entry.node, Table) and not entry.node.aliased:
        return entry.node
    raise EditRefused(f"{intent_id} is not written out as a mapping; edit the file by hand")


def _last_leaf(node: Node) -> Node:
    """The node whose text ends where a block collection's does."""
    while not node.aliased:
        if isinstance(node, Table) and node.pairs and not node.flow:
            node = node.pairs[-1][1]
        elif isinstance(node, Series) and node.items and not node.flow:
            node = node.items[-1]
        else:
            break
    return node


def is_block_scalar(node: Node) -> bool:
    """Whether the value is text in lines of its own, behind `|` or `>`."""
    return isinstance(node, Scalar) and node.style in ("|", ">")


def is_block(node: Node) -> bool:
    """Whether the value is a list or a mapping in lines, not in brackets."""
    return isinstance(node, (Series, Table)) and not node.flow and not node.aliased


def content_end(text: str, node: Node) -> int:
    """The offset behind the last character of the value, without line ends that only follow it."""
    leaf = _last_leaf(node)
    return len(text[: leaf.end].rstrip()) if is_block_scalar(leaf) else leaf.end


def line_after(text: str, node: Node) -> int:
    """The start of the first line behind the value; the end of the text where there is none."""
    leaf = _last_leaf(node)
    if is_block_scalar(leaf) and "+" in text[leaf.start :].split("\n", 1)[0]:
        return leaf.end
    newline = text.find("\n", content_end(text, node))
    return len(text) if newline < 0 else newline + 1


def past_comments(text: str, at: int, column: int) -> int:
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


def into_flow(node: Table | Series, text: str) -> Splice:
    """`text` as the last part of a collection in brackets or braces."""
    parts = node.items if isinstance(node, Series) else [value for _, value in node.pairs]
    if not parts:
        return Splice(node.end - 1, node.end - 1, text)
    return Splice(parts[-1].end, parts[-1].end, f", {text}")
