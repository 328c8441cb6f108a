"""Showing a long answer on a terminal, as git does.

The pager is the user's own: a repository's settings may name any program, and are not asked.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

PAGER_ENVIRONMENT = {"LESS": "FRX", "LV": "-c"}
"""What git sets for pagers where the user did not. Source: git-config(1), core.pager, read 2026-11."""


FALSE_WORDS = ("false", "no", "off", "0")
TRUE_WORDS = ("true", "yes", "on", "1")
"""Words of git's for a truth. Source: git-config(1), read 2026-11."""


def choose_pager(own: Mapping[str, str], around: Mapping[str, str]) -> str:
    """The user's pager, empty for none: GIT_PAGER, their `pager.blame`, their `core.pager`, PAGER, less.

    `own` are the settings of the user and of the machine. `pager.blame` may also say that there is none, or any.
    """
    wanted = own.get("pager.blame", "")
    if wanted.lower() in FALSE_WORDS:
        return ""
    told = [around.get("GIT_PAGER"), None if wanted.lower() in ("", *TRUE_WORDS) else wanted, own.get("core.pager")]
    less = "" if around.get("TERM", "dumb") == "dumb" else "less"
    chosen = next((word for word in [*told, around.get("PAGER")] if word is not None), less)
    return "" if chosen in ("", "cat") else chosen


def show_in_pager(answer: bytes, pager: str) -> None:
    """Hand the answer to the pager, and wait until it is left."""
    try:
        child = subprocess.Popen(
            ["/bin/sh", "-c", pager], stdin=subprocess.PIPE, env={**PAGER_ENVIRONMENT, **os.environ}
        )
    except OSError:
        sys.stdout.buffer.write(answer)
        return
    try:
        child.communicate(answer)
    except (BrokenPipeError, KeyboardInterrupt):
        child.wait()
