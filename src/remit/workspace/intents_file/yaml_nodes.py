"""YAML as nodes with positions: bytes in, a tree out, without constructing objects.

`compose_nodes` builds nodes from parser events without recursion: PyYAML's own `compose` crashes with a segmentation
fault on 200,000 nested brackets. No object is constructed by tag. Scalars keep their text, so that YAML 1.1 makes no
boolean of `no` and no number of 1:30.
"""

import re
from typing import TYPE_CHECKING, Protocol, cast

import msgspec
from msgspec import Struct

from remit.core.intent import MAX_FILE_BYTES

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 40  # levels of nesting; an intents file needs seven
MAX_ALIASED_NODES = 10_000  # total of nodes that aliases may expand to
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_QUOTES = "; a value that starts with *, ! or & needs quotes"
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class YamlNode(Struct, frozen=True):
    """A piece of the file. `start` and `end` are offsets in characters; `line` and `column` are 1-based. The span of an
    aliased node is that of the alias; its children keep the span of the anchor. The end of a block collection is the
    position of the parser: `edit_source.content_end` gives the real end.
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

    composer = _Composer()
    try:
        is_fast = yaml.__with_libyaml__ and not pure
        parser = cast("_EventSource", yaml.CSafeLoader(text) if is_fast else yaml.SafeLoader(text))
        while (event := parser.get_event()) is not None:
            composer.handle_event(event)
        return composer.root
    except yaml.MarkedYAMLError as error:
        problem, context, mark = error.problem or "this is not YAML", error.context or "", error.problem_mark
        said = f"{problem}, {context}" if context else problem
        said += _QUOTES if context.endswith((" alias", " anchor", " tag")) else ""
        raise UnreadableYaml(said, *((mark.line + 1, mark.column + 1) if mark else (1, 1))) from error
    except yaml.reader.ReaderError as error:
        raise UnreadableYaml(error.reason) from error


def is_null(node: YamlNode) -> bool:
    return isinstance(node, YamlScalar) and not node.style and node.tag is None and node.text in _NULLS


class _EventSource(Protocol):
    def get_event(self) -> "yaml.Event | None": ...


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
        start, end, line, column = _span(event)
        if isinstance(event, kinds.ScalarEvent):
            node = YamlScalar(start, end, line, column, event.tag, text=event.value, style=event.style or "")
            self._add(node, event.anchor)
        elif isinstance(event, kinds.CollectionStartEvent):
            if len(self._open) >= MAX_DEPTH:
                raise UnreadableYaml(f"nested deeper than {MAX_DEPTH} levels, which is the limit", line, column)
            self._open.append(_OpenCollection(event))
        elif isinstance(event, kinds.CollectionEndEvent):
            done = self._open.pop()
            start, _, line, column = _span(done.event)
            place = (start, end, line, column, done.event.tag)
            children, flow = done.children, bool(done.event.flow_style)
            if isinstance(done.event, kinds.MappingStartEvent):
                pairs = tuple(zip(children[::2], children[1::2], strict=True))
                self._add(YamlMapping(*place, pairs=pairs, flow=flow), done.event.anchor, done.weight)
            else:
                self._add(YamlSequence(*place, items=tuple(children), flow=flow), done.event.anchor, done.weight)
        elif isinstance(event, kinds.AliasEvent):
            anchored = self._anchors.get(event.anchor or "")
            if anchored is None:
                raise UnreadableYaml(f"the alias *{event.anchor} has no anchor before it{_QUOTES}", line, column)
            node, weight = anchored
            self._aliased += weight
            if self._aliased > MAX_ALIASED_NODES:
                text = f"aliases stand for more than {MAX_ALIASED_NODES} nodes, which is the limit"
                raise UnreadableYaml(text, line, column)
            alias = msgspec.structs.replace(node, start=start, end=end, line=line, column=column, aliased=True)
            self._add(alias, None, weight)
        elif isinstance(event, kinds.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise UnreadableYaml("a second document starts here; expected one", line, column)

    def _add(self, node: YamlNode, anchor: str | None, weight: int = 1) -> None:
        if anchor is not None:
            self._anchors[anchor] = (node, weight)
        if not self._open:
            self.root = node
            return
        self._open[-1].children.append(node)
        self._open[-1].weight += weight


def _span(event: "yaml.Event") -> tuple[int, int, int, int]:
    start, end = event.start_mark, event.end_mark
    if start is None or end is None:
        return 0, 0, 1, 1
    return start.index, end.index, start.line + 1, start.column + 1


def _position(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - before.rfind("\n")
