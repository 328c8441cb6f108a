"""What people do to a plan's files while it runs: it is named with the next step, holds up nobody else, and loses
nothing.
"""

import threading
from pathlib import Path

import pytest

from fleet.small_plan import IDS, REPOSITORY, TARGET, SmallPlan, made_path
from remit_fleet.board import Order, OrderKind
from remit_fleet.workers.landing_by_hand import undo_landing


@pytest.fixture
def plan(repository: Path, tmp_path: Path, home: Path) -> SmallPlan:
    return SmallPlan(repository, tmp_path, home)


def edit(plan: SmallPlan, old: str, new: str) -> None:
    text = plan.intents.read_text()
    assert old in text
    plan.intents.write_text(text.replace(old, new, 1))


def delete(plan: SmallPlan) -> None:
    head, *parts = plan.intents.read_text().split("  - id: ")
    plan.intents.write_text("  - id: ".join([head, *parts[1:]]))


def abort(plan: SmallPlan) -> None:
    plan.gate.intents.set_status("INT-001", "ABORTED", by="a person")


def narrow(plan: SmallPlan) -> None:
    edit(plan, "src/int-001/**", "src/int-001/other/**")


def widen(plan: SmallPlan) -> None:
    edit(plan, "src/int-001/**", "src/**")


def finish(plan: SmallPlan) -> None:
    plan.gate.intents.set_status("INT-001", "DONE", by="a person")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (delete, ["no file declares it any more", "put it back", "remit plan stop INT-001", "remit/INT-001/*"]),
        (abort, ["a person made it ABORTED", "remit plan stop INT-001", "its work stays on the branches"]),
        (narrow, ["not in the write set", "remit intent edit INT-001 --add-scope", "remit task retry INT-001"]),
        (widen, ["landed"]),
        (finish, ["landed"]),
    ],
)
def test_an_intent_that_a_person_changes_after_the_hand_in(plan: SmallPlan, change: object, said: list[str]) -> None:
    plan.hand_in(*IDS[:2])
    assert callable(change)
    change(plan)
    shown = plan.land()
    assert [text for text in said if text not in shown["INT-001"]] == [], shown
    assert shown["INT-002"].startswith("landed")
    assert made_path("INT-002", "made1.py") in plan.list_files()
    assert plan.list_files("remit/INT-001/1") == [made_path("INT-001", "made1.py")]


def test_a_broken_intents_file_is_waited_for_and_nobody_has_to_resume_a_task(plan: SmallPlan) -> None:
    plan.hand_in(*IDS[:2])
    whole = plan.intents.read_text()
    edit(plan, "name: Part INT-001", "name: [Part INT-001")
    shown = plan.land()
    assert all(shown[id].startswith("handed_in: active_intents.yaml:") for id in IDS[:2]), shown
    assert "`remit intent lint`; it is tried again in" in shown["INT-001"]
    plan.intents.write_text(whole)
    assert [shown.split(":")[0] for shown in plan.land().values()] == ["landed", "landed", "waiting"]


def test_a_worker_waits_for_a_person_who_edits_the_intents_file(plan: SmallPlan) -> None:
    worker = plan.open_worker()
    whole = plan.intents.read_text().replace("IN_PROGRESS", "DRAFT", 1)
    plan.intents.write_text(whole.replace("name: Part INT-002", "name: [Part INT-002"))
    (plan.folder / "mended.yaml").write_text(whole)
    mending = threading.Timer(0.3, (plan.folder / "mended.yaml").replace, [plan.intents])
    mending.start()
    worker.host.move_intent(REPOSITORY, "INT-001", "IN_PROGRESS")
    mending.join()
    assert plan.gate.intents.get("INT-001").status == "IN_PROGRESS"


def test_a_worker_names_the_place_in_an_intents_file_that_stays_broken(plan: SmallPlan) -> None:
    edit(plan, "name: Part INT-002", "name: [Part INT-002")
    with pytest.raises(ValueError, match=r"active_intents.yaml:\d+:\d+: YAML_PARSE_ERROR.*remit intent lint"):
        plan.open_worker(0.005).host.move_intent(REPOSITORY, "INT-001", "IN_PROGRESS")


@pytest.mark.parametrize("form", ["merge", "squash"])
def test_what_a_person_took_out_does_not_come_back_with_the_next_plan(plan: SmallPlan, form: str) -> None:
    with (plan.root / ".orchestration/remit.toml").open("a") as settings:
        settings.write(f'[orchestrator]\nform = "{form}"\n')
    plan.hand_in("INT-001")
    assert plan.land()["INT-001"].startswith("landed")
    assert undo_landing(plan.gate, plan.trees, TARGET, "INT-001").undone == ("INT-001",)
    plan.engine.give_order(Order(0, REPOSITORY, OrderKind.UNDO, intent="INT-001"))
    assert plan.list_files() == []
    plan.open_plan("INT-001")
    plan.hand_in("INT-001")
    assert plan.land()["INT-001"].startswith("landed")
    assert plan.list_files() == [made_path("INT-001", "made2.py")]
