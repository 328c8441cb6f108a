"""Messages between an attempt at a task and its worker: the worker carries them to the fleet, and brings the messages
of other attempts. They wait in the state of the attempt's worktree, because no agent may reach the fleet's database.
"""

from typing import Literal, TypeAlias

from msgspec import Struct, json
from msgspec.structs import replace

from remit.core.python_runtime import prepare_type
from remit.gate.state.workspace_state import State

MAX_NOTE_CHARS = 2000
MAX_NOTES_OF_TASK = 100

MessageKind: TypeAlias = Literal[
    "progress", "note", "question", "answer", "interface", "patch", "conflict", "grow", "approve", "revise"
]
"""What a message is. `approve` and `revise` are verdicts on the stages before; Remit itself tells of a `conflict`, and
of a wish to `grow` into paths that another task holds.
"""

REVIEW_KINDS = ("approve", "revise")


class AttemptMessage(Struct, frozen=True):
    """A message of an attempt. `to` is an intent; empty: everyone in the plan. `number` counts from 1."""

    kind: MessageKind
    text: str
    to: str = ""
    paths: tuple[str, ...] = ()
    number: int = 0


class FleetNote(Struct, frozen=True):
    """A message as the fleet keeps it, with who said it. Everything in it but numbers is untrusted text."""

    id: int
    kind: str
    from_intent: str
    text: str
    to: str = ""
    attempt: int | None = None
    paths: tuple[str, ...] = ()


class FleetNeighbour(Struct, frozen=True):
    """A task of the fleet as other attempts see it: who works on what. `is_holding`: nobody else may write its scope
    now.
    """

    intent: str
    state: str
    role: str = ""
    agent: str = ""
    scope: tuple[str, ...] = ()
    is_holding: bool = False


class FleetView(Struct, frozen=True):
    """What the worker last brought: notes for this attempt, the tasks around it, and how many notes its task wrote."""

    notes: tuple[FleetNote, ...] = ()
    neighbours: tuple[FleetNeighbour, ...] = ()
    posted: int = 0


class Outbox(Struct, frozen=True):
    """Messages that the worker has not taken yet, and how many there were so far."""

    last: int = 0
    messages: tuple[AttemptMessage, ...] = ()


class AttemptMessages:
    """The messages of one attempt, by its token. Methods raise StateError."""

    def __init__(self, state: State, token: int) -> None:
        self.state = state
        self.outbox_name = f"attempt:{token}:sent"
        self.view_name = f"attempt:{token}:view"

    def send_message(self, message: AttemptMessage) -> None:
        """Leave a message for the worker. Of progress only the newest is of use."""
        with self.state.transaction():
            box = self.read_outbox()
            is_progress = message.kind == "progress"
            waiting = tuple(old for old in box.messages if not (is_progress and old.kind == "progress"))
            number = box.last + 1
            self.write_outbox(Outbox(number, (*waiting, replace(message, number=number))))

    def read_outbox(self) -> Outbox:
        stored = self.state.read_fact(self.outbox_name)
        return json.decode(stored, type=prepare_type(Outbox)) if stored else Outbox()

    def write_outbox(self, box: Outbox) -> None:
        self.state.put_fact(self.outbox_name, json.encode(box).decode())

    def drop_messages(self, up_to: int) -> None:
        """Drop the messages that the fleet has, by the number of the last one."""
        with self.state.transaction():
            box = self.read_outbox()
            self.write_outbox(replace(box, messages=tuple(m for m in box.messages if m.number > up_to)))

    def deliver_view(self, view: FleetView) -> None:
        self.state.put_fact(self.view_name, json.encode(view).decode())

    def read_view(self) -> FleetView:
        stored = self.state.read_fact(self.view_name)
        return json.decode(stored, type=prepare_type(FleetView)) if stored else FleetView()

    def count_posted(self) -> int:
        """Return how many notes the task has written, those that still wait for the worker included."""
        waiting = sum(message.kind != "progress" for message in self.read_outbox().messages)
        return self.read_view().posted + waiting

    def forget(self) -> None:
        """Drop everything of an attempt that is over."""
        names = (self.outbox_name, self.view_name)
        self.state.execute("DELETE FROM facts WHERE workspace=? AND name IN (?,?)", self.state.workspace, *names)
