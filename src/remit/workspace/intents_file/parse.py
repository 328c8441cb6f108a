"""Reading of a list of intents, or of one intent in a file of its own: bytes in; intents and findings out."""

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import sha256
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
    is_intent_id,
    tell_apart,
)
from remit.core.intents import validation
from remit.core.scope.path_patterns import glob_error, is_absolute_pattern
from remit.core.untrusted_input import sanitise_line
from remit.workspace.intents_file import yaml_nodes

Choice = TypeVar("Choice", bound=str)
Value: TypeAlias = "str | int | bool | None | list[Value] | dict[str, Value]"

MAX_NAME_CHARS = 200
SOURCE_KEYS = frozenset({"request", "by", "url"})
UID = re.compile(r"[0-9a-f]{8}", re.ASCII)
VERSIONS = ("1.0",)
_TOP_KEYS = frozenset({"version", "active_intents", "metadata"})
_INTENT_KEYS = frozenset(Intent.__struct_fields__)
_CONFLICT_MARKER = re.compile(rb"^(?P<kind><{7}|={7}|>{7}|\|{7})(?P<side>(?:[ \t][^\r\n]*)?)\r?$", re.MULTILINE)
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_FLAG_WORDS = {**dict.fromkeys(("true", "yes", "on"), True), **dict.fromkeys(("false", "no", "off"), False)}
_TAG_KINDS = ("str", "int", "null", "bool", "timestamp", "seq", "map", "float")
_PLAIN_TAGS = frozenset({None, "!", *(f"tag:yaml.org,2002:{kind}" for kind in _TAG_KINDS)})


class IntentNode(Struct, frozen=True):
    """Position of an intent under `active_intents`. `key` is None in the list form."""

    node: yaml_nodes.YamlNode
    key: yaml_nodes.YamlScalar | None = None


def parse_intents(text: bytes, known: frozenset[str] = frozenset()) -> IntentsDocument:
    """Return the intents of a file and the findings, for any bytes; never raises. An intent with an error of its own is
    left out, and so is a second intent with the same id; an intent with wrong references stays. Findings are in file
    order. `known` are ids of intents that stand elsewhere. A mapping with the fields of an intent is the file of one.
    """
    digest = sha256(text)
    if (conflict := find_conflict(text)) is not None:
        return IntentsDocument((), (conflict,), digest)
    try:
        root = yaml_nodes.compose_nodes(yaml_nodes.decode_yaml(text))
    except yaml_nodes.UnreadableYaml as error:
        finding = LintFinding("YAML_PARSE_ERROR", "error", str(error), line=error.line, column=error.column)
        return IntentsDocument((), (finding,), digest)
    if root is not None and is_single_intent(root):
        placed, own = _read_intent(IntentNode(root))
        own += () if placed is None else validation.check_ids([placed])
        return IntentsDocument((placed.intent,) if placed and placed.sound else (), tuple(own), digest)
    intents, findings = _read_root(root, known)
    return IntentsDocument(intents, tuple(sorted(findings, key=lambda f: (f.line, f.column))), digest)


def find_conflict(text: bytes) -> LintFinding | None:
    """Return a finding at git's first conflict marker, if the text has markers of two kinds. They are looked for before
    YAML is read: its error would point elsewhere.
    """
    found = list(_CONFLICT_MARKER.finditer(text))
    if len({marker["kind"][:1] for marker in found}) < 2:
        return None
    sides = {marker["kind"][:1]: marker["side"].decode("utf-8", "replace").strip() for marker in reversed(found)}
    ours, theirs = (sanitise_line(sides.get(kind) or "not named", MAX_NAME_CHARS) for kind in (b"<", b">"))
    message = f"git left conflict markers (ours: {ours}, theirs: {theirs}). Run: remit intent resolve"
    return LintFinding("CONFLICT_MARKERS", "error", message, line=text.count(b"\n", 0, found[0].start()) + 1)


DOUBLED = "stands here a second time"


