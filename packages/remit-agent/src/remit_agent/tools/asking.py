"""The tools without an effect on files: questions to the person, the end of the task, modes, child tasks."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from remit.gate.perform import CarriedOut, ToolOutput, WorkspaceAccess
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext

NOBODY_THERE = (
    "Nobody is there to answer. Decide by yourself what is safest, go on, and name the decision in your final result."
)


class SuggestedAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer to choose, complete in itself; `mode` is switched to if it is chosen."""

    text: Annotated[str, Meta(min_length=1)]
    mode: str | None = None


class AskFollowup(Struct, frozen=True, forbid_unknown_fields=True):
    """Ask the person one question that you cannot settle by reading, with one to four suggested answers. Example:
    {"question": "Which database?", "follow_up": [{"text": "SQLite"}, {"text": "Plan first", "mode": "architect"}]}
    """

    question: Annotated[str, Meta(min_length=1)]
    follow_up: Annotated[list[SuggestedAnswer], Meta(min_length=1, max_length=4)]


class AttemptCompletion(Struct, frozen=True, forbid_unknown_fields=True):
    """End the task with its result, once all calls before have succeeded. The active intent's criteria are verified
    first; if one fails, you are told which, and go on. No question at the end. Example:
    {"result": "load() returns None for a missing file; the tests of tests/test_load.py pass."}
    """

    result: Annotated[str, Meta(min_length=1)]


class SwitchMode(Struct, frozen=True, forbid_unknown_fields=True):
    """Switch to another mode; a person is asked where that gives more rights. Example:
    {"mode_slug": "code", "reason": "the plan is done"}
    """

    mode_slug: str
    reason: str = ""


class NewTask(Struct, frozen=True, forbid_unknown_fields=True):
    """Give a part of the work to a child task with its own conversation, and wait for its result. `message` holds all
    that it must know; `scope` narrows the files that it may change. Example:
    {"mode": "code", "message": "Add tests for load() in tests/test_load.py …", "scope": ["tests/test_load.py"]}
    """

    mode: str
    message: Annotated[str, Meta(min_length=1)]
    todos: str | None = None
    scope: list[str] | None = None


def prepare_without_effect(context: ToolContext, act: CarriedOut) -> PreparedCall:
    return PreparedCall(replace(context.new_call(), effect="none"), act)


def prepare_question(context: ToolContext, given: AskFollowup) -> PreparedCall:
    def act(access: WorkspaceAccess) -> ToolOutput:
        suggestions = tuple((answer.text, answer.mode) for answer in given.follow_up)
        words = context.talk.ask_person(given.question, suggestions)
        if words is None:
            return ToolOutput(True, NOBODY_THERE)
        mode = dict(suggestions).get(words)
        switched = f"\n{context.talk.switch_mode(mode, 'the person chose it')}" if mode is not None else ""
        return ToolOutput(True, f"{words}{switched}")

    return prepare_without_effect(context, act)


def prepare_completion(context: ToolContext, given: AttemptCompletion) -> PreparedCall:
    return prepare_without_effect(context, lambda _: ToolOutput(True, context.talk.finish(given.result)))


def prepare_mode_switch(context: ToolContext, given: SwitchMode) -> PreparedCall:
    return prepare_without_effect(
        context, lambda _: ToolOutput(True, context.talk.switch_mode(given.mode_slug, given.reason))
    )


def prepare_child(context: ToolContext, given: NewTask) -> PreparedCall:
    def act(access: WorkspaceAccess) -> ToolOutput:
        scope = None if given.scope is None else tuple(given.scope)
        return ToolOutput(True, context.talk.start_child(given.mode, given.message, given.todos, scope))

    return prepare_without_effect(context, act)


ASKING_TOOLS = (
    HostTool("ask_followup_question", AskFollowup, "mode", prepare_question),
    HostTool("attempt_completion", AttemptCompletion, "mode", prepare_completion, ends_turn=True),
    HostTool("switch_mode", SwitchMode, "mode", prepare_mode_switch, ends_turn=True),
    HostTool("new_task", NewTask, "mode", prepare_child, ends_turn=True, alone=True),
)
