"""A session's records as its page shows them. In the timeline: a row for each call, with what its records say together.
In the conversation: turns from a person's prompt to the next, with calls and sub-agents below.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from msgspec import Struct, convert

from remit.console.pages.page import PageRequest
from remit.core.formats.record_summary import Meaning, summarize_record
from remit.core.python_runtime import prepare_type
from remit.core.record import KEY
from remit.core.untrusted_input import as_object, as_objects
from remit.provenance.why.session_story import StoryStep

RowKind: TypeAlias = Literal[
    "read", "write", "execute", "network", "snapshot", "person", "question", "intent", "session", "restore", "other"
]
KIND_OF_EVENT: dict[str, RowKind] = {
    "mutation": "write",
    "generated": "write",
    "data_changed": "write",
    "data_snapshot": "snapshot",
    "human_edit": "person",
    "approval_requested": "question",
    "approval_answered": "person",
    "review_sent": "person",
    "console_paired": "person",
    "setting_changed": "person",
    "intent_selected": "intent",
    "intent_cleared": "intent",
    "intent_transition": "intent",
    "intent_reopened": "intent",
    "intent_renumbered": "intent",
    "intent_changed": "intent",
    "lesson": "intent",
    "session_start": "session",
    "session_end": "session",
    "snapshot": "snapshot",
    "restore": "restore",
    "verification": "execute",
}
KIND_OF_EFFECT: dict[str, RowKind] = {"read": "read", "write": "write", "execute": "execute", "network": "network"}
WEIGHT: dict[Meaning, int] = {"denied": 5, "failed": 4, "asked": 3, "undone": 3, "contained": 2}
"""Of the records of one call, the heaviest says what the row means."""
CALL_EVENTS = (
    *("tool_use", "tool_result", "denied", "mutation", "approval_requested", "approval_answered", "generated"),
    *("data_snapshot", "data_changed"),
)

STEPS_SHOWN = 240
ANSWER_AGE_S = 3.0


class SessionRow(Struct, frozen=True):
    """A call, or another record, of a session. `position` counts records from 0 in what the filters leave; `records`
    are the ids behind the row. `key` stays the same when more records of the call come. `badge` is empty for what was
    simply allowed. `gap_s` is a silence before the row.
    """

    position: int
    id: str
    key: str
    at: str
    kind: RowKind
    meaning: Meaning
    badge: str
    name: str
    about: str
    agent_id: str
    added: int
    removed: int
    duration_ms: int | None
    is_quiet: bool
    records: list[str]


def make_session_rows(documents: Sequence[dict[str, Any]], start: int, *, folded: bool = True) -> list[SessionRow]:
    """Return the rows of a window of records, oldest first; with `folded`, a row for each call."""
    groups: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for position, document in enumerate(documents, start):
        groups.setdefault(name_key(document) if folded else str(document["id"]), []).append((position, document))
    return [make_row_of_group(key, members) for key, members in groups.items()]


def name_key(document: dict[str, Any]) -> str:
    """Return the key of a row: the call's id, or the record's."""
    body: dict[str, Any] = document["metadata"][KEY]
    call_id = as_object(body.get("call")).get("id")
    if call_id and body.get("event") in CALL_EVENTS:
        return f"{body.get('agent_id') or ''}/{call_id}"
    return str(document["id"])


def make_row_of_group(key: str, members: Sequence[tuple[int, dict[str, Any]]]) -> SessionRow:
    position, first = members[0]
    bodies: list[dict[str, Any]] = [document["metadata"][KEY] for _, document in members]
    body = bodies[0]
    summaries = [summarize_record(each) for each in bodies]
    heaviest = max(summaries, key=lambda summary: WEIGHT.get(summary.meaning, 0))
    call = as_object(body.get("call"))
    effect = KIND_OF_EFFECT.get(str(call.get("effect") or ""))
    event = str(body.get("event"))
    kind: RowKind = KIND_OF_EVENT.get(event, "other") if len(members) == 1 else "other"
    if event in CALL_EVENTS or kind == "other":
        kind = effect or KIND_OF_EVENT.get(event, "other")
    if len(members) == 1 and event == "approval_requested":
        kind = "question"
    name = str(call.get("name") or "")
    about = heaviest.about if WEIGHT.get(heaviest.meaning) else summaries[0].about
    weighty = heaviest.meaning if WEIGHT.get(heaviest.meaning) else summaries[0].meaning
    added, removed = count_lines(bodies)
    return SessionRow(
        position,
        str(first["id"]),
        key,
        str(first["timestamp"]),
        kind,
        weighty,
        heaviest.verb if WEIGHT.get(heaviest.meaning) else "",
        name or summaries[0].verb,
        about.removeprefix(f"{name} ") if name else about,
        str(body.get("agent_id") or ""),
        added,
        removed,
        next((each["duration_ms"] for each in reversed(bodies) if each.get("duration_ms") is not None), None),
        all(summary.is_quiet for summary in summaries),
        [str(document["id"]) for _, document in members],
    )


def count_lines(bodies: Iterable[dict[str, Any]]) -> tuple[int, int]:
    """Return the lines that these records added and removed, where they tell."""
    added = removed = 0
    for body in bodies:
        for file in as_objects(body.get("files")):
            for hunk in file.get("hunks") or ():
                removed, added = removed + int(hunk[1]), added + int(hunk[3])
            if not file.get("hunks") and file.get("operation") == "create":
                added += int(as_object(file.get("after")).get("lines") or 0)
    return added, removed


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
