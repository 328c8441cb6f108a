"""What a landing that did not work means for its task: no fault is gathered again without end."""

from typing import get_args

import pytest

from remit_fleet.conflict import SettlementKind, decide
from remit_fleet.landing.merge_rules import FaultKind, LandingFault
from remit_fleet.workers.landing_rounds import describe_fault


@pytest.mark.parametrize("kind", get_args(FaultKind))
def test_each_fault_sends_its_task_back_or_asks_a_person(kind: FaultKind) -> None:
    settlement = decide(describe_fault(LandingFault("INT-001", kind, "a reason")))
    assert settlement.kind in (SettlementKind.REASSIGN, SettlementKind.ASK)
    assert settlement.redo == "INT-001"
    assert settlement.kind is SettlementKind.REASSIGN or settlement.why == "a reason"
