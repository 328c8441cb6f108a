"""Each bound of what comes in is asked at each of its doors, or it is written down why not there."""

import ast

import pytest

from remit.core.bounds import (
    BOUNDS,
    COMMAND_BYTES,
    FILE_BYTES,
    INTENT_FILES,
    INTENTS_BYTES,
    NAME_BYTES,
    ODD_CHARACTERS,
    PAYLOAD_BYTES,
    WHOLE_PATH_BYTES,
)
from sources import find_source, list_modules

LIMITS_OUTSIDE = 606
"""Module constants `MAX_*` outside the table. It only falls: a bound of what comes in is a row."""

ASKED = {
    "file tools": "gate/gather.py check_path_bounds",
    "own agent": "its tools' calls are gathered as those of a file tool",
    "mcp": "its tools' calls are gathered as those of a file tool",
    "acp": "its tools' calls are gathered as those of a file tool",
    "attempt": "it passes frames on to the same gate",
    "patch": "each path of a patch is a target, gathered as that of a file tool",
    "landing": "remit_fleet/landing/land.py check_path_bounds",
    "take-over": "workspace/sandbox/staged_changes.py is_beyond_bounds",
}
"""Where a bound of paths is asked at a door: `file name`, or the reason why not there."""
ELSEWHERE = {
    (NAME_BYTES.name, "take-over"): "the file is there: no file system has a longer name",
    (WHOLE_PATH_BYTES.name, "take-over"): "the row of path length is smaller",
    (WHOLE_PATH_BYTES.name, "landing"): "the row of path length is smaller",
    (WHOLE_PATH_BYTES.name, "file tools"): "core/scope/path_patterns.py check_path_text",
    (ODD_CHARACTERS.name, "take-over"): "gate/containment/take_over.py ODD",
    (COMMAND_BYTES.name, "hooks"): "gate/containment/rewrite_call.py COMMAND_BYTES",
    (COMMAND_BYTES.name, "own agent"): "gate/containment/rewrite_call.py COMMAND_BYTES",
    (PAYLOAD_BYTES.name, "hooks"): "servers/hook.py PAYLOAD_BYTES",
    (PAYLOAD_BYTES.name, "attempt"): "servers/daemon.py PAYLOAD_BYTES",
    (FILE_BYTES.name, "take-over"): "gate/containment/take_over.py FILE_BYTES",
    (INTENT_FILES.name, "intents file"): "workspace/intents_file/storage.py INTENT_FILES",
    (INTENTS_BYTES.name, "intents file"): "workspace/intents_file/storage.py INTENTS_BYTES",
}


@pytest.mark.parametrize(("name", "door"), [(bound.name, door) for bound in BOUNDS for door in bound.doors])
def test_each_bound_is_asked_at_each_of_its_doors(name: str, door: str) -> None:
    place, _, used = ELSEWHERE.get((name, door), ASKED.get(door, "")).partition(" ")
    assert used, "name the place, or the reason"
    if place.endswith(".py"):
        tree = ast.parse(find_source(place).read_text("utf-8"))
        assert used in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_limits_outside_of_the_table_only_become_fewer() -> None:
    found = [
        target.id
        for path in list_modules()
        if "MAX_" in (text := path.read_text("utf-8"))
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id.lstrip("_").startswith("MAX_")
    ]
    assert len(found) == LIMITS_OUTSIDE, "lower the figure here when one has gone; a new one belongs in the table"
