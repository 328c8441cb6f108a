"""The agent-facing tools of `remit.tools` as tools of Remit's own agent."""

from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from remit.gate.people.answer import choose_typed_word, describe_subject
from remit.gate.people.questions import ApprovalReply
from remit.gate.perform import ToolOutput, WorkspaceAccess
from remit.tools.agent_tool import Caller, DialogAnswer, NeedsPerson, ToolAnswer
from remit.tools.catalogue import TOOLS, run_tool
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext

MAX_QUESTIONS = 3
YES, NO = "Yes", "No"


def answer_intent_tool(context: ToolContext, name: str, arguments: dict[str, Any]) -> ToolAnswer:
    call = context.new_call()
    caller = Caller(call.session, call.agent, has_dialog=True)
    for _ in range(MAX_QUESTIONS):
        try:
            with context.take_turn():
                return run_tool(context.gate, caller, name, arguments)
        except NeedsPerson as needed:
            typed = choose_typed_word(needed.question)
            text = "\n".join((*describe_subject(needed.question), needed.question.message))
            text += f"\nFor a yes, type {typed}." if typed else ""
            words = context.talk.ask_person(text, ((NO, None),) if typed else ((YES, None), (NO, None)))
            said = "" if words in (YES, NO) else words or ""
            reply = None if words is None else ApprovalReply(words.strip() == (typed or YES), said)
            caller = replace(caller, dialog_answer=DialogAnswer(needed.question, reply))
    with context.take_turn():
        return run_tool(context.gate, replace(caller, has_dialog=False), name, arguments)


def prepare_intent_tool(context: ToolContext, given: Struct) -> PreparedCall:
    name = context.part.tool

    def act(access: WorkspaceAccess) -> ToolOutput:
        answer = answer_intent_tool(context, name, to_builtins(given))
        return ToolOutput(answer.ok, answer.text, answer.data)

    return PreparedCall(replace(context.new_call(), effect="meta", remit_tool=name), act)


INTENT_TOOLS = tuple(HostTool(name, tool.arguments, "intent", prepare_intent_tool) for name, tool in TOOLS.items())
