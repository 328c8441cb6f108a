"""Trains: the landing order of tasks, the size of a train, and the member that makes a train fail. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from remit_fleet.board import Task, TaskState


class Culprit(Struct, frozen=True):
    """Member that makes a train fail, and the earlier member with which the combination fails; empty if the member
    fails alone.
    """

    intent: str
    partner: str = ""


def order_landing(tasks: Sequence[Task]) -> list[Task]:
    """Return the handed-in tasks by priority and longest tail, each task after its needs."""
    handed_in = [task for task in tasks if task.state is TaskState.HANDED_IN]
    handed_in.sort(key=lambda task: (-task.rank, -task.tail_s, task.intent))
    ordered: list[Task] = []
    left = {task.intent for task in handed_in}
    while handed_in:
        # A task whose need is handed in too goes after it; in a circle the first one goes.
        first = next((task for task in handed_in if not left & set(task.needs)), handed_in[0])
        handed_in.remove(first)
        left.discard(first.intent)
        ordered.append(first)
    return ordered


def gather_train(ordered: Sequence[Task], touched: Mapping[str, Iterable[str]], size: int) -> list[Task]:
    """Return the first tasks without a shared touched file, at most `size`, and no task ahead of a needed task.

    `touched` names the files really touched by each intent's change; the write sets are already proved apart.
    """
    train: list[Task] = []
    taken: set[str] = set()
    passed: set[str] = set()
    for task in ordered:
        files = set(touched.get(task.intent, ()))
        if len(train) == size:
            break
        if taken & files or passed & set(task.needs):
            passed.add(task.intent)
            continue
        train.append(task)
        taken |= files
    return train


def bisect_train(members: Sequence[str], is_green: Callable[[Sequence[str]], bool]) -> Culprit:
    """Return the member that makes a red train red, and its partner; `is_green` verifies some members, in order.

    Takes about twice the logarithm of the train's length in verifications.
    """
    last = members[_count_green(members, is_green)]
    before = members[: members.index(last)]
    if not is_green([last]):
        return Culprit(last)
    alone = _count_green(before, lambda some: is_green([*some, last]))
    return Culprit(last, before[alone] if alone < len(before) else "")


def _count_green(members: Sequence[str], is_green: Callable[[Sequence[str]], bool]) -> int:
    green, red = 0, len(members)
    while red - green > 1:
        middle = (green + red) // 2
        if is_green(members[:middle]):
            green = middle
        else:
            red = middle
    return green
