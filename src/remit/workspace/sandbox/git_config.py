"""What a command set for a repository: where a branch is pulled from may come over, and nothing else.

All other settings make git run programs, overlook files, or talk to another place: they are a person's.
"""

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from msgspec import Struct

from remit.workspace.git import Git
from remit.workspace.git_settings import listed

TRACKING = re.compile(r"branch\.(?P<branch>[^\n]+)\.(?P<name>remote|merge|rebase)")
BRANCH_NAME = re.compile(r"refs/heads/[\w][\w./@+-]*")
REBASES = frozenset({"true", "false", "merges"})


class Setting(Struct, frozen=True):
    """One setting; `value` is None where it was taken away."""

    key: str
    value: str | None


def changed_settings(
    common: Path, upper: Path, remotes: Collection[str], gone: Collection[str]
) -> tuple[list[Setting], list[str]]:
    """Return what may come over of the settings that a command changed, and the keys of what may not.

    `remotes` are those of the real settings, `gone` the branches that the command took away. Raises OSError.
    """
    before, after = listed(common / "config"), listed(upper / "config")
    changed = {key: after.get(key) for key in (*after, *before) if before.get(key) != after.get(key)}
    local = {"."} if not any(TRACKING.fullmatch(key) for key in changed.keys() & before.keys()) else set[str]()
    own = [
        Setting(key, value)
        for key, value in changed.items()
        if (match := TRACKING.fullmatch(key)) and is_tracking(match, value, {*remotes, *local}, gone)
    ]
    return own, sorted(changed.keys() - {setting.key for setting in own})


def is_tracking(match: re.Match[str], value: str | None, remotes: Collection[str], gone: Collection[str]) -> bool:
    """Whether a setting only says where a branch is pulled from: a known remote, and a branch there."""
    if value is None:
        return match["branch"] in gone
    if match["name"] == "remote":
        return value in remotes
    return bool(BRANCH_NAME.fullmatch(value)) if match["name"] == "merge" else value in REBASES


def set_tracking(common: Path, settings: Iterable[Setting]) -> None:
    """Write these settings into the repository's own file. Raises GitError."""
    git = Git(common)
    for setting in settings:
        words = ("--unset-all", setting.key) if setting.value is None else ("--replace-all", setting.key, setting.value)
        git.run("config", "--file", str(common / "config"), *words, ok=(0, 5))
