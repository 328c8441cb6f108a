"""YAML as nodes with positions: bytes in, a tree out, without constructing objects.

`compose_nodes` builds nodes from parser events without recursion: PyYAML's own `compose` crashes with a segmentation
fault on 200,000 nested brackets. No object is constructed by tag. Scalars keep their text, so that YAML 1.1 makes no
boolean of `no` and no number of 1:30.
"""

import re
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct

from remit.core.intent import MAX_FILE_BYTES

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 40
"""Levels of nesting; an intents file needs seven."""

MAX_ALIASED_NODES = 10_000
"""Total of nodes that aliases may expand to."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_QUOTES = "; a value that starts with *, ! or & needs quotes"
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class YamlNode(Struct, frozen=True):
    """A piece of the file. `start` and `end` are offsets in characters; `line` and `column` are 1-based.

    The span of an aliased node is that of the alias; its children keep the span of the anchor. The end of a block
    collection is the position of the parser: `edit_source.content_end` gives the real end.
    """

    start: int
    end: int
    line: int
    column: int
    tag: str | None = None
    aliased: bool = False


class YamlScalar(YamlNode, frozen=True, kw_only=True):
    """Text. `style` is `|`, `>`, a quote, or empty for plain."""

    text: str
    style: str = ""


class YamlSequence(YamlNode, frozen=True, kw_only=True):
    """A YAML sequence; `flow` is the form in brackets."""

    items: tuple[YamlNode, ...]
    flow: bool


class YamlMapping(YamlNode, frozen=True, kw_only=True):
    """A YAML mapping with any duplicate keys; `flow` is the form in braces."""

    pairs: tuple[tuple[YamlNode, YamlNode], ...]
    flow: bool


class UnreadableYaml(ValueError):
    """The text is not YAML, or exceeds a limit. `line` and `column` are 1-based."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


def decode_yaml(content: bytes) -> str:
    """Return the text without byte order mark. Raises UnreadableYaml: too large, not UTF-8, unprintable."""
    if len(content) > MAX_FILE_BYTES:
        raise UnreadableYaml(f"the file is larger than {MAX_FILE_BYTES} bytes (4 MiB), which is the limit")
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8")
        said = f"byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise UnreadableYaml(said, *_position(before)) from error
    bad = _UNPRINTABLE.search(text)
    if bad is not None:
        said = f"the character U+{ord(bad.group()):04X} may not stand in YAML"
        raise UnreadableYaml(said, *_position(text[: bad.start()]))
    return text


def compose_nodes(text: str, *, pure: bool = False) -> YamlNode | None:
    """Return the document as nodes; None if empty. `pure` avoids the C parser. Raises UnreadableYaml."""
    import yaml

    fast = yaml.__with_libyaml__ and not pure
    try:
        return _root(yaml.CSafeLoader(text) if fast else yaml.SafeLoader(text))
    except yaml.MarkedYAMLError as error:
        raise UnreadableYaml(_explain_error(error), *_mark_position(error.problem_mark)) from error
    except yaml.reader.ReaderError as error:
        raise UnreadableYaml(error.reason) from error


def is_null(node: YamlNode) -> bool:
    return isinstance(node, YamlScalar) and not node.style and node.tag is None and node.text in _NULLS


class _Events(Protocol):
    def get_event(self) -> "yaml.Event | None": ...


def _root(events: _Events) -> YamlNode | None:
    composer = _Composer()
    while (event := events.get_event()) is not None:
        composer.handle_event(event)
    return composer.root


class _OpenCollection:
    """A collection before its end event. `weight` counts its nodes with aliases expanded."""

    def __init__(self, event: "yaml.CollectionStartEvent") -> None:
        self.event = event
        self.children: list[YamlNode] = []
        self.weight = 1


class _Composer:
    """Builds nodes from parser events, without recursion."""

    def __init__(self) -> None:
        import yaml

        self.root: YamlNode | None = None
        self._yaml = yaml
        self._documents = 0
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, tuple[YamlNode, int]] = {}
        self._aliased = 0

    def handle_event(self, event: "yaml.Event") -> None:
        """Process an event. Raises UnreadableYaml beyond a limit."""
        kinds = self._yaml
        if isinstance(event, kinds.ScalarEvent):
            node = YamlScalar(*_span(event), event.tag, text=event.value, style=event.style or "")
            self._add(node, event.anchor)
        elif isinstance(event, kinds.CollectionStartEvent):
            self._start(event)
        elif isinstance(event, kinds.CollectionEndEvent):
            self._close(event)
        elif isinstance(event, kinds.AliasEvent):
            self._alias(event)
        elif isinstance(event, kinds.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise UnreadableYaml("a second document starts here; expected one", *_span(event)[2:])

    def _add(self, node: YamlNode, anchor: str | None, weight: int = 1) -> None:
        if anchor is not None:
            self._anchors[anchor] = (node, weight)
        if not self._open:
            self.root = node
            return
        self._open[-1].children.append(node)
        self._open[-1].weight += weight

    def _start(self, event: "yaml.CollectionStartEvent") -> None:
        if len(self._open) >= MAX_DEPTH:
            raise UnreadableYaml(f"nested deeper than {MAX_DEPTH} levels, which is the limit", *_span(event)[2:])
        self._open.append(_OpenCollection(event))

    def _close(self, event: "yaml.CollectionEndEvent") -> None:
        done = self._open.pop()
        start, _, line, column = _span(done.event)
        path = (start, _span(event)[1], line, column, done.event.tag)
        children, flow = done.children, bool(done.event.flow_style)
        node: YamlNode
        if isinstance(done.event, self._yaml.MappingStartEvent):
            node = YamlMapping(*path, pairs=tuple(zip(children[::2], children[1::2], strict=True)), flow=flow)
        else:
            node = YamlSequence(*path, items=tuple(children), flow=flow)
        self._add(node, done.event.anchor, done.weight)

    def _alias(self, event: "yaml.AliasEvent") -> None:
        start, end, line, column = _span(event)
        anchored = self._anchors.get(event.anchor or "")
        if anchored is None:
            text = f"the alias *{event.anchor} has no anchor before it"
            raise UnreadableYaml(text + _QUOTES, line, column)
        node, weight = anchored
        self._aliased += weight
        if self._aliased > MAX_ALIASED_NODES:
            text = f"aliases stand for more than {MAX_ALIASED_NODES} nodes, which is the limit"
            raise UnreadableYaml(text, line, column)
        alias = msgspec.structs.replace(node, start=start, end=end, line=line, column=column, aliased=True)
        self._add(alias, None, weight)


def _span(event: "yaml.Event") -> tuple[int, int, int, int]:
    start, end = event.start_mark, event.end_mark
    if start is None or end is None:
        return 0, 0, 1, 1
    return start.index, end.index, start.line + 1, start.column + 1


def _mark_position(mark: "yaml.Mark | None") -> tuple[int, int]:
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)


def _position(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _explain_error(error: "yaml.MarkedYAMLError") -> str:
    problem = error.problem or "this is not YAML"
    context = error.context or ""
    text = f"{problem}, {context}" if context else problem
    return text + _QUOTES if context.endswith((" alias", " anchor", " tag")) else text
