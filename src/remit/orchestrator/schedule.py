"""Stand-in until the real one is merged: first in, first out."""

from remit.orchestrator.board import Board, Claim, Schedule, TaskState


def schedule(board: Board) -> Schedule:
    free = {w.id: w.slots - sum(a.worker == w.id for a in board.attempts) for w in board.workers if not w.draining}
    agents = {w.id: w.agents for w in board.workers}
    landed = {t.key for t in board.tasks if t.state is TaskState.LANDED}
    claims: list[Claim] = []
    waits: dict[tuple[str, str], str] = {}
    paused = {plan.id for plan in board.plans if plan.is_paused}
    for task in board.tasks:
        if task.state is not TaskState.WAITING or task.plan in paused:
            continue
        missing = [need for need in task.needs if (task.repository, need) not in landed]
        if missing:
            waits[task.key] = f"{missing[0]} has to land first"
            continue
        role = board.roles.get(task.role)
        wanted = role.agents if role else ()
        for worker, slots in free.items():
            agent = next((a for a in (wanted or agents[worker]) if a in agents[worker]), None)
            if slots > 0 and agent:
                free[worker] -= 1
                claims.append(Claim(task.repository, task.intent, worker, agent))
                break
        else:
            waits[task.key] = "a free slot"
    return Schedule(claims=tuple(claims), waits=waits)
