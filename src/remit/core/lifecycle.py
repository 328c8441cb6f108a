"""How an intent moves from DRAFT to its end. Pure: the caller writes the file and the record."""

from collections.abc import Iterable

from remit.core.intent import FINAL, STATUSES, TRANSITIONS, Intent, Status


class IllegalTransition(ValueError):
    """The life cycle has no such step. `allowed` are the steps it has, in the order of STATUSES."""

    def __init__(self, intent_id: str, current: Status, wanted: Status) -> None:
        self.intent_id = intent_id
        self.current: Status = current
        self.wanted: Status = wanted
        self.allowed: tuple[Status, ...] = tuple(s for s in STATUSES if s in TRANSITIONS[current])
        super().__init__(f"{intent_id} is {current} and cannot become {wanted}; {self._next()}")

    def _next(self) -> str:
        if self.allowed:
            return f"expected {' or '.join(self.allowed)}"
        return f"{self.current} is final; `remit intent fork {self.intent_id}` starts a new one from it"


def transition(intent: Intent, to: Status) -> None:
    """Return when `intent` may become `to`; raise IllegalTransition when not, also for what it already is."""
    if to not in TRANSITIONS[intent.status]:
        raise IllegalTransition(intent.id, intent.status, to)


def completion_obstacles(intent: Intent, intents: Iterable[Intent]) -> tuple[str, ...]:
    """What keeps `intent` from DONE, one sentence each: the children that are not yet DONE or ABORTED."""
    return tuple(
        f"{child.id} is {child.status}: a parent completes after its children"
        for child in intents
        if child.parent_intent == intent.id and child.id != intent.id and child.status not in FINAL
    )


def unfinished_dependencies(intent: Intent, intents: Iterable[Intent]) -> tuple[str, ...]:
    """The ids that `intent` depends on and that are not DONE. An unknown one counts as not done."""
    done = {other.id for other in intents if other.status == "DONE"}
    return tuple(name for name in intent.dependencies if name not in done)
