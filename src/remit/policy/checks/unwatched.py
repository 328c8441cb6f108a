"""Commands that go on reading what no hook will see."""

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """COMMAND_BLOCKED where the program would wait for input that the agent can send it unasked."""
    if not call.opens_stdin:
        return None
    return Finding(
        rule="unwatched",
        code="COMMAND_BLOCKED",
        message="This command waits for input, and what would be typed into it cannot be judged. "
        "Run the work as one command (bash -c '…', python3 script.py), or give it its input (< file, <<'EOF').",
        context={"command": (call.command or "")[:4096]},
    )
