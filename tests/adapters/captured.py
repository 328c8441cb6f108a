"""What real clients sent to their hooks."""

from pathlib import Path

import msgspec

from remit.adapters import parse
from remit.core.call import AfterCall, BeforeCall, HookEvent, ToolCall
from remit.core.decision import Decision, Verdict

PAYLOADS = Path(__file__).parents[1] / "compat" / "payloads"


def captured(agent: str) -> list[str]:
    """The names of what was captured of that agent."""
    return sorted(path.stem for path in (PAYLOADS / agent).glob("*.json"))


def payload(agent: str, name: str, **changes: object) -> bytes:
    """The payload of that name, with these keys changed."""
    document = msgspec.json.decode((PAYLOADS / agent / f"{name}.json").read_bytes(), type=dict[str, object])
    return msgspec.json.encode({**document, **changes})


def event(agent: str, name: str, **changes: object) -> HookEvent:
    """What the adapter makes of it."""
    return parse(agent, payload(agent, name, **changes))


def call(agent: str, name: str, **changes: object) -> ToolCall:
    """The call in it."""
    found = event(agent, name, **changes)
    assert isinstance(found, BeforeCall | AfterCall)
    return found.call


def after(agent: str, name: str, **changes: object) -> AfterCall:
    """The same, of an event that comes after a tool."""
    found = event(agent, name, **changes)
    assert isinstance(found, AfterCall)
    return found


def decision(effect: Verdict) -> Decision:
    """A decision of that effect."""
    return Decision(effect=effect, verdict=effect, call_class="destructive", mode="enforce")
