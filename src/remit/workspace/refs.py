"""Whether a ref may be there: a look at files, and no git."""

from pathlib import Path

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
