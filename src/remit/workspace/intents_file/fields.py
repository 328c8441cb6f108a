"""Typed access to the fields of a mapping in the intents file, with findings."""

from collections.abc import Sequence
from typing import TypeVar

from remit.core.intent import LintCode, LintFinding, Severity
from remit.core.intents.validation import parse_time
from remit.workspace.intents_file.yaml_nodes import YamlMapping, YamlNode, YamlScalar, YamlSequence, is_null

Choice = TypeVar("Choice", bound=str)
_TRUE_WORDS = frozenset({"true", "yes", "on"})
_FALSE_WORDS = frozenset({"false", "no", "off"})
_PLAIN_TAGS = frozenset(
    {None, "!", *(f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "null", "bool", "timestamp"))}
) | frozenset({f"tag:yaml.org,2002:{kind}" for kind in ("seq", "map", "float")})


class FieldReader:
    """Reads fields of a mapping by name. Errors are collected in `findings`, never raised."""

    def __init__(self, node: YamlNode, known: frozenset[str], intent_id: str | None = None) -> None:
        self.node = node
        self.intent_id = intent_id
        self.findings: list[LintFinding] = []
        self.nodes: dict[str, YamlNode] = self.read_pairs(node)
        for name in self.nodes:
            if name not in known:
                self.add_unknown_key(self.nodes[name], name)

    def add_error(self, node: YamlNode, field: str | None, message: str, code: LintCode = "INVALID_FIELD") -> None:
        self._note(code, "error", message, field, node)

    def add_unknown_key(self, node: YamlNode, field: str) -> None:
        self._note("UNKNOWN_KEY", "warning", f"{field[:80]!r} is not a key Remit knows; kept", field, node)

    def read_pairs(self, node: YamlNode, field: str | None = None) -> dict[str, YamlNode]:
        """Return the mapping's values by key, the first of each."""
        found: dict[str, YamlNode] = {}
        if not isinstance(node, YamlMapping):
            self.add_error(node, field, f"expected a mapping, got {describe_node(node)}")
            return found
        for key, value in node.pairs:
            name = key.text if isinstance(key, YamlScalar) else None
            if name is None:
                self.add_error(key, field, f"a key must be text, got {describe_node(key)}")
            elif name == "<<":
                self.add_error(key, field, "merge keys (<<) are not read; write the fields out")
            elif name in found:
                self.add_error(key, field or name, f"the key {name[:80]!r} stands here a second time")
            else:
                found[name] = value
        return found

    def find_value(self, field: str) -> YamlNode | None:
        node = self.nodes.get(field)
        return None if node is None or is_null(node) else node

    def as_text(self, node: YamlNode, field: str) -> str | None:
        """Return the text of `node`; None, with a finding, for a node without text."""
        if is_null(node):
            self.add_error(node, field, f"{field} is empty here; expected text")
        elif node.tag not in _PLAIN_TAGS:
            self.add_error(node, field, f"{node.tag} reads as a YAML tag; quote a value that starts with !")
        elif not isinstance(node, YamlScalar):
            self.add_error(node, field, f"{field} is {describe_node(node)}; expected text (quote braces and brackets)")
        else:
            return node.text
        return None

    def as_own_text(self, node: YamlNode, field: str) -> str | None:
        """Return the text of `node` if YAML reads the node as text; else None, with a finding."""
        text = self.as_text(node, field)
        kind = yaml_kind(node)
        if text is None or kind == "str":
            return text
        self.add_error(
            node, field, f"{field} is {text[:80]}, which YAML reads as {kind}; expected text, in quotes: {text[:80]!r}"
        )
        return None

    def own_text(self, field: str) -> str | None:
        """Return a text field; numbers, dates and booleans are errors."""
        node = self.find_value(field)
        return None if node is None else self.as_own_text(node, field)

    def own_texts(self, field: str) -> tuple[str, ...]:
        """Return a list of texts; numbers, dates and booleans are errors."""
        read = (self.as_own_text(node, field) for node in self.items(field))
        return tuple(text for text in read if text is not None)

    def text(self, field: str) -> str | None:
        """Return a text field; None if absent, null or wrong."""
        node = self.find_value(field)
        return None if node is None else self.as_text(node, field)

    def items(self, field: str) -> tuple[YamlNode, ...]:
        """Return the nodes of a list field."""
        node = self.find_value(field)
        if node is None:
            return ()
        if isinstance(node, YamlSequence):
            return node.items
        self.add_error(node, field, f"{field} is {describe_node(node)}; expected a list")
        return ()

    def texts(self, field: str) -> tuple[str, ...]:
        read = (self.as_text(node, field) for node in self.items(field))
        return tuple(text for text in read if text is not None)

    def choice(self, field: str, among: Sequence[Choice], default: Choice, code: LintCode = "INVALID_FIELD") -> Choice:
        """Return the matching word of `among`, case-sensitive; `default` if absent or wrong."""
        text = self.text(field)
        if text is None:
            return default
        for item in among:
            if text == item:
                return item
        self.add_error(self.nodes[field], field, f"{field} is {text[:80]!r}; expected {join_alternatives(among)}", code)
        return default

    def flag(self, field: str) -> bool:
        """Return a boolean; False if absent."""
        node = self.find_value(field)
        if node is None:
            return False
        word = node.text.lower() if isinstance(node, YamlScalar) and not node.style else ""
        if word not in _TRUE_WORDS | _FALSE_WORDS:
            self.add_error(node, field, f"{field} is {describe_node(node)}; expected true or false")
        return word in _TRUE_WORDS

    def time(self, field: str) -> str | None:
        """Return a timestamp as written."""
        text = self.text(field)
        if text is not None and parse_time(text) is None:
            said = f"{field} is {text[:80]!r}; expected ISO 8601 with Z or an offset: 2026-02-16T10:00:00Z"
            self.add_error(self.nodes[field], field, said, "INVALID_TIMESTAMP_FORMAT")
        return text

    def _note(self, code: LintCode, severity: Severity, message: str, field: str | None, node: YamlNode) -> None:
        finding = LintFinding(code, severity, message, self.intent_id, field, node.line, node.column)
        self.findings.append(finding)


def yaml_kind(node: YamlNode) -> str:
    """Return the YAML 1.1 type of a value: `str`, `int`, `float`, `bool`, `timestamp` …"""
    if not isinstance(node, YamlScalar) or node.style or node.tag is not None:
        return "str"
    import yaml  # loaded already: it read the node

    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(node.text[:1], ())
    tag = next((tag for tag, form in resolvers if form.match(node.text)), "str")
    return tag.rpartition(":")[2]


def join_alternatives(words: Sequence[str]) -> str:
    """Join words for a message: a, b or c."""
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def describe_node(node: YamlNode) -> str:
    if isinstance(node, YamlScalar):
        return "empty" if is_null(node) else repr(node.text[:80])
    return "a list" if isinstance(node, YamlSequence) else "a mapping"