def parse_single_intent(text: bytes) -> tuple[validation.PlacedIntent | None, list[LintFinding]]:
    """Return the intent of a file of its own as far as it is readable, and the findings; never raises."""
    if (conflict := find_conflict(text)) is not None:
        return None, [conflict]
    try:
        root = yaml_nodes.compose_nodes(yaml_nodes.decode_yaml(text))
    except yaml_nodes.UnreadableYaml as error:
        return None, [LintFinding("YAML_PARSE_ERROR", "error", str(error), line=error.line, column=error.column)]
    if not isinstance(root, yaml_nodes.YamlMapping):
        text_of = "empty" if root is None or yaml_nodes.is_null(root) else describe_node(root)
        return None, [LintFinding("INVALID_FIELD", "error", f"the file is {text_of}; expected the fields of an intent")]
    placed, findings = _read_intent(IntentNode(root))
    # Both sides of a merge may have added a field in other places.
    cure = f"{DOUBLED}. Run: remit intent resolve"
    findings = [replace(f, message=f.message.replace(DOUBLED, cure)) if f.column == 1 else f for f in findings]
    return placed, [*findings, *validation.check_ids([placed] if placed else ())]


def is_single_intent(root: yaml_nodes.YamlNode | None) -> bool:
    """Return whether a document is one intent, not a list of them."""
    keys = (
        {key.text for key, _ in root.pairs if isinstance(key, yaml_nodes.YamlScalar)}
        if isinstance(root, yaml_nodes.YamlMapping)
        else ()
    )
    return "active_intents" not in keys and {"id", "owned_scope"} <= set(keys)


def parse_template(text: bytes) -> tuple[Intent | None, tuple[LintFinding, ...]]:
    """Return an intent without id, and the errors; never raises. An open scope is allowed. The fields are those of an
    intent in the intents file.
    """
    try:
        root = yaml_nodes.compose_nodes(yaml_nodes.decode_yaml(text))
    except yaml_nodes.UnreadableYaml as error:
        return None, (LintFinding("YAML_PARSE_ERROR", "error", str(error), line=error.line, column=error.column),)
    if not isinstance(root, yaml_nodes.YamlMapping):
        return None, (LintFinding("INVALID_FIELD", "error", "expected a mapping with the fields of an intent"),)
    placed, findings = _read_intent(IntentNode(root))
    errors = tuple(f for f in findings if f.severity == "error" and f.code != "EMPTY_SCOPE")
    return placed.intent if placed else None, errors


def list_intent_nodes(active: yaml_nodes.YamlNode) -> tuple[IntentNode, ...]:
    """Return the intents below `active_intents`, in list or mapping form."""
    if isinstance(active, yaml_nodes.YamlSequence):
        return tuple(IntentNode(item) for item in active.items)
    if isinstance(active, yaml_nodes.YamlMapping):
        return tuple(IntentNode(value, key) for key, value in active.pairs if isinstance(key, yaml_nodes.YamlScalar))
    return ()


def read_intent_node(entry: IntentNode) -> Intent | None:
    """Return the intent at a position; None if it has an error."""
    placed, _ = _read_intent(entry)
    return placed.intent if placed is not None and placed.sound else None


def _read_root(root: yaml_nodes.YamlNode | None, known: frozenset[str]) -> tuple[tuple[Intent, ...], list[LintFinding]]:
    if not isinstance(root, yaml_nodes.YamlMapping):
        text = "empty" if root is None or yaml_nodes.is_null(root) else describe_node(root)
        message = f"the file is {text}; expected a mapping with active_intents"
        line, column = (1, 1) if root is None else (root.line, root.column)
        return (), [LintFinding("MISSING_ACTIVE_INTENTS", "error", message, None, None, line, column)]
    top = FieldReader(root, _TOP_KEYS)
    version = top.text("version")
    if version is not None and version not in VERSIONS:
        top.add(top.nodes["version"], "version", f"version is {version[:80]!r}; expected {join_alternatives(VERSIONS)}")
    if "active_intents" not in top.nodes:
        top.add(root, "active_intents", "there is no active_intents", "MISSING_ACTIVE_INTENTS")
    active = top.find_value("active_intents")
    if active is None:
        return (), top.findings
    if isinstance(active, yaml_nodes.YamlScalar):
        top.add(active, "active_intents", f"active_intents is {describe_node(active)}; expected a list")
    if isinstance(active, yaml_nodes.YamlMapping):
        top.read_pairs(active, "active_intents")
    read = [_read_intent(entry) for entry in list_intent_nodes(active)]
    placed = [intent for intent, _ in read if intent is not None]
    by_id: dict[str, list[validation.PlacedIntent]] = {}
    for item in placed:
        if is_intent_id(item.intent.id):
            by_id.setdefault(item.intent.id, []).append(item)
    findings = [*top.findings, *(f for _, own in read for f in own), *validation.validate_intents(placed, known)]
    sound = [[item.intent for item in found if item.sound] for found in by_id.values()]
    return tuple(intent for own in sound for intent in (own if len(own) < 2 else tell_apart(own))), findings


