"""Fixtures of decisions that a person reports as wrong: the call, its facts, and the expected verdict.

Pure: a document in, a decision out. A fixture never contains file contents; machine paths and secrets are replaced.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct, structs

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Decision, Facts, Verdict
from remit.core.intent import Intent, IntentSet
from remit.core.python_runtime import prepare_type
from remit.core.redaction import redact_value
from remit.core.scope.path_patterns import RepoPath
from remit.policy.decide import decide

VERSION: Literal[1] = 1
FIXTURE_ROOT = "/workspace"  # The workspace's path in a fixture

Document: TypeAlias = dict[str, Any]
OMITTED_FACTS = frozenset({"intents", "proposed", "grants", "waived"})
"""Facts that a fixture leaves out: contents, and approvals given since."""

CONTENT_FIELDS = frozenset({"diff"})  # Fields with file contents

CALL_FIELDS = (
    *(
        "agent",
        "tool",
        "effect",
        "cwd",
        "paths",
        "command",
        "malformed",
        "checks_itself",
        "whole_workspace",
        "unproved",
    ),
)


class FixtureError(ValueError):
    """A file that is no fixture. The message says why."""


class DecisionFixture(Struct, frozen=True, forbid_unknown_fields=True):
    """A decision: the recorded verdict (`was`), and the verdict expected by a person."""

    version: Literal[1]
    expected: Verdict
    was: Verdict
    call: Document
    facts: Document
    intents: tuple[Intent, ...] = ()
    why: str = ""
    record: str = ""
    reproduced: bool = True  # True if these facts gave the recorded verdict when the fixture was made


def make_fixture(call: ToolCall, facts: Facts, intents: Iterable[Intent], about: DecisionFixture) -> Document:
    wanted = {name: to_plain(value) for name in CALL_FIELDS if (value := getattr(call, name))}
    met = {name: value for name, value in to_plain(facts).items() if name not in OMITTED_FACTS}
    return to_plain(structs.replace(about, call=wanted, facts=met, intents=tuple(intents)))


def to_plain(value: Any) -> Any:
    match value:
        case Struct():
            fields = ((f.name, getattr(value, f.name), f.default) for f in structs.fields(value))
            kept = ((name, found) for name, found, default in fields if found != default and name not in CONTENT_FIELDS)
            return {name: to_plain(found) for name, found in kept}
        case frozenset():
            return sorted(map(to_plain, cast("frozenset[Any]", value)))
        case list() | tuple():
            return [to_plain(inner) for inner in cast("list[Any]", value)]
        case IntentSet() | bytes():
            return None
        case str():
            return str(value)
        case _:
            return value


def clean_document(document: Document, places: Mapping[str, str]) -> Document:
    return redact_value(replace_places(document, dict(sorted(places.items(), key=lambda item: -len(item[0])))))


def replace_places(value: Any, places: Mapping[str, str]) -> Any:
    """Return a JSON value with these paths replaced in every text."""
    match value:
        case str():
            for place, name in places.items():
                value = value.replace(place, name)
            return value
        case dict():
            return {key: replace_places(inner, places) for key, inner in cast("Document", value).items()}
        case list() | tuple():
            return [replace_places(inner, places) for inner in cast("list[Any]", value)]
        case _:
            return value


def read_fixture(content: bytes) -> DecisionFixture:
    try:
        return msgspec.json.decode(content, type=prepare_type(DecisionFixture))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FixtureError(f"it is no fixture: {error}") from error


def replay_fixture(found: DecisionFixture) -> Decision:
    """Return the present decision about the call and facts of a fixture. Raises FixtureError."""
    try:
        call = msgspec.convert({"session": SessionKey("fixture"), **found.call}, prepare_type(ToolCall))
        facts = msgspec.convert(found.facts, type=dict[str, Any])
        known = {field.name: field.type for field in structs.fields(Facts)}
        met = {name: msgspec.convert(facts[name], prepare_type(known[name]), dec_hook=decode_value) for name in facts}
        given: dict[str, Any] = {"mode": "enforce", **met, "intents": IntentSet(found.intents)}
        return decide(call, Facts(**given))
    except (msgspec.ValidationError, KeyError, TypeError) as error:
        raise FixtureError(f"its facts cannot be read: {error}") from error


def decode_value(kind: type, value: Any) -> Any:
    if kind is RepoPath:
        return RepoPath.parse(str(value), FIXTURE_ROOT)
    raise TypeError(f"a fixture holds no {kind.__name__}")
