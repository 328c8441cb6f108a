"""Intents: units of work with scope, constraints and definition of done (contracts §3); their lookup and life cycle."""

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, Literal, TypeAlias, cast, get_args

from msgspec import Struct, json
from msgspec.structs import replace

from remit.core.diff.contents import sha256
from remit.core.python_runtime import LazyProperty
from remit.core.redaction import redact
from remit.core.scope.path_patterns import Scope, find_literal_prefix
from remit.core.untrusted_input import sanitise_line

Status: TypeAlias = Literal["DRAFT", "IN_PROGRESS", "BLOCKED", "DONE", "ABORTED"]
Priority: TypeAlias = Literal["LOW", "MEDIUM", "HIGH", "CRITICAL"]
STATUSES: tuple[Status, ...] = get_args(Status)
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
STATUS_ALIASES: dict[str, Status] = {"PENDING": "DRAFT", "COMPLETED": "DONE", "COMPLETE": "DONE"}
FINAL_STATUSES: frozenset[Status] = frozenset({"DONE", "ABORTED"})
TRANSITIONS: dict[Status, frozenset[Status]] = {
    "DRAFT": frozenset({"IN_PROGRESS", "ABORTED"}),
    "IN_PROGRESS": frozenset({"DONE", "BLOCKED", "ABORTED"}),
    "BLOCKED": frozenset({"IN_PROGRESS", "ABORTED"}),
    "DONE": frozenset(),
    "ABORTED": frozenset(),
}
REASONED_STATUSES: frozenset[Status] = frozenset({"BLOCKED", "ABORTED"})
"""Statuses whose reason stands beside them, in `blocked_reason`."""
INTENT_ID = re.compile(r"[A-Z]{2,8}-\d{3,}", re.ASCII)


def is_intent_id(text: str) -> bool:
    return INTENT_ID.fullmatch(text) is not None


class Constraint(Struct, frozen=True):
    """Free text (`kind` None: guidance) or a structured rule (`kind` is its type, `options` the rest)."""

    text: str
    kind: str | None = None
    options: dict[str, Any] = {}


class Criterion(Struct, frozen=True):
    """An acceptance criterion; `verify` is a command that exits 0 once the criterion is met."""

    text: str
    verify: str | None = None


class Intent(Struct, frozen=True):
    """An intent of `active_intents.yaml`. Times are ISO 8601 text as written."""

    id: str
    owned_scope: tuple[str, ...]
    name: str = ""
    description: str = ""
    status: Status = "DRAFT"
    priority: Priority = "MEDIUM"
    owner: str = ""
    constraints: tuple[Constraint, ...] = ()
    acceptance_criteria: tuple[Criterion, ...] = ()
    companions: bool = False
    network: Literal["allow", "none"] = "allow"
    dependencies: tuple[str, ...] = ()
    parent_intent: str | None = None
    references: tuple[str, ...] = ()
    blocked_reason: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    source: dict[str, str] = {}
    """What the intent came from: `request`, `by`, `url`."""
    uid: str | None = None
    """The hidden name, written out only where it no longer follows from id and created_at."""
    formerly: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.name or self.id

    @property
    def rules(self) -> tuple[Constraint, ...]:
        return tuple(constraint for constraint in self.constraints if constraint.kind is not None)


UID_CHARS = 8


def identify(intent: Intent) -> str:
    """Return the hidden name that distinguishes two intents with the same label."""
    key = f"{intent.id}\0{intent.created_at}" if intent.created_at else intent.id
    return intent.uid or sha256(key.encode("utf-8", "surrogatepass"))[:UID_CHARS]


UID_MARK = "~"
"""Character between label and uid, where two intents have the label: `INT-003~7f3a21c0`."""


def tell_apart(intents: Sequence[Intent]) -> tuple[Intent, ...]:
    """Return intents of one label with the uids in their ids; empty if even the uids are equal."""
    uids = [identify(intent) for intent in intents]
    if len(set(uids)) < len(uids):
        return ()
    return tuple(replace(i, id=f"{i.id}{UID_MARK}{uid}", uid=uid) for i, uid in zip(intents, uids, strict=True))


def split_id(intent_id: str) -> tuple[str, str]:
    """Return the label of an id, and the uid if the id has a uid."""
    label, _, uid = intent_id.partition(UID_MARK)
    return label, uid


SLUG_CHARS = 40


def make_slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:SLUG_CHARS].rstrip("-")


