"""What a model has to be told waits for an answer that reaches it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from gate.driving import governed, machine
from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.decision import Decision
from remit.gate.context import Answer
from remit.gate.gate import Gate
from remit.gate.people.messages import PendingMessages

NO, YES, IN = (Decision(effect, effect, "destructive", "enforce") for effect in ("deny", "allow", "contain"))


def test_an_agent_that_hears_nothing_after_a_call_is_told_with_the_next_refusal(repository: Path, home: Path) -> None:
    """Claude Code's form of a failed call is heard by it, and not by Codex: so the words wait where a row says so."""
    call = ToolCall("codex", SessionKey("s"), "shell", "execute", str(repository))
    gate = Gate.open(governed(repository), machine(home))
    untold = PendingMessages(gate.state)
    deaf, heard = Outcome(ok=False), Outcome()
    untold.add_unheard_message(call, heard, "heard")
    assert untold.load_messages(call.session) == {}
    untold.store_messages(call.session, {"": "waits"})
    denied = Answer(Decision("deny", "deny", "destructive", "enforce"), reason="no")
    assert untold.deliver_with_answer(call, denied).reason == "no\nwaits"
    assert untold.deliver_with_answer(call, denied).reason == "no"
    untold.add_unheard_message(replace(call, agent="nobody"), deaf, "unknown agents hear nothing")
    assert gate.receive_prompt(call.session, "codex").startswith("unknown agents hear nothing")


@pytest.mark.parametrize(
    ("agent", "answer", "heard"),
    [
        ("gemini", Answer(YES), False),
        ("gemini", Answer(IN, arguments={"command": "hook exec"}), False),
        ("gemini", Answer(IN), True),
        ("gemini", Answer(NO, reason="no"), True),
        ("claude-code", Answer(IN, arguments={"command": "hook exec"}), True),
        ("nobody", Answer(YES), False),
        ("nobody", Answer(NO, reason="no"), True),
    ],
)
def test_no_word_is_said_where_its_model_does_not_hear(
    repository: Path, home: Path, agent: str, answer: Answer, heard: bool
) -> None:
    """What a contained call is answered with is its arguments: Gemini CLI's model reads nothing beside them."""
    call = ToolCall(agent, SessionKey("s"), "shell", "execute", str(repository))
    with closing(Gate.open(governed(repository), machine(home))) as gate:
        untold = PendingMessages(gate.state)
        untold.store_messages(call.session, {"c-1": "what ended"})
        said = untold.deliver_with_answer(call, answer.with_notice("in warn"))
        assert said.context == ("in warn\nwhat ended" if heard else "")
        assert list(untold.load_messages(call.session).values()) == ([] if heard else ["what ended", "in warn"])


def test_of_words_that_many_processes_keep_at_once_none_is_lost(repository: Path, home: Path) -> None:
    workspace, session = governed(repository), SessionKey("s")
    calls = [ToolCall("gemini", session, "shell", "execute", str(repository), f"c-{n}") for n in range(24)]

    def late(call: ToolCall) -> None:
        with closing(Gate.open(workspace, machine(home))) as gate:
            PendingMessages(gate.state).add_contained_result(call, "", f"end of {call.call_id}")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(late, calls))
    with closing(Gate.open(workspace, machine(home))) as gate:
        assert set(PendingMessages(gate.state).load_messages(session)) == {call.call_id for call in calls}
