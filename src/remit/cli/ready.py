"""The ready descriptor: a program that starts a daemon or a worker learns when it takes work."""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import click


def choose_announcement(context: click.Context, parameter: click.Parameter, value: int | None) -> Callable[[], None]:
    """Return the function that announces readiness. Raises BadParameter for a descriptor that cannot be written."""
    if value is None:
        return lambda: None
    try:
        mode = fcntl.fcntl(value, fcntl.F_GETFL) & os.O_ACCMODE
    except (OSError, OverflowError):
        raise click.BadParameter(f"{value} is no open descriptor", context, parameter) from None
    if mode == os.O_RDONLY:
        raise click.BadParameter(f"descriptor {value} cannot be written", context, parameter)
    os.set_inheritable(value, False)  # it ends with this process, not with those that this one starts
    return partial(announce, value)


def announce(descriptor: int) -> None:
    """Write one byte and close the descriptor. Nobody may be left to read it."""
    with suppress(OSError):
        os.write(descriptor, b"\n")
    os.close(descriptor)


ready_option = click.option(
    "--ready-fd",
    "announce_ready",
    type=click.IntRange(min=1),
    callback=choose_announcement,
    help="Write one byte to this open descriptor once work is taken, and close it.",
)