def match_intents(given: str, intents: Iterable[Intent]) -> list[Intent]:
    """Return the intents that a person may mean: by id or uid, former id, number or name, else by a part of id or
    name.
    """
    known, wanted = tuple(intents), make_slug(given)
    number = wanted.lstrip("0")
    names = [(i, (i.id, *i.formerly), i.id.rpartition("-")[2].lstrip("0"), make_slug(i.name)) for i in known]
    uid = split_id(given)[1]
    exact = [i for i in known if i.id == given or (uid and identify(i) == uid)]
    exact = exact or [i for i, ids, *words in names if given in ids or (number and number in words)]
    if exact or not wanted or is_intent_id(given):
        return exact
    return [i for i, ids, _, slug in names if wanted in ids[0].lower() or wanted in slug]


def key_by_uid(intents: Iterable[Intent]) -> dict[str, Intent]:
    """Return intents by uid; a uid that several have, as a file may say anything, is none of theirs."""
    found: dict[str, list[Intent]] = {}
    for intent in intents:
        found.setdefault(identify(intent), []).append(intent)
    return {uid if len(own) == 1 else f"{uid} {i.id}": i for uid, own in found.items() for i in own}


def is_same_intent(old: Intent, new: Intent) -> bool:
    """Return whether two versions are of one intent; a time edited by hand does not make a new intent."""
    same = identify(old) == identify(new)
    return same or replace(old, uid=new.uid, created_at=new.created_at, updated_at=new.updated_at) == new


Severity: TypeAlias = Literal["error", "warning"]
LintCode: TypeAlias = Literal[
    "YAML_PARSE_ERROR", "CONFLICT_MARKERS", "MISSING_ACTIVE_INTENTS", "INVALID_ID_FORMAT", "DUPLICATE_ID",
    "INVALID_STATUS", "DEAD_SCOPE",
    "INVALID_FIELD", "EMPTY_SCOPE", "INVALID_GLOB", "ABSOLUTE_PATH", "INVALID_TIMESTAMP_FORMAT",
    "INVALID_DEPENDENCY", "CIRCULAR_DEPENDENCY", "INVALID_PARENT", "SCOPE_OVERLAP", "DOUBTFUL_SCOPE",
    "INVALID_TIMESTAMP", "MISSING_CONSTRAINTS", "MISSING_ACCEPTANCE_CRITERIA", "UNFINISHED_DEPENDENCY",
    "TOO_MANY_INTENTS", "UNKNOWN_KEY", "IN_BOTH_LAYOUTS", "VIEW_EDITED", "NESTED_RULES",
    "NAME_MISMATCH", "CLOSED_THEN_CHANGED", "UID_CHANGED",
]  # fmt: skip

LIST_FILE = "active_intents.yaml"
INTENTS_FOLDER = "intents"
"""Where intents stand, below `.orchestration/`: all in a list, or each in a file of its own."""


class LintFinding(Struct, frozen=True):
    """A fault of an intents file. `line` and `column` are 1-based; `file` stands below `.orchestration/`, and is
    empty where no file is at fault.
    """

    code: LintCode
    severity: Severity
    message: str
    intent_id: str | None = None
    field: str | None = None
    line: int = 1
    column: int = 1
    file: str = LIST_FILE

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


MAX_FILE_BYTES = 4 * 1024 * 1024
"""Bytes of an intents file. Larger files are refused unread."""


class IntentsDocument(Struct, frozen=True):
    """All intents of a place. A faulty intent does not hide the rest. `files` has the intents with a file of their own,
    below `.orchestration/`, and `digests` the SHA-256 of each of those.
    """

    intents: tuple[Intent, ...] = ()
    findings: tuple[LintFinding, ...] = ()
    sha256: str = ""
    files: dict[str, str] = {}
    digests: dict[str, str] = {}

    @property
    def errors(self) -> tuple[LintFinding, ...]:
        return tuple(f for f in self.findings if f.severity == "error")

    def without(self, prefix: str) -> "IntentsDocument":
        """Return the document without the intents in files with that name prefix."""
        left_out = {intent_id for intent_id, name in self.files.items() if name.startswith(prefix)}
        kept = tuple(intent for intent in self.intents if intent.id not in left_out)
        return self if not left_out else IntentsDocument(kept, self.findings, self.sha256, self.files, self.digests)

    def find_version(self, intent_id: str | None) -> str:
        """Return the SHA-256 of the file that the intent stands in."""
        return self.digests.get(intent_id or "", self.sha256)


SELECTABLE_STATUSES = ("DRAFT", "IN_PROGRESS")
MAX_LISTED_IDS = 20
"""Ids named by a finding: a model reads no list of a thousand."""


