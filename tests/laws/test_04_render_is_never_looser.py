"""Law 4: an agent's reply is never looser than the decision; where it cannot say `ask`, it says `deny`."""

import json
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laws.enemies import texts
from remit.adapters import HookReply, can_rewrite, render
from remit.core.agents import ROWS
from remit.core.call import (
    AfterCall,
    BeforeCall,
    HookEvent,
    IgnoredEvent,
    Outcome,
    PromptGiven,
    SessionEnded,
    SessionKey,
    SessionStarted,
    ToolCall,
    TurnEnded,
)
from remit.core.decision import STRICTNESS, Decision, Verdict
from remit.core.untrusted_input import escape_surrogates

SESSION = SessionKey("s")
CALL = ToolCall(agent="x", session=SESSION, tool="Write", effect="write", cwd="/w", paths=("a",))
OTHERS: list[HookEvent] = [
    AfterCall(CALL, Outcome()),
    AfterCall(CALL, Outcome(ok=False), failed=True),
    SessionStarted(SESSION, "/w"),
    PromptGiven(SESSION, "/w"),
    TurnEnded(SESSION, "/w"),
    SessionEnded(SESSION, "/w"),
    IgnoredEvent("Other", "/w"),
]
STRICTEST_WORDS = ("deny", "block")


def stance(reply: HookReply) -> Verdict:
    """What the agent will do about the call, from the bytes it gets."""
    if reply.exit_code == 2:
        return "deny"
    said = json.dumps(json.loads(reply.stdout)) if reply.stdout else ""
    if any(f'"{word}"' in said for word in STRICTEST_WORDS):
        return "deny"
    return "ask" if '"ask"' in said else "allow"


@pytest.mark.parametrize("agent", sorted(ROWS))
@given(effect=st.sampled_from(["allow", "contain", "ask", "deny"]), reason=texts, context=texts)
def test_no_reply_is_looser_than_the_decision(agent: str, effect: Verdict, reason: str, context: str) -> None:
    decision = Decision(effect, effect, "destructive", "enforce")
    found = stance(render(agent, BeforeCall(CALL), decision, f"because {reason}", context.replace('"', "")))
    if effect == "allow":
        assert found == "allow"
    elif effect == "ask":
        assert found == ("ask" if ROWS[agent].can_ask else "deny")
    else:
        assert found == "deny"


@pytest.mark.parametrize("agent", sorted(ROWS))
@given(effect=st.sampled_from(["allow", "contain", "ask", "deny"]), content=texts.map(escape_surrogates))
def test_other_arguments_change_nothing_about_the_decision(agent: str, effect: Verdict, content: str) -> None:
    tool = next(name for name, row in ROWS[agent].tools.items() if row.effect == "write")
    call = replace(CALL, agent=agent, tool=tool)
    decision = Decision(effect, effect, "destructive", "enforce")
    given: dict[str, object] = {"content": f"x{content}"}
    reply = render(agent, BeforeCall(call), decision, "because", "", given if can_rewrite(call) else None)
    found = stance(reply)
    if effect == "contain":
        assert found == ("allow" if can_rewrite(call) else "deny"), "contained by its arguments, or not run at all"
        assert (found == "deny") != (b"content" in reply.stdout)
        return
    assert STRICTNESS.index(found) >= STRICTNESS.index(effect)
    if found == "ask" and can_rewrite(call):
        assert b"updatedInput" in reply.stdout, "a yes to the question must not be a yes to the old arguments"
    assert can_rewrite(replace(call, tool="mcp__notes__add")) is False


@pytest.mark.parametrize("agent", sorted(ROWS))
@given(
    effect=st.sampled_from(["allow", "contain", "ask", "deny"]),
    permission=st.sampled_from(["allow", "ask"]),
    reason=texts,
)
def test_a_persons_own_rules_never_loosen_the_decision(
    agent: str, effect: Verdict, permission: Literal["allow", "ask"], reason: str
) -> None:
    tool = next(name for name, row in ROWS[agent].tools.items() if row.command is not None)
    call = replace(CALL, agent=agent, tool=tool)
    decision = Decision(effect, effect, "destructive", "enforce")
    arguments: dict[str, object] | None = {"command": "x"} if can_rewrite(call) else None
    found = stance(
        render(agent, BeforeCall(call), decision, f"because {reason}".replace('"', ""), "", arguments, permission)
    )
    assert STRICTNESS.index(found) >= STRICTNESS.index(effect) or (effect == "contain" and arguments is not None)
    if permission == "ask" and arguments is not None:
        assert found == ("deny" if effect == "deny" or not ROWS[agent].can_ask else "ask")


@pytest.mark.parametrize("agent", sorted(ROWS))
@given(event=st.sampled_from(OTHERS), effect=st.sampled_from(["allow", "deny"]), context=texts)
def test_no_event_but_before_is_ever_refused(agent: str, event: HookEvent, effect: Verdict, context: str) -> None:
    reply = render(agent, event, Decision(effect, effect, "safe", "enforce"), "because", context)
    assert (reply.exit_code, stance(reply)) == (0, "allow")


@pytest.mark.parametrize("agent", sorted(ROWS))
@pytest.mark.parametrize("event", [BeforeCall(CALL), *OTHERS], ids=lambda e: type(e).__name__)
def test_where_nothing_is_to_be_said_nothing_is_decided(agent: str, event: HookEvent) -> None:
    reply = render(agent, event, Decision("allow", "allow", "safe", "observe"))
    assert (stance(reply), reply.exit_code, reply.stderr) == ("allow", 0, b"")
    assert b"permission" not in reply.stdout, "an explicit allow would switch off the agent's own questions"
