"""Law 12: Remit's own agent has no way to touch the workspace but the gate's one door (`Gate.perform`).

What it may import is an import contract; here is what a module can do without an import, or with a single name of a
module that is for reading too.
"""

import ast
from pathlib import Path

import pytest

HOST = Path(__file__).parents[2] / "packages" / "remit-agent" / "src" / "remit_agent"

FORBIDDEN_NAMES = frozenset(
    ("write_below", "remove_below", "write_files", "delete_file", "write_into_folder", "replaced_file")
)
"""Writers of the user's files in `workspace.safe_files`; the others there are for Remit's own folders, or read."""

STARTERS = frozenset(
    (
        *("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"),
        *("system", "popen", "posix_spawn", "posix_spawnp", "execv", "execve", "execvp", "fork", "forkpty"),
    )
)
"""Functions that start a program, whatever module they come from."""

FILE_CHANGERS = frozenset(
    (
        *("write_text", "write_bytes", "touch", "unlink", "rmdir", "rename", "symlink_to", "hardlink_to", "chmod"),
        *("rmtree", "copyfile", "copytree", "copy2", "move", "truncate", "removedirs", "makedirs"),
    )
)
"""Methods and functions that change files: no tool calls them."""


def find_ways_round(source: str, *, is_tool: bool) -> list[str]:
    """Return what a module of the host does beside the door, by line."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.lineno}: imports {one.name}" for one in node.names if one.name in FORBIDDEN_NAMES]
        called = node.func if isinstance(node, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        if name in STARTERS | FORBIDDEN_NAMES or (is_tool and name in FILE_CHANGERS):
            found.append(f"{getattr(node, 'lineno', 0)}: calls {name}")
        if is_tool and name == "open" and isinstance(node, ast.Call):
            modes = [
                part.value for part in [*node.args, *(k.value for k in node.keywords)] if isinstance(part, ast.Constant)
            ]
            if any(isinstance(mode, str) and set(mode) & set("wax+") and len(mode) <= 3 for mode in modes):
                found.append(f"{node.lineno}: opens a file to write")
    return found


FACES = ("faces/acp.py", "faces/terminal/")  # what a person types there starts no tool; ACP has a method named fork
MODULES = [path for path in sorted(HOST.rglob("*.py")) if not path.relative_to(HOST).as_posix().startswith(FACES)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(HOST)))
def test_the_own_agent_touches_the_workspace_by_the_gate_only(path: Path) -> None:
    assert find_ways_round(path.read_text("utf-8"), is_tool="tools" in path.parts) == []


@pytest.mark.parametrize(
    "source",
    [
        "from remit.workspace.safe_files import write_below",
        "safe_files.remove_below(root, path)",
        "Path(x).write_text('y')",
        "open(x, 'w')",
        "Path(x).open(mode='ab')",
        "asyncio.create_subprocess_exec('ls')",
        "os.system('ls')",
        "shutil.rmtree(x)",
    ],
)
def test_each_way_round_is_seen(source: str) -> None:
    assert find_ways_round(source, is_tool=True)
