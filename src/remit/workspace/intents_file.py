"""Reading `.orchestration/active_intents.yaml`: bytes in; intents, and everything wrong with them, out."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from remit.core.contents import sha256
from remit.core.globs import glob_error, is_absolute_pattern
from remit.core.intent import (
    PRIORITIES,
    STATUS_ALIASES,
    STATUSES,
    Intent,
    IntentsDocument,
    LintFinding,
    Status,
    is_intent_id,
)
from remit.core.validation import Place, Placed, validate
from remit.workspace.intents_fields import Fields, any_of, said_of
from remit.workspace.intents_rules import constraints_in, criteria_in
from remit.workspace.yaml_nodes import Node, Scalar, Series, Table, Unreadable, compose, decode, is_null

LONGEST_NAME = 200
VERSIONS = frozenset({"1.0"})
_TOP_KEYS = frozenset({"version", "active_intents", "metadata"})
_INTENT_KEYS = frozenset(Intent.__struct_fields__)


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


def parse_template(text: bytes) -> tuple[Intent | None, tuple[LintFinding, ...]]:
    """One intent without an id, whose scope may be left open, and the errors in it; never raises.

    The fields are those of an intent in the intents file.
    """
    try:
        root = compose(decode(text))
    except Unreadable as error:
        return None, (LintFinding("YAML_PARSE_ERROR", "error", str(error), line=error.line, column=error.column),)
    if not isinstance(root, Table):
        return None, (LintFinding("INVALID_FIELD", "error", "expected a mapping with the fields of an intent"),)
    placed, findings = _read_intent(Entry(root))
    errors = tuple(f for f in findings if f.severity == "error" and f.code != "EMPTY_SCOPE")
    return placed.intent if placed else None, errors


def entries(active: Node) -> tuple[Entry, ...]:
    """The intents below `active_intents`, in the list or the mapping form."""
    if isinstance(active, Series):
        return tuple(Entry(item) for item in active.items)
    if isinstance(active, Table):
        return tuple(Entry(value, key) for key, value in active.pairs if isinstance(key, Scalar))
    return ()


def _read_root(root: Node | None) -> tuple[tuple[Intent, ...], list[LintFinding]]:
    if root is None or is_null(root) or not isinstance(root, Table):
        said = "empty" if root is None or is_null(root) else said_of(root)
        message = f"the file is {said}; expected a mapping with active_intents"
        line, column = (1, 1) if root is None else (root.line, root.column)
        return (), [LintFinding("MISSING_ACTIVE_INTENTS", "error", message, None, None, line, column)]
    top = Fields(root, _TOP_KEYS)
    version = top.text("version")
    if version is not None and version not in VERSIONS:
        said = f"version is {version[:80]!r}; expected {any_of(sorted(VERSIONS))}"
        top.wrong(top.nodes["version"], "version", said)
    if "active_intents" not in top.nodes:
        top.wrong(root, "active_intents", "there is no active_intents", "MISSING_ACTIVE_INTENTS")
    active = top.given("active_intents")
    if active is None:
        return (), top.findings
    if isinstance(active, Scalar):
        top.wrong(active, "active_intents", f"active_intents is {said_of(active)}; expected a list")
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
    fields = Fields(entry.node, _INTENT_KEYS, name)
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


def _status(fields: Fields) -> Status:
    node = fields.given("status")
    alias = STATUS_ALIASES.get(node.text) if isinstance(node, Scalar) else None
    return alias or fields.choice("status", STATUSES, "DRAFT", "INVALID_STATUS")


def _name(fields: Fields) -> str:
    name = fields.text("name") or ""
    if len(name) > LONGEST_NAME:
        said = f"name has {len(name)} characters; expected at most {LONGEST_NAME}"
        fields.wrong(fields.nodes["name"], "name", said)
    return name


def _scope(fields: Fields) -> tuple[str, ...]:
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


def _check_pattern(fields: Fields, node: Node, pattern: str) -> None:
    if is_absolute_pattern(pattern):
        said = f"{pattern[:200]!r} is absolute; expected a pattern relative to the workspace root"
        fields.wrong(node, "owned_scope", said, "ABSOLUTE_PATH")
        return
    error = glob_error(pattern)
    if error is not None:
        fields.wrong(node, "owned_scope", f"{pattern[:200]!r} is no pattern: {error}", "INVALID_GLOB")
