"""The class of a call: safe, meta or destructive. Only a destructive call has to pass the checks."""

from remit.core.call import REMIT_COMMANDS, CallClass, ToolCall
from remit.policy.commands import analyse
from remit.policy.commands.waits_for_input import waits_for_input


def classify(call: ToolCall) -> CallClass:
    """Return the class of a call; in doubt, destructive.

    `network` means fetching without a body: tools that send something have the effect `execute`.
    """
    if call.effect == "meta":
        return "meta"
    if call.effect in ("read", "none", "network"):
        return "safe"
    if call.effect == "execute" and call.command is not None:
        command_class = classify_command(call.command)
        if command_class == "safe" and (call.unproved is not None or may_wait_for_input(call)):
            return "destructive"
        return command_class
    return "destructive"


def may_wait_for_input(call: ToolCall) -> bool:
    """Return True if the command would wait for input that the agent can type without asking its hooks."""
    return call.has_unwatched_stdin and call.command is not None and waits_for_input(call.command)


def classify_command(command: str) -> CallClass:
    """Return the class of a shell command, by its text alone."""
    analysis = analyse(command)
    if analysis.remit_words is not None and is_for_agents(analysis.remit_words) and is_plain_remit(command):
        return "meta"
    return "safe" if analysis.outcome == "read_only" else "destructive"


def is_for_agents(words: tuple[str, ...]) -> bool:
    return words[:1] in REMIT_COMMANDS or words[:2] in REMIT_COMMANDS


def is_plain_remit(command: str) -> bool:
    """Return True if the program is `remit` and no path: an agent may have put a file of that name anywhere."""
    return command.split(maxsplit=1)[:1] == ["remit"]