class IntentSet:
    """Intents of a file, for lookup by id and by path. Built once per content of the file."""

    def __init__(self, intents: Iterable[Intent] = ()) -> None:
        self.intents = tuple(intents)
        self.ids = {intent.id: intent for intent in self.intents}
        self.selectable_ids = tuple(
            i.id for i in self.intents if i.status in SELECTABLE_STATUSES and UID_MARK not in i.id
        )

    @LazyProperty
    def by_folder(self) -> dict[str, list[Intent]]:
        """Return the intents in progress by the literal folders of their scopes: few scopes need to be compiled."""
        by_folder: dict[str, list[Intent]] = {}
        for intent in self.intents:
            if intent.status == "IN_PROGRESS":
                for folder in {find_literal_prefix(p) for p in intent.owned_scope if not p.startswith("!")}:
                    by_folder.setdefault(folder, []).append(intent)
        return by_folder

    def get(self, intent_id: str | None) -> Intent | None:
        return self.ids.get(intent_id) if intent_id is not None else None

    def list_open_ids(self, ignored: frozenset[str] = frozenset()) -> list[str]:
        return [i for i in self.selectable_ids[: MAX_LISTED_IDS + len(ignored)] if i not in ignored][:MAX_LISTED_IDS]

    def find_owners(self, path: str, *, fold: bool = False) -> tuple[str, ...]:
        """Return the ids of intents in progress that own the path; folders are compared as written without `fold`."""
        above = ["", *(f"{folder}/" for folder in accumulate(path.split("/"), "{}/{}".format))]
        folders = self.by_folder if fold else above
        candidates = (intent for folder in folders for intent in self.by_folder.get(folder, ()))
        return tuple(sorted({i.id for i in candidates if Scope(i.owned_scope).matches(path, fold=fold)}))


# --- life cycle -------------------------------------------------------------------------------------------


class IllegalTransition(ValueError):
    """Error for a step outside the life cycle. `allowed` lists the legal steps in the order of STATUSES."""

    def __init__(self, intent_id: str, current: Status, wanted: Status) -> None:
        self.allowed: tuple[Status, ...] = tuple(s for s in STATUSES if s in TRANSITIONS[current])
        next_step = f"{current} is final; `remit intent fork {intent_id}` starts a new one from it"
        if self.allowed:
            next_step = f"expected {' or '.join(self.allowed)}: `remit intent set-status {intent_id} {self.allowed[0]}`"
        super().__init__(f"{intent_id} is {current} and cannot become {wanted}; {next_step}")


def check_transition(intent: Intent, to: Status) -> None:
    """Check that `intent` may become `to`. Raises IllegalTransition, also for the current status."""
    if to not in TRANSITIONS[intent.status]:
        raise IllegalTransition(intent.id, intent.status, to)


def find_completion_obstacles(intent: Intent, intents: Iterable[Intent]) -> tuple[str, ...]:
    return tuple(
        f"{child.id} is {child.status}: a parent completes after its children"
        for child in intents
        if child.parent_intent == intent.id and child.id != intent.id and child.status not in FINAL_STATUSES
    )


def find_unfinished_dependencies(intent: Intent, intents: Iterable[Intent]) -> tuple[str, ...]:
    """Return ids in the intent's dependencies that are not DONE; unknown ids count as unfinished."""
    finished = {other.id for other in intents if other.status == "DONE"}
    return tuple(name for name in intent.dependencies if name not in finished)


UNRECORDED_FIELDS = frozenset({"id", "uid", "created_at", "updated_at"})
MAX_VALUE_CHARS = 500
MAX_VALUE_ITEMS = 50


def describe_intent_change(before: Intent | None, after: Intent | None) -> dict[str, Any]:
    """Return `name`, `change` (created, edited or deleted), and for an edit its `changed` fields.

    List fields hold `added` and `removed`, scalar fields `from` and `to`.
    """
    intent = after or before
    name = intent.title if intent else ""
    if before is None or after is None:
        return {"name": name} | ({"change": "created"} if before is None else {"change": "deleted", "removed": True})
    changed: dict[str, Any] = {}
    for field in Intent.__struct_fields__:
        old, new = getattr(before, field), getattr(after, field)
        if old == new or field in UNRECORDED_FIELDS:
            continue
        if isinstance(old, tuple) and isinstance(new, tuple):
            olds, news = ([format_value(v) for v in side] for side in cast("tuple[tuple[Any, ...], ...]", (old, new)))
            added, removed = [text for text in news if text not in olds], [text for text in olds if text not in news]
            changed[field] = {"added": added[:MAX_VALUE_ITEMS], "removed": removed[:MAX_VALUE_ITEMS]}
        else:
            changed[field] = {"from": format_value(old), "to": format_value(new)}
    return {"name": name, "change": "edited", "changed": changed}


def format_value(value: Any) -> str:
    text = getattr(value, "text", value)
    return sanitise_line(redact(text if isinstance(text, str) else json.encode(text).decode()), MAX_VALUE_CHARS)
