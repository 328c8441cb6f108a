"""Whether an agent runs commands in a sandbox of its own: there, neither another sandbox nor a socket works.

Source: Codex CLI 0.169.0, which writes a line of type `turn_context` at each turn's start, read 2026-11. What its hooks
are told as `permission_mode` is about questions, and the same with and without its sandbox.
"""

from pathlib import Path

import msgspec
from msgspec import Struct

from remit.workspace.versions import read_tail

TAIL = 8 * 1024 * 1024
SIGN = b'"turn_context"'


class Policy(Struct, frozen=True):
    """The part that tells."""

    type: str = ""


class Context(Struct, frozen=True):
    """What a turn runs in."""

    sandbox_policy: Policy = Policy()


class Line(Struct, frozen=True):
    """One line of the transcript."""

    type: str
    payload: Context


def is_unbound(transcript: str | None) -> bool:
    """Whether the transcript says that the newest turn runs without a sandbox; not where it cannot be told."""
    if transcript is None or "\0" in transcript:
        return False
    for line in reversed(read_tail(Path(transcript), TAIL).split(b"\n")):
        if SIGN in line and (found := context(line)) is not None:
            return found.sandbox_policy.type == "danger-full-access"
    return False


def context(line: bytes) -> Context | None:
    """The turn that begins in this line; None for any other line that only speaks of one."""
    try:
        found = msgspec.json.decode(line, type=Line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found.payload if found.type == "turn_context" else None
