"""Reading `.orchestration/active_intents.yaml`: bytes in; intents, and everything wrong with them, out.

The YAML parser gives events, and `compose` makes nodes of them without recursion: the parser's own
`compose` dies with a segmentation fault on 200,000 nested brackets. Nothing is constructed by tag, and a
scalar is the text that stands in the file, so that YAML 1.1 makes no boolean of `no` and no number of 1:30.
yaml is imported when there is something to parse: with a warm cache there is not.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from remit.core.contents import Sha256, sha256
from remit.core.globs import glob_error, is_absolute_pattern
from remit.core.intent import (
    PRIORITIES,
    STATUS_ALIASES,
    STATUSES,
    Constraint,
    Criterion,
    Intent,
    IntentsDocument,
    LintCode,
    LintFinding,
    Severity,
    Status,
    is_intent_id,
)
from remit.core.validation import Place, Placed, describe_rule, parse_time, validate
from remit.workspace.beneath import put_whole

if TYPE_CHECKING:
    import yaml

LIMIT = 4 * 1024 * 1024
"""Bytes. A larger file is refused unread."""

DEEPEST = 40
"""Levels of nesting; the shape of an intents file needs seven."""

MOST_ALIASED = 10_000
"""Nodes that aliases may stand for, all together."""

LONGEST_NAME = 200
VERSIONS = frozenset({"1.0"})
FORMAT = 2
"""Of the cache. Raise it whenever the same bytes would now be read differently."""

Value: TypeAlias = "str | int | bool | None | list[Value] | dict[str, Value]"
Choice = TypeVar("Choice", bound=str)

_TOP_KEYS = frozenset({"version", "active_intents", "metadata"})
_INTENT_KEYS = frozenset(Intent.__struct_fields__)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_PLAIN_TAGS = frozenset(
    {None, "!", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "null", "bool", "timestamp"))}
) | frozenset({f"tag:yaml.org,2002:{kind}" for kind in ("seq", "map", "float")})
_QUOTES = "; a value that starts with *, ! or & needs quotes"
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Node(Struct, frozen=True):
    """A piece of the file. `start` and `end` are offsets in characters; `line` and `column` are 1-based.

    The span of an aliased node is that of the alias, its children's where they were anchored. The end of a
    block collection is wherever the parser went on: use `intents_edit.content_end`.
    """

    start: int
    end: int
    line: int
    column: int
    tag: str | None = None
    aliased: bool = False


class Scalar(Node, frozen=True, kw_only=True):
    """Text. `style` is `|`, `>`, a quote, or empty for plain."""

    text: str
    style: str = ""


class Series(Node, frozen=True, kw_only=True):
    """A YAML sequence; `flow` is the form in brackets."""

    items: tuple[Node, ...]
    flow: bool


class Table(Node, frozen=True, kw_only=True):
    """A YAML mapping, duplicate keys and all; `flow` is the form in braces."""

    pairs: tuple[tuple[Node, Node], ...]
    flow: bool


class Unreadable(ValueError):
    """The text is not YAML, or more of it than is good. `line` and `column` are 1-based."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class Entry(Struct, frozen=True):
    """One intent's place under `active_intents`. `key` is None in the list form."""

    node: Node
    key: Scalar | None = None


def parse_intents(text: bytes) -> IntentsDocument:
    """All intents of the file, and all findings on it, for any bytes whatever.

    An intent with an error of its own is not among `.intents`, nor is the second of one id; one whose
    references are wrong is. Findings are in the order of the file.
    """
    digest = sha256(text)
    try:
        root = compose(decode(text))
    except Unreadable as error:
        finding = LintFinding("YAML_PARSE_ERROR", "error", str(error), line=error.line, column=error.column)
        return IntentsDocument((), (finding,), digest)
    intents, findings = _read_root(root)
    return IntentsDocument(intents, tuple(sorted(findings, key=lambda f: (f.line, f.column))), digest)


