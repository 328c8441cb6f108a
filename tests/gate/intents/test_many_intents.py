"""An intents file with very many intents: what a change of one costs grows with their number, and no faster."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from gate.driving import Agent, body, governed, records
from remit.gate import context as context_module


def intents(count: int) -> str:
    """A file of so many intents."""
    rows = (f"  - {{id: INT-{n:03}, status: IN_PROGRESS, owned_scope: [a{n}/**]}}\n" for n in range(1, count + 1))
    return "active_intents:\n" + "".join(rows)


def operations(act: Callable[[], object]) -> int:
    """The operations that the functions of `context.py` run."""
    count = 0

    def note(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != context_module.__file__:
            return None
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


def test_the_cost_of_a_change_grows_with_their_number(repository: Path, home: Path) -> None:
    found: list[int] = []
    for count in (100, 400):
        governed(repository, intents=intents(count))
        agent = Agent(repository, home)
        agent.select()
        path = repository / ".orchestration" / "active_intents.yaml"
        path.write_text(path.read_text().replace("[a5/**]", "[a5/**, b5/**]"))
        found.append(operations(lambda: agent.shell("ls")))  # noqa: B023
        assert body(records(repository, "intent_changed")[-1])["intent_id"] == "INT-005"
    assert found[0] > 1000
    assert found[1] < 6 * found[0]
