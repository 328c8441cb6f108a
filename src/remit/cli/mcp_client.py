"""`remit mcp`, as agents start it: the hook client passes the client's lines on. It imports little, as a hook does."""

import os
import sys
from contextlib import suppress

from remit.core.machine_paths import CLIENT_PATH, STATE_FOLDER


def relay_lines(home: str) -> int:
    """Pass lines on between standard input and output and the server of this user's tools; return the exit code."""
    become_client(f"{home}/{CLIENT_PATH}")
    # Where no client is installed, or an older one: the pure-Python one, with the settings of this installation.
    from importlib.metadata import version

    from remit_hook.__main__ import ACK_TIMEOUT_S, Relay, build_request, receive_reply

    fields = (version("remit"), sys.executable, f"{home}/{STATE_FOLDER}/daemon.sock")
    settings = [os.fsencode(field) for field in fields]
    # A daemon as old as the client reads a request to its end, which a relay's has not: a whole one ends that daemon.
    if os.path.exists(f"{home}/{CLIENT_PATH}.conf"):  # noqa: PTH110  pathlib is not loaded yet
        receive_reply(settings[2], build_request(settings[0], [b"hook", b"note"], b""), ACK_TIMEOUT_S)
    return Relay("", settings).run()


def become_client(client: str) -> None:
    """Replace this process by the installed client; return where there is none, or an older one."""
    with suppress(OSError):
        with open(f"{client}.conf", "rb") as settings:  # noqa: PTH123  pathlib is not loaded yet
            can_relay = b"\nmcp\n" in settings.read()
        if can_relay:
            os.execv(client, [client, "mcp"])
