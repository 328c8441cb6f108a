"""`remit hook AGENT [pre|post|note]`: read an agent's hook payload, print the answer."""

import os
import signal
import sys
from pathlib import Path

from msgspec.structs import replace

from remit.core.agents import ROWS
from remit.gate.machine import Environment
from remit.servers.environ_checks import NoHome
from remit.servers.environment import process_age_s, read_environment
from remit.servers.hook import HookFrame, answer, parse_event_class, refuse_payload
from remit.workspace.place.workspace import is_in_jail

USAGE = "usage: remit hook AGENT [pre|post|note] < payload   (AGENT: {agents})\n"
NO_DOOR = "the worker of this plan does not answer, so nothing can be judged or recorded. Stop, and say so"
LATEST_S = 597  # deadline of a pre call, below the 600 s after which agents run the tool without an answer


def main(arguments: list[str]) -> int:
    """Answer one hook call. Returns 0 for every answer, denials included; 2 for a *pre* event without an answer. A call
    that takes too long is ended by SIGALRM, and the shell words in the agent's settings deny.
    """
    from_client = arguments[-1:] == ["--client"]
    words = arguments[:-1] if from_client else arguments
    kind = parse_event_class(words[1]) if len(words) == 2 else None
    if not 1 <= len(words) <= 2 or words[0] not in ROWS or (len(words) == 2 and kind is None):
        sys.stderr.write(USAGE.format(agents=", ".join(ROWS)))
        return 0 if kind in ("post", "note") else 2
    try:
        folder = str(os.getcwd())  # noqa: PTH109  pathlib is not loaded yet
    except FileNotFoundError:
        folder = "/"
    frame = HookFrame(words[0], folder, kind, os.getpid())
    try:
        environment = read_environment()
    except NoHome as error:
        nowhere = Environment(home=Path(os.devnull), temporary=Path(os.devnull))
        reply = refuse_payload(sys.stdin.buffer.read(), frame, nowhere, str(error))
        return write_reply(reply.stdout, reply.stderr, reply.exit_code)
    if is_in_jail(environment.home):
        return answer_in_jail(frame, environment)
    if from_client:
        environment = replace(environment, waited_s=process_age_s())
    if kind == "pre":
        signal.alarm(max(1, int(LATEST_S - environment.waited_s)))
    reply = answer(sys.stdin.buffer.read(), frame, environment)
    signal.alarm(0)
    code = write_reply(reply.stdout, reply.stderr, reply.exit_code)
    if from_client:
        start_daemon(environment, folder)
    return code


def answer_in_jail(frame: HookFrame, environment: Environment) -> int:
    from importlib.metadata import version

    from remit.servers.daemon_client import ask_daemon

    payload, kind = sys.stdin.buffer.read(), frame.event_class
    reply = ask_daemon(environment.home, version("remit"), frame.agent, frame.cwd, payload, kind or "any", LATEST_S)
    if reply is None:
        sys.stderr.write(f"remit: {NO_DOOR}\n")
        return 0 if kind in ("post", "note") else 2
    return write_reply(reply.stdout, reply.stderr, reply.exit_code)


def start_daemon(environment: Environment, folder: str) -> None:
    """Start a daemon for the next call, because the client found none. An error does not affect this call."""
    from remit.servers.daemon import start_daemon

    try:
        start_daemon(environment.home, folder)
    except OSError as error:
        sys.stderr.write(f"remit: no daemon could be started: {error}\n")


def write_reply(stdout: bytes, stderr: bytes, code: int) -> int:
    """Write the reply. An agent that closed its end of the pipe is no error."""
    try:
        sys.stderr.buffer.write(stderr)
        sys.stdout.buffer.write(stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code