# -- an intent -----------------------------------------------------------------------------------------------


def _read_intent(entry: IntentNode) -> tuple[validation.PlacedIntent | None, list[LintFinding]]:
    """Return the intent as far as readable (None for a non-mapping), and its findings."""
    node, key = entry.node, entry.key
    name = key.text if key is not None else None
    if key is None and isinstance(node, yaml_nodes.YamlMapping):
        ids = (value for k, value in node.pairs if isinstance(k, yaml_nodes.YamlScalar) and k.text == "id")
        first = next(ids, None)
        name = first.text if isinstance(first, yaml_nodes.YamlScalar) and not yaml_nodes.is_null(first) else None
    fields = FieldReader(node, _INTENT_KEYS, name)
    if not isinstance(node, yaml_nodes.YamlMapping):
        return None, fields.findings
    inner = fields.text("id")
    if key is not None and inner is not None and inner != key.text:
        fields.add(fields.nodes["id"], "id", f"id is {inner[:80]!r} under the key {key.text[:80]!r}")
    title = fields.text("name") or ""
    if len(title) > MAX_NAME_CHARS:
        said = f"name has {len(title)} characters; expected at most {MAX_NAME_CHARS}"
        fields.add(fields.nodes["name"], "name", said)
    status = fields.find_value("status")
    alias = STATUS_ALIASES.get(status.text) if isinstance(status, yaml_nodes.YamlScalar) else None
    intent = Intent(
        id=name or "",
        owned_scope=_read_scope(fields),
        name=title,
        description=fields.text("description") or "",
        status=alias or fields.choice("status", STATUSES, "DRAFT", "INVALID_STATUS"),
        priority=fields.choice("priority", PRIORITIES, "MEDIUM"),
        owner=fields.text("owner", own=True) or "",
        constraints=tuple(_read_constraints(fields)),
        acceptance_criteria=tuple(_read_criteria(fields)),
        companions=fields.flag("companions"),
        network=fields.choice("network", ("allow", "none"), "allow"),
        dependencies=fields.texts("dependencies"),
        parent_intent=fields.text("parent_intent"),
        references=fields.texts("references", own=True),
        blocked_reason=fields.text("blocked_reason"),
        created_at=fields.time("created_at"),
        updated_at=fields.time("updated_at"),
        source=_read_source(fields),
        uid=_read_uid(fields),
        formerly=fields.texts("formerly"),
    )
    places = {"": validation.FilePosition(node.line, node.column)}
    for field, value in fields.nodes.items():
        places[field] = validation.FilePosition(value.line, value.column)
        for n, item in enumerate(value.items if isinstance(value, yaml_nodes.YamlSequence) else ()):
            places[f"{field}.{n}"] = validation.FilePosition(item.line, item.column)
    if key is not None:
        places["id"] = validation.FilePosition(key.line, key.column)
    sound = all(f.severity == "warning" for f in fields.findings)
    return validation.PlacedIntent(intent, places, sound), fields.findings


def _read_source(fields: "FieldReader") -> dict[str, str]:
    node = fields.find_value("source")
    parts = fields.read_pairs(node, "source") if node is not None else {}
    for name in (name for name in parts if name not in SOURCE_KEYS):
        fields.add_unknown_key(parts[name], name)
    known = {name: fields.as_text(part, "source") for name, part in parts.items() if name in SOURCE_KEYS}
    return {name: text for name, text in known.items() if text}


def _read_uid(fields: "FieldReader") -> str | None:
    uid = fields.text("uid", own=True)
    if uid is not None and UID.fullmatch(uid) is None:
        fields.add(fields.nodes["uid"], "uid", f"uid is {uid[:80]!r}; expected eight digits 0-9 a-f, in quotes")
    return uid


def _read_scope(fields: "FieldReader") -> tuple[str, ...]:
    before, field = len(fields.findings), "owned_scope"
    read = [(node, fields.as_text(node, field)) for node in fields.items(field)]
    texts: list[str] = []
    for node, pattern in read:
        if pattern is None:
            continue
        texts.append(pattern)
        if is_absolute_pattern(pattern):
            said = f"{pattern[:200]!r} is absolute; expected a pattern relative to the workspace root"
            fields.add(node, field, said, "ABSOLUTE_PATH")
        elif (error := glob_error(pattern)) is not None:
            fields.add(node, field, f"{pattern[:200]!r} is no pattern: {error}", "INVALID_GLOB")
    if len(fields.findings) == before and all(text.startswith("!") for text in texts):
        said = "owned_scope has no pattern" + (" that takes anything in" if texts else "")
        node = fields.nodes.get(field, fields.node)
        fields.add(node, field, f"{said}; expected at least one, such as src/**", "EMPTY_SCOPE")
    return tuple(texts)


