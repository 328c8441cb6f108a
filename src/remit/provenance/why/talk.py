"""What was said around an edit: the prompt before it, the reasoning that led to it, and who started a sub-agent."""

from msgspec import Struct

from remit.provenance.why.conversations import Conversations, Spoken


class Session(Struct, frozen=True):
    """Whose conversation is wanted."""

    agent: str
    id: str


class Said(Struct, frozen=True):
    """Something the model said (`assistant`) or thought (`thinking`)."""

    role: str
    text: str
    at: str = ""


class Talk(Struct, frozen=True):
    """The conversation around one call.

    `prompt` is what a person had written last. A sub-agent's `task` is what its parent gave it, and `prompt` then
    is what the person had written to the parent. `said` is oldest first; `answer` is what the tool answered.
    `message_index` counts what was said and called in the transcript before the call, as far as it is kept.
    """

    prompt: str = ""
    prompt_at: str = ""
    task: str = ""
    said: tuple[Said, ...] = ()
    answer: str = ""
    failed: bool = False
    model: str | None = None
    message_index: int | None = None


class Asked(Struct, frozen=True):
    """The call that is asked about, by what its record knows of it."""

    session_id: str
    agent_id: str = ""
    call_id: str = ""
    arguments_sha256: str = ""
    at: str = ""


def around(conversations: Conversations, asked: Asked) -> Talk | None:
    """What was said around that call; None where no transcript has it. Raises sqlite3.Error."""
    call = conversations.call(asked.session_id, asked.call_id, asked.arguments_sha256, asked.at)
    if call is None:
        return None
    prompt = conversations.prompt(call)
    said = conversations.said_between(prompt.id if prompt else 0, call)
    answer = conversations.answer(call)
    asked_of = parent_prompt(conversations, asked) if asked.agent_id else None
    person = asked_of or prompt
    return Talk(
        prompt=person.text if person else "",
        prompt_at=person.at if person else "",
        task=prompt.text if asked_of and prompt else "",
        said=tuple(Said(one.role, one.text, one.at) for one in said),
        answer=answer.text if answer else "",
        failed=answer.failed if answer else False,
        model=call.model,
        message_index=conversations.place(call),
    )


def parent_prompt(conversations: Conversations, asked: Asked) -> Spoken | None:
    """What the person had written last to the agent that started this sub-agent."""
    start = conversations.starter(asked.session_id, asked.agent_id)
    return conversations.prompt(start) if start else None
