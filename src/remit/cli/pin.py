"""`remit pin`: a PIN for acts that loosen, where Remit cannot tell the person from an agent."""

import click

from remit.cli.output import Failure, emit, json_option, reports_failures
from remit.cli.person_only import ask_for_pin, require_terminal
from remit.core.acts import Act
from remit.servers.environment import read_environment
from remit.servers.pin import MIN_CHARS, PinKeeper


@click.group()
def pin() -> None:
    """Set a PIN, once, for terminals in which Remit cannot tell you from an agent.

    It is asked for where an act loosens something and who types is unclear, or the window is an agent's too. What is
    seen to be an agent's, or runs contained, is refused with or without it.
    """


@pin.command("set")
@json_option
@reports_failures
def set_(as_json: bool) -> None:
    """Set the PIN; it is typed twice, and not shown."""
    require_terminal(Act.SET_PIN)
    first = ask_for_pin("New PIN: ")
    if len(first) < MIN_CHARS:
        raise Failure("USAGE", f"a PIN has at least {MIN_CHARS} characters", fix="choose a longer one")
    if ask_for_pin("The same again: ") != first:
        raise Failure("USAGE", "the two are not the same", fix="try again")
    PinKeeper(read_environment().home).set(first)
    emit({"set": True}, as_json, "set; it is asked for where Remit cannot tell who types")


@pin.command("clear")
@json_option
@reports_failures
def clear(as_json: bool) -> None:
    """Take the PIN away."""
    require_terminal(Act.SET_PIN)
    was_set = PinKeeper(read_environment().home).clear()
    emit({"cleared": was_set}, as_json, "taken away" if was_set else "none was set")
