"""A session as its conversation: turns from a person's prompt to the next, with calls and sub-agents below."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct, convert

from remit.core.python_runtime import prepare_type
from remit.provenance.why.session_story import StoryStep
from remit.servers.web.pages.page import PageRequest

STEPS_SHOWN = 240
ANSWER_AGE_S = 3.0


class TurnNode(Struct, frozen=True):
    """A step of a turn; for a sub-agent, `step` is its first one and `below` are all of its steps."""

    step: StoryStep
    below: list[StoryStep] = []


class SessionTurn(Struct, frozen=True):
    """A turn. `prompt` is None before the first known prompt. `changed` are the files of all its calls."""

    prompt: StoryStep | None
    nodes: list[TurnNode]
    calls: int
    denied: int
    changed: list[str]


class SessionStory(Struct, frozen=True):
    """A window of a session's steps, as turns; `total` and `start` count steps."""

    turns: list[SessionTurn]
    total: int
    start: int
    end: int
    remarks: list[str]


def read_story(request: PageRequest, session_id: str, records: int) -> SessionStory:
    """Return the story that `remit session` tells; `records` is how many records the session has."""
    repository, repositories = request.one_repository, request.repositories
    answer = partial(repositories.run_command, repository, "session", session_id)
    question = (repository.root, "session", session_id, records)
    data: dict[str, Any] = repositories.heavy.ask(question, answer, max_age_s=ANSWER_AGE_S).result()
    steps = convert(data["steps"], prepare_type(list[StoryStep]))
    last = max(0, len(steps) - STEPS_SHOWN)
    start = min(request.number("from", last, 1_000_000), len(steps))
    shown = steps[start : start + STEPS_SHOWN]
    return SessionStory(make_turns(shown), len(steps), start, start + len(shown), list(data["remarks"]))


def make_turns(steps: Sequence[StoryStep]) -> list[SessionTurn]:
    turns: list[tuple[StoryStep | None, list[StoryStep]]] = []
    for step in steps:
        if step.kind == "asked" and not step.agent_id:
            turns.append((step, []))
        elif turns:
            turns[-1][1].append(step)
        else:
            turns.append((None, [step]))
    return [make_turn(prompt, members) for prompt, members in turns]


def make_turn(prompt: StoryStep | None, members: Sequence[StoryStep]) -> SessionTurn:
    nodes: list[TurnNode] = []
    agents: dict[str, TurnNode] = {}
    for step in members:
        if not step.agent_id:
            nodes.append(TurnNode(step))
        elif step.agent_id in agents:
            agents[step.agent_id].below.append(step)
        else:
            agents[step.agent_id] = TurnNode(step, [step])
            nodes.append(agents[step.agent_id])
    calls = [step for step in members if step.kind == "call"]
    changed = list(dict.fromkeys(path for step in calls for path in step.changed))
    return SessionTurn(prompt, nodes, len(calls), sum(step.verdict == "deny" for step in calls), changed)
