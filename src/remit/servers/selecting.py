"""`remit intent select ID` as a shell command: the hook selects, the command only prints.

An agent's sandboxed shell may reach neither Remit's state nor its daemon; its hook does.
"""

from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.gate.answer import Answer, CannotRecord
from remit.gate.gate import Gate
from remit.gate.intents import Refused
from remit.gate.judging import Judging
from remit.policy.commands import analyse
from remit.policy.violations import explain


def select_by_command(gate: Gate, call: ToolCall) -> Answer | None:
    """The answer to a shell call that is literally `remit intent select ID` (or `clear`); None for any other call."""
    words = analyse(call.command).remit if call.command is not None and "remit" in call.command else None
    if words is None or words[:1] != ("intent",) or not gate.governed:
        return None
    try:
        return performed(gate, call, words[1:])
    except Refused as refused:
        return Answer(Decision("deny", "deny", "meta", gate.mode_now()), reason=explain(refused.violation))
    except CannotRecord as error:
        return Judging(gate).unrecordable(call, error)


def performed(gate: Gate, call: ToolCall, words: tuple[str, ...]) -> Answer | None:
    """Do what the words ask, for the session that the hook knows."""
    match words:
        case ("select", intent_id):
            gate.intents.select(call.session, call.agent, intent_id, tool=call.tool)
        case ("clear",):
            gate.intents.clear(call.session, call.agent)
        case ("complete", intent_id, "--notes", notes):
            gate.intents.complete(call.session, call.agent, intent_id, notes)
        case _:
            return None
    return gate.before(call)
