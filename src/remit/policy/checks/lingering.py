"""Commands must not leave a process running that no comparison sees."""

from remit.core.call import ToolCall
from remit.core.decision import Facts, Finding
from remit.core.untrusted_input import sanitise_line
from remit.policy.commands import analyse
from remit.policy.commands.background_and_input import find_background_word


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find COMMAND_BLOCKED for a command that leaves a process running, cannot run contained here, and does not show
    its writes in its text: the comparison after the call would miss what the process writes later.
    """
    if call.command is None or not facts.bare or analyse(call.command).outcome != "unknown":
        return None
    word = find_background_word(call.command, call.arguments)
    if not word:
        return None
    return Finding(
        rule="lingering",
        code="COMMAND_BLOCKED",
        message=f"By `{word}` this command leaves something running, its text does not tell what that will write, and "
        f"it cannot run contained ({sanitise_line(facts.bare)}). Run it in the foreground, or start, use and end it in one "  # noqa: E501
        "command (`… & …; kill $!`, `… & wait`). What has to stay up, ask the person to start in a terminal of theirs.",
        context={"command": call.command[:4096], "word": word},
    )