def read_intents(path: Path, cache: Path | None = None) -> IntentsDocument | None:
    """The file at `path`, read; None where there is none.

    What is no regular file, cannot be read or is too large becomes a document with one error. `cache` is a
    file in Remit's own state folder: it is believed for exactly these bytes and this FORMAT, and passed
    over when it cannot be used.
    """
    try:
        content = read_regular(path, LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"{str(path)!r} cannot be read: {error.strerror or error}"
        return IntentsDocument(findings=(LintFinding("YAML_PARSE_ERROR", "error", message),))
    if cache is None:
        return parse_intents(content)
    known = _cached(cache, sha256(content))
    if known is not None:
        return known
    document = parse_intents(content)
    _remember(cache, document)
    return document


# -- bytes to nodes ------------------------------------------------------------------------------------


def decode(content: bytes) -> str:
    """The text, without a byte order mark. Raises Unreadable: too large, not UTF-8, unprintable."""
    if len(content) > LIMIT:
        raise Unreadable(f"the file is larger than {LIMIT} bytes (4 MiB), which is the limit")
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8")
        said = f"byte 0x{content[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise Unreadable(said, *_position(before)) from error
    bad = _UNPRINTABLE.search(text)
    if bad is not None:
        said = f"the character U+{ord(bad.group()):04X} may not stand in YAML"
        raise Unreadable(said, *_position(text[: bad.start()]))
    return text


def compose(text: str, *, pure: bool = False) -> Node | None:
    """The document as nodes; None where it is empty. `pure` does without the C parser. Raises Unreadable."""
    import yaml

    fast = yaml.__with_libyaml__ and not pure
    try:
        return _root(yaml.CSafeLoader(text) if fast else yaml.SafeLoader(text))
    except yaml.MarkedYAMLError as error:
        raise Unreadable(_explained(error), *_mark_position(error.problem_mark)) from error
    except yaml.reader.ReaderError as error:
        raise Unreadable(error.reason) from error


class _Events(Protocol):
    def get_event(self) -> "yaml.Event | None": ...


def _root(events: _Events) -> Node | None:
    composer = _Composer()
    while (event := events.get_event()) is not None:
        composer.take(event)
    return composer.root


class _Open:
    """A collection whose end has not come yet. `weight` counts its nodes, aliases written out."""

    def __init__(self, event: "yaml.CollectionStartEvent") -> None:
        self.event = event
        self.children: list[Node] = []
        self.weight = 1


class _Composer:
    """Events in, nodes out. The parsers go through events without recursion, and so does this."""

    def __init__(self) -> None:
        import yaml

        self.root: Node | None = None
        self._yaml = yaml
        self._documents = 0
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._aliased = 0

    def take(self, event: "yaml.Event") -> None:
        """Go on by one event. Raises Unreadable where a limit is passed."""
        kinds = self._yaml
        if isinstance(event, kinds.ScalarEvent):
            node = Scalar(*_span(event), event.tag, text=event.value, style=event.style or "")
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
                raise Unreadable("a second document starts here; expected one", *_span(event)[2:])

    def _add(self, node: Node, anchor: str | None, weight: int = 1) -> None:
        if anchor is not None:
            self._anchors[anchor] = (node, weight)
        if not self._open:
            self.root = node
            return
        self._open[-1].children.append(node)
        self._open[-1].weight += weight

    def _start(self, event: "yaml.CollectionStartEvent") -> None:
        if len(self._open) >= DEEPEST:
            raise Unreadable(f"nested deeper than {DEEPEST} levels, which is the limit", *_span(event)[2:])
        self._open.append(_Open(event))

    def _close(self, event: "yaml.CollectionEndEvent") -> None:
        done = self._open.pop()
        start, _, line, column = _span(done.event)
        place = (start, _span(event)[1], line, column, done.event.tag)
        children, flow = done.children, bool(done.event.flow_style)
        node: Node
        if isinstance(done.event, self._yaml.MappingStartEvent):
            node = Table(*place, pairs=tuple(zip(children[::2], children[1::2], strict=True)), flow=flow)
        else:
            node = Series(*place, items=tuple(children), flow=flow)
        self._add(node, done.event.anchor, done.weight)

    def _alias(self, event: "yaml.AliasEvent") -> None:
        start, end, line, column = _span(event)
        anchored = self._anchors.get(event.anchor or "")
        if anchored is None:
            said = f"the alias *{event.anchor} has no anchor before it"
            raise Unreadable(said + _QUOTES, line, column)
        node, weight = anchored
        self._aliased += weight
        if self._aliased > MOST_ALIASED:
            said = f"aliases stand for more than {MOST_ALIASED} nodes, which is the limit"
            raise Unreadable(said, line, column)
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


def _explained(error: "yaml.MarkedYAMLError") -> str:
    problem = error.problem or "this is not YAML"
    context = error.context or ""
    said = f"{problem}, {context}" if context else problem
    return said + _QUOTES if context.endswith((" alias", " anchor", " tag")) else said


# -- nodes to intents ----------------------------------------------------------------------------------


def is_null(node: Node) -> bool:
    """Whether the value is left empty, or says null."""
    return isinstance(node, Scalar) and not node.style and node.tag is None and node.text in _NULLS


def entries(active: Node) -> tuple[Entry, ...]:
    """The intents below `active_intents`, in the list or the mapping form."""
    if isinstance(active, Series):
        return tuple(Entry(item) for item in active.items)
    if isinstance(active, Table):
        return tuple(Entry(value, key) for key, value in active.pairs if isinstance(key, Scalar))
    return ()


class _Fields:
    """The fields of one mapping, read by name. What is wrong is gathered in `findings`, never raised."""

    def __init__(self, node: Node, known: frozenset[str], intent_id: str | None = None) -> None:
        self.node = node
        self.intent_id = intent_id
        self.findings: list[LintFinding] = []
        self.nodes: dict[str, Node] = self.pairs(node)
        for name in self.nodes:
            if name not in known:
                self.unknown(self.nodes[name], name)

    def wrong(self, node: Node, field: str | None, message: str, code: LintCode = "INVALID_FIELD") -> None:
        """Note an error at `node`."""
        self._note(code, "error", message, field, node)

    def unknown(self, node: Node, field: str) -> None:
        """Warn of a key that means nothing to Remit."""
        self._note("UNKNOWN_KEY", "warning", f"{field[:80]!r} is not a key Remit knows; kept", field, node)

    def pairs(self, node: Node, field: str | None = None) -> dict[str, Node]:
        """The mapping's values by key, the first of each."""
        found: dict[str, Node] = {}
        if not isinstance(node, Table):
            self.wrong(node, field, f"expected a mapping, got {_said(node)}")
            return found
        for key, value in node.pairs:
            name = key.text if isinstance(key, Scalar) else None
            if name is None:
                self.wrong(key, field, f"a key must be text, got {_said(key)}")
            elif name == "<<":
                self.wrong(key, field, "merge keys (<<) are not read; write the fields out")
            elif name in found:
                self.wrong(key, field or name, f"the key {name[:80]!r} stands here a second time")
            else:
                found[name] = value
        return found

    def given(self, field: str) -> Node | None:
        """The value, unless the field is absent or null."""
        node = self.nodes.get(field)
        return None if node is None or is_null(node) else node

    def as_text(self, node: Node, field: str) -> str | None:
        """The text of `node`; None, and noted, where it has none."""
        if is_null(node):
            self.wrong(node, field, f"{field} is empty here; expected text")
        elif node.tag not in _PLAIN_TAGS:
            self.wrong(node, field, f"{node.tag} reads as a YAML tag; quote a value that starts with !")
        elif not isinstance(node, Scalar):
            self.wrong(node, field, f"{field} is {_said(node)}; expected text (quote braces and brackets)")
        else:
            return node.text
        return None

    def text(self, field: str) -> str | None:
        """A text field; None where it is absent, null or wrong."""
        node = self.given(field)
        return None if node is None else self.as_text(node, field)

    def items(self, field: str) -> tuple[Node, ...]:
        """The nodes of a list field."""
        node = self.given(field)
        if node is None:
            return ()
        if isinstance(node, Series):
            return node.items
        self.wrong(node, field, f"{field} is {_said(node)}; expected a list")
        return ()

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of texts, wrong items left out."""
        read = (self.as_text(node, field) for node in self.items(field))
        return tuple(text for text in read if text is not None)

    def choice(self, field: str, among: Sequence[Choice], default: Choice, code: LintCode = "INVALID_FIELD") -> Choice:
        """One of a few words, spelled as they are."""
        text = self.text(field)
        if text is None:
            return default
        for each in among:
            if text == each:
                return each
        self.wrong(self.nodes[field], field, f"{field} is {text[:80]!r}; expected {_any_of(among)}", code)
        return default

    def flag(self, field: str) -> bool:
        """A boolean, false where it is absent."""
        node = self.given(field)
        if node is None:
            return False
        word = node.text.lower() if isinstance(node, Scalar) and not node.style else ""
        if word not in _TRUE | _FALSE:
            self.wrong(node, field, f"{field} is {_said(node)}; expected true or false")
        return word in _TRUE

    def time(self, field: str) -> str | None:
        """A timestamp, as written."""
        text = self.text(field)
        if text is not None and parse_time(text) is None:
            said = f"{field} is {text[:80]!r}; expected ISO 8601 with Z or an offset: 2026-02-16T10:00:00Z"
            self.wrong(self.nodes[field], field, said, "INVALID_TIMESTAMP_FORMAT")
        return text

    def _note(self, code: LintCode, severity: Severity, message: str, field: str | None, node: Node) -> None:
        finding = LintFinding(code, severity, message, self.intent_id, field, node.line, node.column)
        self.findings.append(finding)


def _read_root(root: Node | None) -> tuple[tuple[Intent, ...], list[LintFinding]]:
    if root is None or is_null(root) or not isinstance(root, Table):
        said = "empty" if root is None or is_null(root) else _said(root)
        message = f"the file is {said}; expected a mapping with active_intents"
        line, column = (1, 1) if root is None else (root.line, root.column)
        return (), [LintFinding("MISSING_ACTIVE_INTENTS", "error", message, None, None, line, column)]
    top = _Fields(root, _TOP_KEYS)
    version = top.text("version")
    if version is not None and version not in VERSIONS:
        said = f"version is {version[:80]!r}; expected {_any_of(sorted(VERSIONS))}"
        top.wrong(top.nodes["version"], "version", said)
    if "active_intents" not in top.nodes:
        top.wrong(root, "active_intents", "there is no active_intents", "MISSING_ACTIVE_INTENTS")
    active = top.given("active_intents")
    if active is None:
        return (), top.findings
    if isinstance(active, Scalar):
        top.wrong(active, "active_intents", f"active_intents is {_said(active)}; expected a list")
    if isinstance(active, Table):
        top.pairs(active, "active_intents")
    read = [_read_intent(entry) for entry in entries(active)]
    placed = [intent for intent, _ in read if intent is not None]
    findings = [*top.findings, *(f for _, own in read for f in own), *validate(placed)]
    return _sound(placed), findings


def _sound(placed: Sequence[Placed]) -> tuple[Intent, ...]:
    first: dict[str, Placed] = {}
    for each in placed:
        if is_intent_id(each.intent.id):
            first.setdefault(each.intent.id, each)
    return tuple(each.intent for each in first.values() if each.sound)


def _read_intent(entry: Entry) -> tuple[Placed | None, list[LintFinding]]:
    """The intent as far as it can be read (None where it is no mapping), and what is wrong within it."""
    name = _declared_id(entry)
    fields = _Fields(entry.node, _INTENT_KEYS, name)
    if not isinstance(entry.node, Table):
        return None, fields.findings
    inner = fields.text("id")
    if entry.key is not None and inner is not None and inner != entry.key.text:
        fields.wrong(fields.nodes["id"], "id", f"id is {inner[:80]!r} under the key {entry.key.text[:80]!r}")
    intent = Intent(
        id=name or "",
        owned_scope=_scope(fields),
        name=_name(fields),
        description=fields.text("description") or "",
        status=_status(fields),
        priority=fields.choice("priority", PRIORITIES, "MEDIUM"),
        owner=fields.text("owner") or "",
        constraints=tuple(_constraints(fields)),
        acceptance_criteria=tuple(_criteria(fields)),
        companions=fields.flag("companions"),
        network=fields.choice("network", ("allow", "none"), "allow"),
        dependencies=fields.texts("dependencies"),
        parent_intent=fields.text("parent_intent"),
        references=fields.texts("references"),
        blocked_reason=fields.text("blocked_reason"),
        created_at=fields.time("created_at"),
        updated_at=fields.time("updated_at"),
    )
    sound = all(f.severity == "warning" for f in fields.findings)
    return Placed(intent, _places(entry, fields.nodes), sound), fields.findings


def _declared_id(entry: Entry) -> str | None:
    if entry.key is not None:
        return entry.key.text
    if not isinstance(entry.node, Table):
        return None
    for key, value in entry.node.pairs:
        if isinstance(key, Scalar) and key.text == "id":
            return value.text if isinstance(value, Scalar) and not is_null(value) else None
    return None


def _places(entry: Entry, nodes: Mapping[str, Node]) -> dict[str, Place]:
    places = {"": Place(entry.node.line, entry.node.column)}
    for name, node in nodes.items():
        places[name] = Place(node.line, node.column)
        if isinstance(node, Series):
            spots = {f"{name}.{n}": Place(item.line, item.column) for n, item in enumerate(node.items)}
            places.update(spots)
    if entry.key is not None:
        places["id"] = Place(entry.key.line, entry.key.column)
    return places


def _status(fields: _Fields) -> Status:
    node = fields.given("status")
    alias = STATUS_ALIASES.get(node.text) if isinstance(node, Scalar) else None
    return alias or fields.choice("status", STATUSES, "DRAFT", "INVALID_STATUS")


def _name(fields: _Fields) -> str:
    name = fields.text("name") or ""
    if len(name) > LONGEST_NAME:
        said = f"name has {len(name)} characters; expected at most {LONGEST_NAME}"
        fields.wrong(fields.nodes["name"], "name", said)
    return name


def _scope(fields: _Fields) -> tuple[str, ...]:
    before = len(fields.findings)
    read = ((node, fields.as_text(node, "owned_scope")) for node in fields.items("owned_scope"))
    patterns = [(node, text) for node, text in read if text is not None]
    for node, pattern in patterns:
        _check_pattern(fields, node, pattern)
    texts = tuple(pattern for _, pattern in patterns)
    if len(fields.findings) == before and all(text.startswith("!") for text in texts):
        said = "owned_scope has no pattern" + (" that takes anything in" if texts else "")
        node = fields.nodes.get("owned_scope", fields.node)
        fields.wrong(node, "owned_scope", f"{said}; expected at least one, such as src/**", "EMPTY_SCOPE")
    return texts


def _check_pattern(fields: _Fields, node: Node, pattern: str) -> None:
    if is_absolute_pattern(pattern):
        said = f"{pattern[:200]!r} is absolute; expected a pattern relative to the workspace root"
        fields.wrong(node, "owned_scope", said, "ABSOLUTE_PATH")
        return
    error = glob_error(pattern)
    if error is not None:
        fields.wrong(node, "owned_scope", f"{pattern[:200]!r} is no pattern: {error}", "INVALID_GLOB")


def _constraints(fields: _Fields) -> Iterator[Constraint]:
    for node in fields.items("constraints"):
        if isinstance(node, Table):
            constraint = _rule(fields, node)
            if constraint is not None:
                yield constraint
            continue
        text = fields.as_text(node, "constraints")
        if text is not None:
            yield Constraint(text)


def _rule(fields: _Fields, node: Table) -> Constraint | None:
    """A structured constraint; without a text of its own it gets one that says the rule."""
    from remit.core.constraint_shapes import SHAPES, problems  # only where the file changed, and has one

    parts = fields.pairs(node, "constraints")
    kind_node = parts.pop("type", None)
    if kind_node is None:
        fields.wrong(node, "constraints", f"the constraint has no type; expected {_any_of(tuple(SHAPES))}")
        return None
    kind = fields.as_text(kind_node, "constraints")
    if kind is None:
        return None
    if kind not in SHAPES:
        said = f"type is {kind[:80]!r}; expected {_any_of(tuple(SHAPES))}"
        fields.wrong(kind_node, "constraints", said)
    text_node = parts.pop("text", None)
    text = None if text_node is None else fields.as_text(text_node, "constraints")
    options = {name: _value(fields, part, "constraints") for name, part in parts.items()}
    for problem in problems(kind, options) if kind in SHAPES else ():
        fields.wrong(parts.get(problem.option, node), "constraints", problem.message)
    return Constraint(text or describe_rule(kind, options), kind, options)


def _value(fields: _Fields, node: Node, field: str) -> Value:
    """An option as a plain value. Only a whole number, true, false and null are more than their text:
    `version: 1.10` is not 1.1, and a path may be called `no`.
    """
    if isinstance(node, Series):
        return [_value(fields, item, field) for item in node.items]
    if isinstance(node, Table):
        return {name: _value(fields, part, field) for name, part in fields.pairs(node, field).items()}
    if is_null(node):
        return None
    text = fields.as_text(node, field)
    if text is None or (isinstance(node, Scalar) and node.style):
        return text
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    return int(text) if _INTEGER.fullmatch(text) else text


def _criteria(fields: _Fields) -> Iterator[Criterion]:
    field = "acceptance_criteria"
    for node in fields.items(field):
        parts = fields.pairs(node, field) if isinstance(node, Table) else {"text": node}
        for name in parts:
            if name not in ("text", "verify"):
                fields.unknown(parts[name], name)
        if "text" not in parts:
            fields.wrong(node, field, "the criterion has no text")
            continue
        text = fields.as_text(parts["text"], field)
        verify_node = parts.get("verify")
        bare = verify_node is None or is_null(verify_node)
        verify = None if bare or verify_node is None else fields.as_text(verify_node, field)
        if text is not None:
            yield Criterion(text, verify)


def _said(node: Node) -> str:
    if isinstance(node, Scalar):
        return "empty" if is_null(node) else repr(node.text[:80])
    return "a list" if isinstance(node, Series) else "a mapping"


def _any_of(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


# -- files ---------------------------------------------------------------------------------------------


def read_regular(path: Path, limit: int) -> bytes:
    """The bytes of a regular file. Raises OSError for anything else: a link, a folder, a FIFO, too large.

    A link is refused because its target may lie where an agent can write.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link; put the file itself there", str(path)) from error
        raise
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    with open(handle, "rb") as file:  # noqa: PTH123 - there is no Path for an open descriptor
        content = b"" if state.st_size > limit else file.read(limit + 1)
    if state.st_size > limit or len(content) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes ({limit >> 20} MiB), which is the limit")
    return content


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Put `content` at `path` whole or not at all, durably. `mode` is for a new file, less the umask.

    For Remit's own folders. What lies in a workspace is written by `write_below`: an agent may put links there.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        put_whole(folder, path.name, content, mode)
    finally:
        os.close(folder)


class _Compiled(Struct, frozen=True, array_like=True):
    format: int
    sha256: Sha256
    document: IntentsDocument


def _cached(cache: Path, digest: Sha256) -> IntentsDocument | None:
    try:
        compiled = msgspec.msgpack.decode(read_regular(cache, LIMIT * 8), type=_Compiled)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    fits = compiled.format == FORMAT and digest == compiled.sha256 == compiled.document.sha256
    return compiled.document if fits else None


def _remember(cache: Path, document: IntentsDocument) -> None:
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        compiled = _Compiled(FORMAT, document.sha256, document)
        write_atomically(cache, msgspec.msgpack.encode(compiled), 0o600)
