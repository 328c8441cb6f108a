"""Showing a long answer on a terminal, as git does.

The pager is the user's own: a repository's settings may name any program, and are not asked.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

from remit.workspace.git import Git, GitError

LESS = {"LESS": "FRX", "LV": "-c"}
"""What git sets for pagers where the user did not. Source: git-config(1), core.pager, read 2026-11."""


def pager_of(git: Git, around: Mapping[str, str]) -> str:
    """The user's pager, empty for none: GIT_PAGER, their own core.pager, PAGER, less."""
    if around.get("TERM", "dumb") == "dumb":
        return ""
    found = around.get("GIT_PAGER")
    if found is None:
        found = setting(git, "pager.blame") or setting(git, "core.pager") or around.get("PAGER")
    chosen = "less" if found is None else found
    return "" if chosen in ("", "cat", "false") else chosen


def setting(git: Git, name: str) -> str | None:
    """What the user or the machine says of that; a repository is not asked."""
    for level in ("--global", "--system"):
        try:
            if found := git.text("config", level, "--get", name, ok=(0, 1)):
                return found
        except GitError:
            continue
    return None


def page(answer: bytes, pager: str) -> None:
    """Hand the answer to the pager, and wait until it is left."""
    try:
        child = subprocess.Popen(["/bin/sh", "-c", pager], stdin=subprocess.PIPE, env={**LESS, **os.environ})
    except OSError:
        sys.stdout.buffer.write(answer)
        return
    try:
        child.communicate(answer)
    except (BrokenPipeError, KeyboardInterrupt):
        child.wait()
