"""Workspaces of a call: the one that governs it, and further ones that its command names."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from remit.core.call import ToolCall
from remit.core.scope.path_patterns import InvalidPath
from remit.gate.governing.rules import load_rules
from remit.policy.commands import analyse
from remit.policy.decide import classify
from remit.workspace.place.resolve_paths import resolve_real_paths
from remit.workspace.place.workspace import (
    ORCHESTRATION_FOLDER,
    Workspace,
    find_session_workspaces,
    locate_by_real_path,
    locate_workspace,
)

WORD_PATTERN = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^\s'\"|;&<>()`]+)")
HOME_PREFIX = re.compile(r"\A(?:~|\$HOME|\$\{HOME\})(?=/|\Z)")
MAX_PLACES = 200  # of one command that are looked up
MAX_PLACE_CHARS = 4096


def find_workspace_of_call(call: ToolCall, home: Path) -> Workspace | None:
    """Return the workspace governing a call: the target path's nearest, else the one of the agent's folder.

    Among several workspaces of a call's paths, the first enforcing one judges the call: paths of the rest are outside.
    """
    governed: dict[Path, Workspace] = {}
    for raw in call.paths:
        with suppress(InvalidPath):
            for real in resolve_real_paths(raw, Path(call.cwd), home):
                near = locate_by_real_path(real.rpartition("/")[0] or "/")
                if near is not None and near.is_governed:
                    governed.setdefault(near.root, near)
    found = list(governed.values())
    if found and (own := find_assigned_workspace(call.cwd, found)) is not None:
        return own
    if len(found) > 1:
        return max(found, key=lambda workspace: load_rules(workspace).mode == "enforce")
    return found[0] if found else find_workspace_of_session(call, home)


def find_workspace_of_session(call: ToolCall, home: Path) -> Workspace | None:
    own = locate_workspace(Path(call.cwd))
    bound = find_session_workspaces(home, call.session.session_id)
    if not bound or own in bound or (own is not None and own.is_assigned):
        return own
    return own if classify(call) == "meta" and own is not None and own.is_governed else bound[0]


def find_assigned_workspace(cwd: str, found: Iterable[Workspace]) -> Workspace | None:
    if all(is_inside_folder(cwd, str(workspace.root)) for workspace in found):
        return None
    own = locate_workspace(Path(cwd))
    return own if own is not None and own.is_assigned else None


def is_inside_folder(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def find_named_workspaces(call: ToolCall, governing: Workspace | None, home: Path) -> list[Workspace]:
    """Return further governed workspaces with a place named in the call's command.

    Variables except HOME and the effect of a program's input are unknown: such changes are found by the next comparison
    of the reached workspace.
    """
    if call.command is None:
        return []
    own = str(governing.root) if governing is not None and governing.is_governed else None
    places = dict.fromkeys(find_named_places(call.command, call.cwd, str(home), named_only=own is not None))
    known: dict[str, str | None] = {}
    folders = (call.cwd, call.given_folder or call.cwd) if own is not None else ()
    places |= dict.fromkeys(os.path.realpath(folder) for folder in folders if not is_inside_folder(folder, str(own)))
    roots = dict.fromkeys(find_marked_folder(place, known) for place in islice(places, MAX_PLACES))
    near = [locate_workspace(Path(root)) for root in roots if root is not None and root != own]
    found = {w.root: w for w in near if w is not None and w.is_governed and str(w.root) != own}
    shared = governing.common_dir if governing is not None else None
    for root in find_removed_work_trees(call) if found else ():
        # Imported here: few commands remove a worktree.
        from remit.workspace.worktrees import is_disposable

        if (gone := found.get(root)) is not None and gone.common_dir == shared and is_disposable(gone):
            del found[root]
    return list(found.values())


def find_removed_work_trees(call: ToolCall) -> Iterator[Path]:
    for write in analyse(call.command or "").writes or ():
        if write.is_work_tree and write.is_recursive:
            yield Path(call.cwd, write.path).resolve()


def find_marked_folder(place: str, known: dict[str, str | None]) -> str | None:
    """Return the nearest folder at or above `place` that may begin a workspace; `known` caches the answers."""
    below: list[str] = []
    while place not in known:
        below.append(place)
        above = os.path.dirname(place)  # noqa: PTH120
        here = any(os.path.lexists(f"{place}/{name}") for name in (".git", ORCHESTRATION_FOLDER))
        if here or above == place:
            known[place] = place if here else None
        else:
            place = above
    known.update(dict.fromkeys(below, known[place]))
    return known[place]


def find_named_places(command: str, cwd: str, home: str, *, named_only: bool) -> Iterator[str]:
    """Yield the places named by the command's words, links followed; `named_only` skips words without a `/`."""
    for word in split_words(command):
        for text in dict.fromkeys((word, word.rpartition("=")[2])):
            expanded = HOME_PREFIX.sub(lambda _: home, text)
            if (named_only and "/" not in expanded and expanded != "..") or not 0 < len(expanded) <= MAX_PLACE_CHARS:
                continue
            if "\0" not in expanded:
                with suppress(OSError):  # /proc/PID/root of another user's process
                    yield os.path.realpath(os.path.join(cwd, expanded))  # noqa: PTH118  a Path would tidy `..` away


def split_words(command: str) -> Iterator[str]:
    """Yield the command's words, and the words inside quotes: a script for another shell may stand there."""
    for single, double, plain in WORD_PATTERN.findall(command):
        quoted = single or double
        yield plain or quoted
        if " " in quoted:
            yield from (part for _, _, part in WORD_PATTERN.findall(quoted.replace("'", " ").replace('"', " ")) if part)
