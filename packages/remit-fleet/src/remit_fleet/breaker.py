"""Circuit breakers of tasks, agents, providers, repositories and plans: repeated failures stop their cause."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from remit.core.plurals import count_things
from remit_fleet.board import Attempt, AttemptEnd, Breaker, BreakerKind, Task, TaskState

FAILED_ENDS = frozenset({AttemptEnd.GAVE_UP, AttemptEnd.FAILED, AttemptEnd.SILENT, AttemptEnd.TIMED_OUT})
MAX_LOST_ATTEMPTS = 5
"""Lost attempts are the worker's fault, up to a number: an agent may be what kills its workers."""
MAX_STUCK_SHARE = 0.3
MIN_STUCK_TASKS = 3
"""A plan of two tasks does not pause because one is stuck."""
PROVIDER_WINDOW = 20
"""Answers of a provider that are looked at: more than half of them bad is pressure."""


class BreakerRule(Struct, frozen=True):
    """Number of failures within a window (seconds) that opens a breaker, and for how long the first time."""

    failures: int
    window_s: float
    pause_s: float


RULES: Mapping[BreakerKind, BreakerRule] = {
    BreakerKind.AGENT: BreakerRule(failures=3, window_s=600, pause_s=600),
    BreakerKind.PROVIDER: BreakerRule(failures=1, window_s=600, pause_s=60),
    # Never open: red trains in a row make trains of one, and then a person is asked.
    BreakerKind.REPOSITORY: BreakerRule(failures=3, window_s=float("inf"), pause_s=0),
}


def find_stuck_reason(attempts: Sequence[Attempt], limit: int) -> str | None:
    """Return why a task with these ended attempts must not be tried again; None if a retry is allowed."""
    failed = [attempt for attempt in attempts if attempt.ended_as in FAILED_ENDS]
    signatures = [attempt.failure for attempt in failed if attempt.failure]
    if signatures and signatures.count(signatures[-1]) > 1:
        return f"the same failure twice: {signatures[-1]}"
    if len(failed) >= limit:
        return f"{count_things(len(failed), 'attempt')} failed; the last one {failed[-1].ended_as}"
    lost = sum(attempt.ended_as is AttemptEnd.LOST for attempt in attempts)
    return f"{lost} workers were lost with it" if lost >= MAX_LOST_ATTEMPTS else None


def record_failure(breaker: Breaker, now: float, why: str) -> Breaker:
    """Return the breaker after a failure. The breaker opens at the rule's number of failures, each time for twice as
    long.
    """
    rule = RULES[breaker.kind]
    failures = (*(at for at in breaker.failures if now - at < rule.window_s), now)
    if len(failures) < rule.failures:
        return replace(breaker, failures=failures, why=why)
    until = now + rule.pause_s * 2**breaker.trips
    return replace(breaker, failures=(), recent=(), trips=breaker.trips + 1, until=until, why=why)


def record_success(breaker: Breaker, now: float) -> Breaker:
    """Return the breaker after a success. A breaker that is not open is reset."""
    return breaker if is_open(breaker, now) else Breaker(breaker.kind, breaker.key)


def record_answer(breaker: Breaker, now: float, *, is_good: bool, why: str = "") -> Breaker:
    """Return a provider's breaker after one answer. The breaker opens if most of the recent answers were bad."""
    recent = (*breaker.recent, is_good)[-PROVIDER_WINDOW:]
    if is_open(breaker, now) or len(recent) < PROVIDER_WINDOW or recent.count(False) * 2 <= PROVIDER_WINDOW:
        return replace(breaker, recent=recent)
    return record_failure(breaker, now, why)


def record_answers(breaker: Breaker, now: float, good: int, bad: int, why: str = "") -> Breaker:
    """Return a provider's breaker after several answers, the bad answers last; at most a window of answers counts."""
    for is_good in ((True,) * good + (False,) * bad)[-PROVIDER_WINDOW:]:
        breaker = record_answer(breaker, now, is_good=is_good, why=why)
    return breaker


def is_open(breaker: Breaker, now: float) -> bool:
    """Return whether the subject must not be used. After `until`, further failures open the breaker again; a success
    resets the breaker.
    """
    return breaker.until is not None and now < breaker.until


def limit_slots(breaker: Breaker, slots: int, now: float) -> int:
    """Return the slots of a provider under pressure: halved for each trip, plus one for each minute since the last
    trip.
    """
    if breaker.until is None:
        return slots
    opened_at = breaker.until - RULES[breaker.kind].pause_s * 2 ** (breaker.trips - 1)
    regrown = int((now - opened_at) // 60)
    return min(slots, max(1, slots // 2**breaker.trips) + regrown)


def limit_train(breaker: Breaker, train: int) -> int:
    """Return how many tasks a landing may take: a single task after repeated red trains."""
    return 1 if breaker.trips else train


def must_ask(breaker: Breaker) -> bool:
    """Return whether landings of single tasks were repeatedly red too, and a person has to look."""
    return breaker.trips > 1


def is_plan_failing(tasks: Sequence[Task]) -> bool:
    """Return whether the share of stuck tasks is high enough to pause the plan and ask a person."""
    stuck = sum(task.state is TaskState.STUCK for task in tasks)
    return stuck >= MIN_STUCK_TASKS and stuck > MAX_STUCK_SHARE * len(tasks)
