"""Whether a ref may be there: a look at files, and no git."""

from pathlib import Path

from remit.workspace.place import Workspace

AUTHORSHIP = "refs/notes/ai"
"""Where authorship notes lie."""


def may_be_there(common_dir: Path | None, ref: str) -> bool:
    """Whether a repository may have that ref; None has none. Raises OSError."""
    if common_dir is None:
        return False
    if (common_dir / ref).exists() or (common_dir / "reftable").exists():
        return True
    try:
        return f" {ref}\n".encode() in (common_dir / "packed-refs").read_bytes()
    except FileNotFoundError:
        return False


def has_refs(workspace: Workspace, below: str) -> bool:
    """Whether the user's repository may have refs below that name. Raises OSError."""
    common = workspace.common_dir
    if common is None:
        return False
    # An empty folder stays where git packed the refs below it, or where the last one went.
    loose = any(path.is_file() for path in (common / below).rglob("*"))
    if loose or (common / "reftable").exists():
        return True
    try:
        return f" {below}/".encode() in (common / "packed-refs").read_bytes()
    except FileNotFoundError:
        return False
