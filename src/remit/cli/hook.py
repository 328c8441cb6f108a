"""`remit hook AGENT [pre|post|note]`: that agent's hook payload in, that agent's answer out."""

import os
import sys

from remit.adapters import ROWS
from remit.servers.environment import enter
from remit.servers.hook import Frame, answer

USAGE = "usage: remit hook AGENT [pre|post|note] < payload   (AGENT: {agents})\n"
CLASSES = ("pre", "post", "note")


def main(arguments: list[str]) -> int:
    """Answer one hook call. 0 for every answer, denials included; 2 where a *pre* event could not be answered."""
    agent, event_class = (*arguments, "", "")[:2]
    if agent not in ROWS or len(arguments) > 2 or (event_class and event_class not in CLASSES):
        sys.stderr.write(USAGE.format(agents=", ".join(ROWS)))
        return 0 if event_class in ("post", "note") else 2
    environment = enter()
    frame = Frame(agent, folder(), next((c for c in CLASSES if c == event_class), None))
    reply = answer(sys.stdin.buffer.read(), frame, environment)
    return write(reply.stdout, reply.stderr, reply.exit_code)


def folder() -> str:
    """The folder we were started in; `/` where it is gone."""
    try:
        return str(os.getcwd())  # noqa: PTH109  pathlib is not needed for this
    except FileNotFoundError:
        return "/"


def write(stdout: bytes, stderr: bytes, code: int) -> int:
    """Hand the answer over. An agent that stopped listening is no failure of ours."""
    try:
        sys.stderr.buffer.write(stderr)
        sys.stdout.buffer.write(stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code
