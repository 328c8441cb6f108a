"""Records of plans in git: an annotated tag on the plan's first commit, under `refs/remit/plans/`, that says which
intents a plan has, in which roles; from them a lost board is rebuilt on any host.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress

from msgspec import MsgspecError, Struct, json
from msgspec.structs import replace

from remit.core.python_runtime import prepare_type
from remit.workspace.merging import TreeStore
from remit.workspace.worktrees import PLAN_REFS
from remit_fleet.board import OpenPlan, Task

MAX_RECORD_BYTES = 1 << 20
MAX_PLANS = 200
LOST_BOARD = "plans were started in this repository, and the fleet database has none of them: `remit fleet rebuild`"


class PlannedIntent(Struct, frozen=True, omit_defaults=True):
    """An intent of a plan, in its role, with the agents that a person chose for it."""

    intent: str
    role: str
    agents: tuple[str, ...] = ()


class PlanRecord(Struct, frozen=True):
    """A plan as it was started."""

    plan: OpenPlan
    intents: tuple[PlannedIntent, ...]


def write_plan_record(store: TreeStore, plan: OpenPlan, tasks: Iterable[Task], commit: str, at: float) -> str:
    """Write the tag of a plan on its first commit, with its ref, and return the tag's name. Raises GitError."""
    known = PlanRecord(plan, tuple(PlannedIntent(task.intent, task.role, task.agents) for task in tasks))
    return store_record(store, known, commit, at)


def strike_intents(store: TreeStore, dropped: Collection[str]) -> None:
    """Take intents that a person dropped or undid out of the plans' records here. Raises GitError."""
    for record in read_plan_records(store):
        left = tuple(one for one in record.intents if one.intent not in dropped)
        commit = store.find_commit(f"{PLAN_REFS}{record.plan.id}") if left != record.intents else None
        if commit is not None:
            store_record(store, replace(record, intents=left), commit, record.plan.made_at)


def store_record(store: TreeStore, record: PlanRecord, commit: str, at: float) -> str:
    plan = record.plan
    head = f"object {commit}\ntype commit\ntag {plan.id}\ntagger Remit <remit@localhost> {int(at)} +0000\n\n"
    content = head.encode() + json.encode(record) + b"\n"
    tag = store.git.run("hash-object", "-w", "-t", "tag", "--stdin", stdin=content).decode("ascii").strip()
    store.git.run("update-ref", f"{PLAN_REFS}{plan.id}", tag)
    return tag


def has_plans(store: TreeStore) -> bool:
    """Return whether a plan here had an intent that nobody dropped."""
    return any(record.intents for record in read_plan_records(store))


def read_plan_records(store: TreeStore) -> list[PlanRecord]:
    """Return the newest plans that say what they are, the newest first; the rest, and junk, is passed over."""
    form = "--format=%(objecttype) %(objectsize) %(refname)"
    listed = store.git.text("for-each-ref", form, "--sort=-refname", f"--count={MAX_PLANS}", PLAN_REFS)
    rows = [line.split(" ", 2) for line in listed.splitlines()]
    names = [ref for kind, size, ref in rows if kind == "tag" and int(size) <= MAX_RECORD_BYTES]
    found: list[PlanRecord] = []
    for ref, content in store.read_objects(names).items():
        with suppress(MsgspecError, UnicodeDecodeError):
            record = json.decode(content.partition(b"\n\n")[2], type=prepare_type(PlanRecord))
            if ref == f"{PLAN_REFS}{record.plan.id}":
                found.append(record)
    return found
