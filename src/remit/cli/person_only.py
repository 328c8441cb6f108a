"""Refuse commands that only a person may run: the door rules, and keeps the attempts of others."""

import os
import sys
import termios
from functools import partial
from importlib.metadata import version
from pathlib import Path

import click
from msgspec import DecodeError, json

from remit.adapters import HookReply
from remit.cli.output import REFUSED, Failure
from remit.core.acts import Act
from remit.core.python_runtime import prepare_type
from remit.gate.gate import Gate
from remit.gate.machine import DOOR_EVIDENCE
from remit.servers.authority import Authority, Ruling, apply_pin, find_running_agent, record_refused
from remit.servers.daemon import FACTOR_EXIT_CODE, PERSON_AGENT
from remit.servers.daemon_client import ask_daemon
from remit.servers.environment import read_environment
from remit.servers.pin import PinKeeper

PERSON = "person"  # the actor in records of commands run by a person
PIN_PROMPT = "Remit cannot tell who types here. PIN: "


def is_below_agent() -> bool:
    """Return whether an agent asks, or who asks cannot be seen at all: for what agents may do in another way."""
    ruling = Authority(read_environment().home).rule_process(Act.RAISE_MODE, os.getpid(), None, lambda: "", os.environ)
    return not ruling.allowed or (ruling.grade == "unclear" and not ruling.programs)


def require_person(act: Act) -> None:
    """Raise Failure if the door does not see a person clearly enough for the act."""
    ruling = ask_door(act)
    if not ruling.allowed:
        raise refuse(ruling)
    token = DOOR_EVIDENCE.set(ruling.evidence)
    if context := click.get_current_context(silent=True):
        context.call_on_close(partial(DOOR_EVIDENCE.reset, token))


def ask_door(act: Act) -> Ruling:
    """Return the daemon's ruling. Without a daemon this process looks by itself: it may then do no more than any
    process of the user, and nothing on the daemon's behalf.
    """
    environment, folder, command = read_environment(), find_folder(), name_command()
    payload = b"\0".join([act.name.encode(), command.encode()])

    def ask(more: bytes = b"") -> HookReply | None:
        return ask_daemon(environment.home, version("remit"), PERSON_AGENT, str(folder), payload + more)

    reply = ask()
    if reply is not None and reply.exit_code == FACTOR_EXIT_CODE:
        reply = ask(b"\0" + ask_for_pin().encode())
    if reply is not None:
        try:
            return json.decode(reply.stdout, type=prepare_type(Ruling))
        except DecodeError:
            why = reply.stderr.decode("utf-8", "replace").strip() or "the daemon could not look"
            return Ruling(act.name, False, "unclear", why, "run `remit doctor`")
    gate = Gate.open(folder, environment)
    root = gate.workspace.root if gate.is_governed else None
    ruling = Authority(environment.home).rule_process(
        act, os.getpid(), root, lambda: find_running_agent(gate), os.environ
    )
    keeper = PinKeeper(environment.home, environment.clock)
    ruling = apply_pin(ruling, keeper, ask_for_pin() if ruling.takes_pin and keeper.is_set else "")
    if not ruling.allowed:
        record_refused(gate, ruling, command)
    return ruling


def ask_for_pin(prompt: str = PIN_PROMPT) -> str:
    """Return what is typed at the terminal, unseen; empty where there is none. Standard input is never read."""
    try:
        with Path("/dev/tty").open("r+b", buffering=0) as terminal:
            return read_unseen(terminal.fileno(), prompt)
    except (OSError, termios.error):
        return ""


def read_unseen(terminal: int, prompt: str) -> str:
    before = termios.tcgetattr(terminal)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSAFLUSH, silent)
    try:
        os.write(terminal, prompt.encode())
        return os.read(terminal, 1024).decode("utf-8", "replace").rstrip("\r\n").replace("\0", "")
    finally:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)
        os.write(terminal, b"\n")


def find_folder() -> Path:
    context = click.get_current_context(silent=True)
    repo = context.params.get("repo") if context else None
    return (repo if isinstance(repo, Path) else Path.cwd()).absolute()


def name_command() -> str:
    context = click.get_current_context(silent=True)
    return context.command_path if context else "remit"


def refuse(ruling: Ruling) -> Failure:
    words = Act[ruling.act].words
    joint = ";" if "this shell has none" in ruling.why else ":"
    return Failure(
        "FOR_PEOPLE", f"{words} is for a person at a terminal{joint} {ruling.why}", fix=ruling.fix, exit_code=REFUSED
    )


def refuse_agent(act: Act) -> Failure:
    return refuse(ask_door(act))


def require_terminal(act: Act) -> None:
    require_person(act)
    if not sys.stdin.isatty():
        gate = Gate.open(find_folder(), read_environment())
        record_refused(gate, Ruling(act.name, False, "unclear", "standard input is no terminal"), name_command())
        message = "a yes has to come from a terminal, and standard input is none"
        raise Failure("NOT_A_TERMINAL", message, fix="run it yourself in a terminal", exit_code=REFUSED)


def require_confirmation(yes: bool, what: str, fix: str) -> None:
    if not yes and not (sys.stdin.isatty() and click.confirm(f"{what}. Go on?", default=False)):
        raise Failure("NOT_CONFIRMED", f"nothing was changed: {what}", fix=fix)
