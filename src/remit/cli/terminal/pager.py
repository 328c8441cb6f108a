"""Paging of long answers on a terminal, with the user's pager.

A repository's settings may name any program, and are ignored.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

PAGER_ENVIRONMENT = {"LESS": "FRX", "LV": "-c"}
"""Git's defaults for pagers. Source: git-config(1), core.pager, read 2026-11."""


FALSE_WORDS = ("false", "no", "off", "0")
TRUE_WORDS = ("true", "yes", "on", "1")
"""Git's boolean words. Source: git-config(1), read 2026-11."""


def choose_pager(own: Mapping[str, str], around: Mapping[str, str]) -> str:
    """Return the pager, empty for none: GIT_PAGER, `pager.blame`, `core.pager`, PAGER, less.

    `user_settings` are git settings of the user and the machine. `pager.blame` may also be a boolean.
    """
    wanted = own.get("pager.blame", "")
    if wanted.lower() in FALSE_WORDS:
        return ""
    told = [around.get("GIT_PAGER"), None if wanted.lower() in ("", *TRUE_WORDS) else wanted, own.get("core.pager")]
    less = "" if around.get("TERM", "dumb") == "dumb" else "less"
    chosen = next((word for word in [*told, around.get("PAGER")] if word is not None), less)
    return "" if chosen in ("", "cat") else chosen


def show_in_pager(answer: bytes, pager: str) -> None:
    """Run the pager with the answer as input, and wait for its end."""
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
