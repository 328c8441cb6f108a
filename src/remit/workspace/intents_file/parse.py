"""Reading of `.orchestration/active_intents.yaml`: bytes in; intents and findings out."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.core.intent import (
    PRIORITIES,
    STATUS_ALIASES,
    STATUSES,
    Constraint,
    Criterion,
    Intent,
    IntentsDocument,
    LintFinding,
    Status,
    is_intent_id,
)
from remit.core.intents.validation import FilePosition, PlacedIntent, describe_constraint, validate_intents
from remit.core.scope.globs import glob_error, is_absolute_pattern
from remit.workspace.intents_file.fields import FieldReader, describe_node, join_alternatives
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

Value: TypeAlias = "str | int | bool | None | list[Value] | dict[str, Value]"

MAX_NAME_CHARS = 200
VERSIONS = frozenset({"1.0"})
_TOP_KEYS = frozenset({"version", "active_intents", "metadata"})
_INTENT_KEYS = frozenset(Intent.__struct_fields__)
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)


class IntentNode(Struct, frozen=True):
    """Position of an intent under `active_intents`. `key` is None in the list form."""

    node: YamlNode
    key: YamlScalar | None = None


def parse_intents(text: bytes) -> IntentsDocument:
    """Return the intents of a file and the findings, for any bytes; never raises.

    An intent with an error of its own is left out, and so is a second intent with the same id; an intent with wrong
    references stays. Findings are in file order.
    """
    digest = sha256(text)
    try:
        root = compose_nodes(decode_yaml(text))
    except UnreadableYaml as error:
        finding = LintFinding("YAML_PARSE_ERROR", "error", str(error), line=error.line, column=error.column)
        return IntentsDocument((), (finding,), digest)
    intents, findings = _read_root(root)
    return IntentsDocument(intents, tuple(sorted(findings, key=lambda f: (f.line, f.column))), digest)


def parse_template(text: bytes) -> tuple[Intent | None, tuple[LintFinding, ...]]:
    """Return an intent without id, and the errors; never raises. An open scope is allowed.

    The fields are those of an intent in the intents file.
    """
    try:
        root = compose_nodes(decode_yaml(text))
    except UnreadableYaml as error:
        return None, (LintFinding("YAML_PARSE_ERROR", "error", str(error), line=error.line, column=error.column),)
    if not isinstance(root, YamlMapping):
        return None, (LintFinding("INVALID_FIELD", "error", "expected a mapping with the fields of an intent"),)
    placed, findings = _read_intent(IntentNode(root))
    errors = tuple(f for f in findings if f.severity == "error" and f.code != "EMPTY_SCOPE")
    return placed.intent if placed else None, errors


def list_intent_nodes(active: YamlNode) -> tuple[IntentNode, ...]:
    """Return the intents below `active_intents`, in list or mapping form."""
    if isinstance(active, YamlSequence):
        return tuple(IntentNode(item) for item in active.items)
    if isinstance(active, YamlMapping):
        return tuple(IntentNode(value, key) for key, value in active.pairs if isinstance(key, YamlScalar))
    return ()


def _read_root(root: YamlNode | None) -> tuple[tuple[Intent, ...], list[LintFinding]]:
    if root is None or is_null(root) or not isinstance(root, YamlMapping):
        text = "empty" if root is None or is_null(root) else describe_node(root)
        message = f"the file is {text}; expected a mapping with active_intents"
        line, column = (1, 1) if root is None else (root.line, root.column)
        return (), [LintFinding("MISSING_ACTIVE_INTENTS", "error", message, None, None, line, column)]
    top = FieldReader(root, _TOP_KEYS)
    version = top.text("version")
    if version is not None and version not in VERSIONS:
        text = f"version is {version[:80]!r}; expected {join_alternatives(sorted(VERSIONS))}"
        top.add_error(top.nodes["version"], "version", text)
    if "active_intents" not in top.nodes:
        top.add_error(root, "active_intents", "there is no active_intents", "MISSING_ACTIVE_INTENTS")
    active = top.find_value("active_intents")
    if active is None:
        return (), top.findings
    if isinstance(active, YamlScalar):
        top.add_error(active, "active_intents", f"active_intents is {describe_node(active)}; expected a list")
    if isinstance(active, YamlMapping):
        top.read_pairs(active, "active_intents")
    read = [_read_intent(entry) for entry in list_intent_nodes(active)]
    placed = [intent for intent, _ in read if intent is not None]
    findings = [*top.findings, *(f for _, own in read for f in own), *validate_intents(placed)]
    return _sound(placed), findings


def _sound(placed: Sequence[PlacedIntent]) -> tuple[Intent, ...]:
    first: dict[str, PlacedIntent] = {}
    for item in placed:
        if is_intent_id(item.intent.id):
            first.setdefault(item.intent.id, item)
    return tuple(item.intent for item in first.values() if item.sound)


def _read_intent(entry: IntentNode) -> tuple[PlacedIntent | None, list[LintFinding]]:
    """Return the intent as far as readable (None for a non-mapping), and its findings."""
    name = _declared_id(entry)
    fields = FieldReader(entry.node, _INTENT_KEYS, name)
    if not isinstance(entry.node, YamlMapping):
        return None, fields.findings
    inner = fields.text("id")
    if entry.key is not None and inner is not None and inner != entry.key.text:
        fields.add_error(fields.nodes["id"], "id", f"id is {inner[:80]!r} under the key {entry.key.text[:80]!r}")
    intent = Intent(
        id=name or "",
        owned_scope=_scope(fields),
        name=_name(fields),
        description=fields.text("description") or "",
        status=_status(fields),
        priority=fields.choice("priority", PRIORITIES, "MEDIUM"),
        owner=fields.own_text("owner") or "",
        constraints=tuple(constraints_in(fields)),
        acceptance_criteria=tuple(criteria_in(fields)),
        companions=fields.flag("companions"),
        network=fields.choice("network", ("allow", "none"), "allow"),
        dependencies=fields.texts("dependencies"),
        parent_intent=fields.text("parent_intent"),
        references=fields.own_texts("references"),
        blocked_reason=fields.text("blocked_reason"),
        created_at=fields.time("created_at"),
        updated_at=fields.time("updated_at"),
    )
    sound = all(f.severity == "warning" for f in fields.findings)
    return PlacedIntent(intent, _places(entry, fields.nodes), sound), fields.findings


def _declared_id(entry: IntentNode) -> str | None:
    if entry.key is not None:
        return entry.key.text
    if not isinstance(entry.node, YamlMapping):
        return None
    for key, value in entry.node.pairs:
        if isinstance(key, YamlScalar) and key.text == "id":
            return value.text if isinstance(value, YamlScalar) and not is_null(value) else None
    return None


def _places(entry: IntentNode, nodes: Mapping[str, YamlNode]) -> dict[str, FilePosition]:
    places = {"": FilePosition(entry.node.line, entry.node.column)}
    for name, node in nodes.items():
        places[name] = FilePosition(node.line, node.column)
        if isinstance(node, YamlSequence):
            spots = {f"{name}.{n}": FilePosition(item.line, item.column) for n, item in enumerate(node.items)}
            places.update(spots)
    if entry.key is not None:
        places["id"] = FilePosition(entry.key.line, entry.key.column)
    return places


def _status(fields: FieldReader) -> Status:
    node = fields.find_value("status")
    alias = STATUS_ALIASES.get(node.text) if isinstance(node, YamlScalar) else None
    return alias or fields.choice("status", STATUSES, "DRAFT", "INVALID_STATUS")


def _name(fields: FieldReader) -> str:
    name = fields.text("name") or ""
    if len(name) > MAX_NAME_CHARS:
        text = f"name has {len(name)} characters; expected at most {MAX_NAME_CHARS}"
        fields.add_error(fields.nodes["name"], "name", text)
    return name


def _scope(fields: FieldReader) -> tuple[str, ...]:
    before = len(fields.findings)
    read = ((node, fields.as_text(node, "owned_scope")) for node in fields.items("owned_scope"))
    patterns = [(node, text) for node, text in read if text is not None]
    for node, pattern in patterns:
        _check_pattern(fields, node, pattern)
    texts = tuple(pattern for _, pattern in patterns)
    if len(fields.findings) == before and all(text.startswith("!") for text in texts):
        said = "owned_scope has no pattern" + (" that takes anything in" if texts else "")
        node = fields.nodes.get("owned_scope", fields.node)
        fields.add_error(node, "owned_scope", f"{said}; expected at least one, such as src/**", "EMPTY_SCOPE")
    return texts


def _check_pattern(fields: FieldReader, node: YamlNode, pattern: str) -> None:
    if is_absolute_pattern(pattern):
        text = f"{pattern[:200]!r} is absolute; expected a pattern relative to the workspace root"
        fields.add_error(node, "owned_scope", text, "ABSOLUTE_PATH")
        return
    error = glob_error(pattern)
    if error is not None:
        fields.add_error(node, "owned_scope", f"{pattern[:200]!r} is no pattern: {error}", "INVALID_GLOB")


def constraints_in(fields: FieldReader) -> Iterator[Constraint]:
    """Yield the readable constraints; findings on the rest go to `fields`."""
    for node in fields.items("constraints"):
        if isinstance(node, YamlMapping):
            constraint = _rule(fields, node)
            if constraint is not None:
                yield constraint
            continue
        text = fields.as_text(node, "constraints")
        if text is not None:
            yield Constraint(text)


def criteria_in(fields: FieldReader) -> Iterator[Criterion]:
    """Yield the readable criteria; findings on the rest go to `fields`."""
    field = "acceptance_criteria"
    for node in fields.items(field):
        parts = fields.read_pairs(node, field) if isinstance(node, YamlMapping) else {"text": node}
        for name in parts:
            if name not in ("text", "verify"):
                fields.add_unknown_key(parts[name], name)
        if "text" not in parts:
            fields.add_error(node, field, "the criterion has no text")
            continue
        text = fields.as_text(parts["text"], field)
        verify_node = parts.get("verify")
        bare = verify_node is None or is_null(verify_node)
        verify = None if bare or verify_node is None else fields.as_text(verify_node, field)
        if text is not None:
            yield Criterion(text, verify)


def _rule(fields: FieldReader, node: YamlMapping) -> Constraint | None:
    """Return a structured constraint; without its own text, the constraint gets a description of the rule."""
    from remit.core.intents.constraints import (  # costs start-up time; needed for changed files with rules
        CONSTRAINT_KINDS,
        find_constraint_problems,
    )

    parts = fields.read_pairs(node, "constraints")
    kind_node = parts.pop("type", None)
    if kind_node is None:
        fields.add_error(
            node, "constraints", f"the constraint has no type; expected {join_alternatives(tuple(CONSTRAINT_KINDS))}"
        )
        return None
    kind = fields.as_text(kind_node, "constraints")
    if kind is None:
        return None
    if kind not in CONSTRAINT_KINDS:
        said = f"type is {kind[:80]!r}; expected {join_alternatives(tuple(CONSTRAINT_KINDS))}"
        fields.add_error(kind_node, "constraints", said)
    text_node = parts.pop("text", None)
    text = None if text_node is None else fields.as_text(text_node, "constraints")
    options = {name: _value(fields, part, "constraints") for name, part in parts.items()}
    for problem in find_constraint_problems(kind, options) if kind in CONSTRAINT_KINDS else ():
        fields.add_error(parts.get(problem.option, node), "constraints", problem.message)
    return Constraint(text or describe_constraint(kind, options), kind, options)


def _value(fields: FieldReader, node: YamlNode, field: str) -> Value:
    """Return an option as a plain value. Only integers, true, false and null are more than text: `version: 1.10` is not
    1.1, and a path may be named `no`.
    """
    if isinstance(node, YamlSequence):
        return [_value(fields, item, field) for item in node.items]
    if isinstance(node, YamlMapping):
        return {name: _value(fields, part, field) for name, part in fields.read_pairs(node, field).items()}
    if is_null(node):
        return None
    text = fields.as_text(node, field)
    if text is None or (isinstance(node, YamlScalar) and node.style):
        return text
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    return int(text) if _INTEGER.fullmatch(text) else text
