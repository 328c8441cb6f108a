"""Who may have made a change of which nothing proves who did: never more than a list of names."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from remit.core.record import KEY


class Candidate(Struct, frozen=True):
    """A call that was under way. `command` is what it ran, or the tool's name; what is not known is None."""

    session_id: str
    agent: str | None = None
    intent_id: str | None = None
    command: str | None = None


def candidates(document: dict[str, Any]) -> tuple[Candidate, ...]:
    """The candidates that a record names: its own call, where it is a call's, else those that it lists."""
    body: dict[str, Any] = document["metadata"][KEY]
    if body.get("event") != "human_edit":
        call: dict[str, Any] = body.get("call", {})
        ran = call.get("command") or call.get("name")
        agent = document.get("tool", {}).get("name")
        return (Candidate(str(body.get("session_id") or ""), agent, body.get("intent_id"), ran),)
    return tuple(listed(body.get("candidates", [])))


def listed(found: list[Any]) -> Iterator[Candidate]:
    """The candidates in a list, of which older records hold the sessions only."""
    for one in found:
        if isinstance(one, str):
            yield Candidate(one)
        else:
            yield Candidate(str(one.get("session_id")), one.get("agent"), one.get("intent_id"), one.get("command"))
