"""Commands must not wait for input that no hook sees."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding
from remit.policy.commands.background_and_input import may_wait_for_input


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find COMMAND_BLOCKED if the program would wait for input that the agent can send without a hook."""
    if not may_wait_for_input(call):
        return None
    return Finding(
        rule="unwatched",
        code="COMMAND_BLOCKED",
        message="This command waits for input, and what would be typed into it cannot be judged. "
        "Run the work as one command (bash -c '…', python3 script.py), or give it its input (< file, <<'EOF').",
        context={"command": (call.command or "")[:4096]},
    )