def _read_constraints(fields: "FieldReader") -> Iterator[Constraint]:
    field = "constraints"
    for node in fields.items(field):
        if not isinstance(node, yaml_nodes.YamlMapping):
            if (text := fields.as_text(node, field)) is not None:
                yield Constraint(text)
            continue
        from remit.core.intents.constraints import (  # costs start-up time; needed for changed files with rules
            CONSTRAINT_KINDS,
            OTHER_NAMES,
            find_constraint_problems,
            translate_constraint,
        )

        parts = fields.read_pairs(node, field)
        kind_node = parts.pop("type", None)
        expected = f"expected {join_alternatives(tuple(CONSTRAINT_KINDS))}"
        if kind_node is None:
            fields.add(node, field, f"the constraint has no type; {expected}")
            continue
        kind = fields.as_text(kind_node, field)
        if kind is None:
            continue
        if kind not in CONSTRAINT_KINDS and kind not in OTHER_NAMES:
            fields.add(kind_node, field, f"type is {kind[:80]!r}; {expected}")
        text_node = parts.pop("text", None)
        text = None if text_node is None else fields.as_text(text_node, field)
        read = {name: _read_option(fields, part, field) for name, part in parts.items()}
        kind, options = translate_constraint(kind, read)
        for problem in find_constraint_problems(kind, options) if kind in CONSTRAINT_KINDS else ():
            fields.add(parts.get(problem.option, node), field, problem.message)
        yield Constraint(text or validation.describe_constraint(kind, options), kind, options)


def _read_criteria(fields: "FieldReader") -> Iterator[Criterion]:
    field = "acceptance_criteria"
    for node in fields.items(field):
        parts = fields.read_pairs(node, field) if isinstance(node, yaml_nodes.YamlMapping) else {"text": node}
        for name in (name for name in parts if name not in ("text", "verify")):
            fields.add_unknown_key(parts[name], name)
        if "text" not in parts:
            fields.add(node, field, "the criterion has no text")
            continue
        text = fields.as_text(parts["text"], field)
        verify = parts.get("verify")
        command = None if verify is None or yaml_nodes.is_null(verify) else fields.as_text(verify, field)
        if text is not None:
            yield Criterion(text, command)


def _read_option(fields: "FieldReader", node: yaml_nodes.YamlNode, field: str) -> Value:
    """Return an option as a plain value. Only integers, true, false and null are more than text: `version: 1.10` is not
    1.1, and a path may be named `no`.
    """
    if isinstance(node, yaml_nodes.YamlSequence):
        return [_read_option(fields, item, field) for item in node.items]
    if isinstance(node, yaml_nodes.YamlMapping):
        return {name: _read_option(fields, part, field) for name, part in fields.read_pairs(node, field).items()}
    if yaml_nodes.is_null(node):
        return None
    text = fields.as_text(node, field)
    if text is None or (isinstance(node, yaml_nodes.YamlScalar) and node.style):
        return text
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    return int(text) if _INTEGER.fullmatch(text) else text


# -- typed fields --------------------------------------------------------------------------------------------


