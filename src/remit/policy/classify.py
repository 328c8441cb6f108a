"""Safe, meta or destructive: which checks a call has to pass."""

from remit.core.call import REMIT_COMMANDS, CallClass, ToolCall
from remit.policy.commands import analyse


def classify(call: ToolCall) -> CallClass:
    """The class of a call. In doubt, destructive.

    `network` is fetching without a body: rows give tools that send something `execute`.
    """
    if call.effect == "meta":
        return "meta"
    if call.effect in ("read", "none", "network"):
        return "safe"
    if call.effect == "execute" and call.command is not None:
        found = classify_command(call.command)
        return "destructive" if found == "safe" and (call.unproved is not None or call.opens_stdin) else found
    return "destructive"


def classify_command(command: str) -> CallClass:
    """The class of a shell command, from its text alone."""
    analysis = analyse(command)
    if analysis.remit_words is not None and is_for_agents(analysis.remit_words) and is_plain_remit(command):
        return "meta"
    return "safe" if analysis.outcome == "read_only" else "destructive"


def is_for_agents(words: tuple[str, ...]) -> bool:
    """Whether an agent may run `remit <words>`."""
    return words[:1] in REMIT_COMMANDS or words[:2] in REMIT_COMMANDS


def is_plain_remit(command: str) -> bool:
    """Whether the program is `remit` and no path to one: a file of that name in the workspace is the agent's own."""
    return command.split(maxsplit=1)[:1] == ["remit"]
