"""Remit's own shell commands in an agent's call, such as `remit intent select ID`: the hook acts, the command prints.

An agent's sandboxed shell may reach neither Remit's state nor its daemon; its hook does.
"""

from collections.abc import Sequence

from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.intents.lifecycle import IllegalTransition
from remit.gate.answer import RECORDING_ERRORS, Answer
from remit.gate.enforce import answer_unrecordable
from remit.gate.gate import Gate
from remit.gate.intents.lessons import CHECKBOXES, LessonError, LessonsWriter, TodoItem
from remit.gate.intents.refusals import IntentError, IntentRefused
from remit.policy.classify import classify
from remit.policy.commands import analyse
from remit.policy.violations import explain
from remit.workspace.agents.lesson_blocks import KIND_BY_NAME, BrainEntry
from remit.workspace.intents_file.storage import EditRefused

LESSON_OPTIONS = frozenset({"--kind", "--problem", "--resolution", "--pattern", "--path", "--intent"})
"""Options of `remit lesson`, each with a value. Repeated here because a hook has no time to load click."""


def run_remit_command(gate: Gate, call: ToolCall) -> Answer | None:
    """Run a shell call that is literally a Remit command and return its answer; None for any other call."""
    words = analyse(call.command).remit_words if call.command is not None and "remit" in call.command else None
    if words is None or not gate.is_governed or classify(call) != "meta":
        return None
    try:
        return perform_command(gate, call, words)
    except IntentRefused as refused:
        return Answer(Decision("deny", "deny", "meta", gate.read_mode()), reason=explain(refused.violation))
    except (LessonError, IntentError, EditRefused, IllegalTransition) as error:
        return Answer(Decision("deny", "deny", "meta", gate.read_mode()), reason=f"remit: {error}")
    except RECORDING_ERRORS as error:
        return answer_unrecordable(gate, call, error)


def perform_command(gate: Gate, call: ToolCall, words: tuple[str, ...]) -> Answer | None:
    """Perform the command for the hook's session; None for an unknown command."""
    match words:
        case ("intent", "select", intent_id):
            gate.intents.select(call.session, call.agent, intent_id, tool=call.tool)
        case ("intent", "clear"):
            gate.intents.clear(call.session, call.agent)
        case ("intent", "complete", intent_id, "--notes", notes):
            gate.completion.complete(call.session, call.agent, intent_id, notes)
        case ("lesson", *rest) if (wanted := parse_lesson(rest)) is not None:
            make_lessons_writer(gate).record_lesson(call.session, call.agent, wanted)
        case ("todo", *items) if items and not any(item.startswith("-") for item in items):
            make_lessons_writer(gate).write_todo(call.session, call.agent, [*map(parse_todo_item, items)])
        case _:
            return None
    return gate.before(call)


def make_lessons_writer(gate: Gate) -> LessonsWriter:
    return LessonsWriter(gate.workspace, gate.state, gate.recorder)


def parse_lesson(words: Sequence[str]) -> BrainEntry | None:
    """Return the entry of `remit lesson TEXT [--kind …] …`; None for invalid words: the command itself explains."""
    texts: list[str] = []
    given: dict[str, list[str]] = {}
    left = iter(words)
    for word in left:
        name, joined, value = word.partition("=")
        if not word.startswith("-"):
            texts.append(word)
        elif name in LESSON_OPTIONS:
            given.setdefault(name, []).append(value if joined else next(left, ""))
        else:
            return None
    kind = KIND_BY_NAME.get(given.get("--kind", ["lesson"])[-1])
    if len(texts) != 1 or kind is None:
        return None
    said = {name: given.get(f"--{name}", [""])[-1] for name in ("problem", "resolution", "pattern")}
    intent_id = given.get("--intent", [None])[-1]
    return BrainEntry(kind, texts[0], intent_id=intent_id, paths=tuple(given.get("--path", ())), **said)


def parse_todo_item(text: str) -> TodoItem:
    """Return an item from shell words: `[x]` marks a done item, `[~]` one in progress."""
    for status, box in CHECKBOXES.items():
        if text.startswith(box):
            return TodoItem(text.removeprefix(box).strip(), status)
    return TodoItem(text)
