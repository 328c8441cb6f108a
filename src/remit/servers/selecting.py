"""`remit intent select ID`, `remit lesson TEXT` and their kin as shell commands: the hook acts, the command prints.

An agent's sandboxed shell may reach neither Remit's state nor its daemon; its hook does.
"""

from collections.abc import Sequence

from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.lifecycle import IllegalTransition
from remit.gate.answer import Answer, CannotRecord
from remit.gate.gate import Gate
from remit.gate.intent_refusals import IntentError, Refused
from remit.gate.judging import Judging
from remit.gate.lessons import BOXES, LessonError, Lessons, TodoItem
from remit.policy.classify import classify
from remit.policy.commands import analyse
from remit.policy.violations import explain
from remit.workspace.intents_writing import EditRefused
from remit.workspace.shared_brain import KNOWN, Entry

LESSON_OPTIONS = frozenset({"--kind", "--problem", "--resolution", "--pattern", "--path", "--intent"})
"""Those of `remit lesson`, each with a value. Here and not in click: a hook has no time to load that."""


def select_by_command(gate: Gate, call: ToolCall) -> Answer | None:
    """The answer to a shell call that is literally `remit intent select ID` (or `clear`); None for any other call."""
    words = analyse(call.command).remit if call.command is not None and "remit" in call.command else None
    if words is None or not gate.governed or classify(call) != "meta":
        return None
    try:
        return performed(gate, call, words)
    except Refused as refused:
        return Answer(Decision("deny", "deny", "meta", gate.mode_now()), reason=explain(refused.violation))
    except (LessonError, IntentError, EditRefused, IllegalTransition) as error:
        return Answer(Decision("deny", "deny", "meta", gate.mode_now()), reason=f"remit: {error}")
    except CannotRecord as error:
        return Judging(gate).unrecordable(call, error)


def performed(gate: Gate, call: ToolCall, words: tuple[str, ...]) -> Answer | None:
    """Do what the words ask, for the session that the hook knows."""
    match words:
        case ("intent", "select", intent_id):
            gate.intents.select(call.session, call.agent, intent_id, tool=call.tool)
        case ("intent", "clear"):
            gate.intents.clear(call.session, call.agent)
        case ("intent", "complete", intent_id, "--notes", notes):
            gate.completing.complete(call.session, call.agent, intent_id, notes)
        case ("lesson", *rest) if (wanted := lesson_of(rest)) is not None:
            writer(gate).record(call.session, call.agent, wanted)
        case ("todo", *items) if items and not any(item.startswith("-") for item in items):
            writer(gate).write_todo(call.session, call.agent, [*map(todo_item, items)])
        case _:
            return None
    return gate.before(call)


def writer(gate: Gate) -> Lessons:
    """Who writes lessons and lists."""
    return Lessons(gate.workspace, gate.state, gate.recorder)


def lesson_of(words: Sequence[str]) -> Entry | None:
    """The entry of `remit lesson TEXT [--kind …] …`; None where the words are not that: the command says why."""
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
    kind = KNOWN.get(given.get("--kind", ["lesson"])[-1])
    if len(texts) != 1 or kind is None:
        return None
    said = {name: given.get(f"--{name}", [""])[-1] for name in ("problem", "resolution", "pattern")}
    intent_id = given.get("--intent", [None])[-1]
    return Entry(kind, texts[0], intent_id=intent_id, paths=tuple(given.get("--path", ())), **said)


def todo_item(text: str) -> TodoItem:
    """An item as a shell gives it: `[x]` before it says that it is done, `[~]` that it is under way."""
    for status, box in BOXES.items():
        if text.startswith(box):
            return TodoItem(text.removeprefix(box).strip(), status)
    return TodoItem(text)