class FieldReader:
    """Reads fields of a mapping by name. Errors are collected in `findings`, never raised. With `own`, a text must be
    one to YAML, too: numbers, dates and booleans are errors.
    """

    def __init__(self, node: yaml_nodes.YamlNode, known: frozenset[str], intent_id: str | None = None) -> None:
        self.node = node
        self.intent_id = intent_id
        self.findings: list[LintFinding] = []
        self.nodes: dict[str, yaml_nodes.YamlNode] = self.read_pairs(node)
        for name in self.nodes:
            if name not in known:
                self.add_unknown_key(self.nodes[name], name)

    def add(
        self,
        node: yaml_nodes.YamlNode,
        field: str | None,
        message: str,
        code: LintCode = "INVALID_FIELD",
        severity: Severity = "error",
    ) -> None:
        self.findings.append(LintFinding(code, severity, message, self.intent_id, field, node.line, node.column))

    def add_unknown_key(self, node: yaml_nodes.YamlNode, field: str) -> None:
        self.add(node, field, f"{field[:80]!r} is not a key Remit knows; kept", "UNKNOWN_KEY", "warning")

    def read_pairs(self, node: yaml_nodes.YamlNode, field: str | None = None) -> dict[str, yaml_nodes.YamlNode]:
        found: dict[str, yaml_nodes.YamlNode] = {}
        if not isinstance(node, yaml_nodes.YamlMapping):
            self.add(node, field, f"expected a mapping, got {describe_node(node)}")
            return found
        for key, value in node.pairs:
            name = key.text if isinstance(key, yaml_nodes.YamlScalar) else None
            if name is None:
                self.add(key, field, f"a key must be text, got {describe_node(key)}")
            elif name == "<<":
                self.add(key, field, "merge keys (<<) are not read; write the fields out")
            elif name in found:
                self.add(key, field or name, f"the key {name[:80]!r} {DOUBLED}")
            else:
                found[name] = value
        return found

    def find_value(self, field: str) -> yaml_nodes.YamlNode | None:
        node = self.nodes.get(field)
        return None if node is None or yaml_nodes.is_null(node) else node

    def as_text(self, node: yaml_nodes.YamlNode, field: str, *, own: bool = False) -> str | None:
        """Return the text of `node`; None, with a finding, for a node without text."""
        if yaml_nodes.is_null(node):
            self.add(node, field, f"{field} is empty here; expected text")
        elif node.tag not in _PLAIN_TAGS:
            self.add(node, field, f"{node.tag} reads as a YAML tag; quote a value that starts with !")
        elif not isinstance(node, yaml_nodes.YamlScalar):
            self.add(node, field, f"{field} is {describe_node(node)}; expected text (quote braces and brackets)")
        elif own and (kind := yaml_kind(node)) != "str":
            text = node.text[:80]
            self.add(node, field, f"{field} is {text}, which YAML reads as {kind}; expected text, in quotes: {text!r}")
        else:
            return node.text
        return None

    def text(self, field: str, *, own: bool = False) -> str | None:
        node = self.find_value(field)
        return None if node is None else self.as_text(node, field, own=own)

    def texts(self, field: str, *, own: bool = False) -> tuple[str, ...]:
        read = (self.as_text(node, field, own=own) for node in self.items(field))
        return tuple(text for text in read if text is not None)

    def items(self, field: str) -> tuple[yaml_nodes.YamlNode, ...]:
        node = self.find_value(field)
        if isinstance(node, yaml_nodes.YamlSequence):
            return node.items
        if node is not None:
            self.add(node, field, f"{field} is {describe_node(node)}; expected a list")
        return ()

    def choice(self, field: str, among: Sequence[Choice], default: Choice, code: LintCode = "INVALID_FIELD") -> Choice:
        text = self.text(field)
        for item in among:
            if text == item:
                return item
        if text is not None:
            said = f"{field} is {text[:80]!r}; expected {join_alternatives(among)}"
            self.add(self.nodes[field], field, said, code)
        return default

    def flag(self, field: str) -> bool:
        node = self.find_value(field)
        if node is None:
            return False
        value = (
            _FLAG_WORDS.get(node.text.lower()) if isinstance(node, yaml_nodes.YamlScalar) and not node.style else None
        )
        if value is None:
            self.add(node, field, f"{field} is {describe_node(node)}; expected true or false")
        return value or False

    def time(self, field: str) -> str | None:
        text = self.text(field)
        if text is not None and validation.parse_time(text) is None:
            said = f"{field} is {text[:80]!r}; expected ISO 8601 with Z or an offset: 2026-02-16T10:00:00Z"
            self.add(self.nodes[field], field, said, "INVALID_TIMESTAMP_FORMAT")
        return text


def yaml_kind(node: yaml_nodes.YamlNode) -> str:
    """Return the YAML 1.1 type of a value: `str`, `int`, `float`, `bool`, `timestamp` …"""
    if not isinstance(node, yaml_nodes.YamlScalar) or node.style or node.tag is not None:
        return "str"
    import yaml  # loaded already: it read the node

    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(node.text[:1], ())
    tag = next((tag for tag, form in resolvers if form.match(node.text)), "str")
    return tag.rpartition(":")[2]


def join_alternatives(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def describe_node(node: yaml_nodes.YamlNode) -> str:
    if isinstance(node, yaml_nodes.YamlScalar):
        return "empty" if yaml_nodes.is_null(node) else repr(node.text[:80])
    return "a list" if isinstance(node, yaml_nodes.YamlSequence) else "a mapping"
