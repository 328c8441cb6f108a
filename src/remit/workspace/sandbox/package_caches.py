"""What contained commands put into caches: kept for the next one under the same intent, apart from the real ones.

A cache holds code that is run later. What a command under one intent put there is met by none under another, nor by a
person: it gets no further than the command itself did. Source: Documentation/filesystems/overlayfs.rst of Linux 6.18,
"Changes to underlying filesystems", read 2026-11: what lies below may change while nothing is mounted over it.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from remit.core.diff.contents import sha256
from remit.workspace.sandbox.layers import Staging
from remit.workspace.sandbox.remove_tree import remove_tree
from remit.workspace.sandbox.staged_changes import measure_bytes

LENT_FILE = "lent"
"""In the room of one command: where its caches come from, and which they are."""

CACHES_PREFIX = "caches-"
MAX_CACHE_BYTES = 1 << 30
"""Bytes of the caches of one intent; beyond it they begin anew."""

MAX_CACHE_AGE_S = 14 * 86400.0


def lend_caches(staging: Staging, root: Path, intent_id: str) -> None:
    """Lay what commands under this intent left in the caches over them; another command may have it just now."""
    key = sha256(f"{root}\0{intent_id}".encode("utf-8", "surrogateescape"))[:16]
    kept = staging.folder.with_name(f"{CACHES_PREFIX}{key}")
    caches = [layer for layer in staging.other_layers if layer.upper.parent.name.startswith("cache-")]
    names = {layer.upper.parent: sha256(os.fsencode(layer.target))[:16] for layer in caches}
    if not names:
        return
    lines = [kept.name, *(f"{own.name} {name}" for own, name in names.items())]
    (staging.folder / LENT_FILE).write_text("\n".join(lines))
    for own, name in names.items() if kept.is_dir() else ():
        with suppress(OSError):
            exchange_layers(kept / name, own)


def exchange_layers(kept: Path, own: Path) -> None:
    """Put the kept layer in place of the empty one. Raises OSError where another command has it, or there is none."""
    aside = own.with_name(f"{own.name}-empty")
    own.rename(aside)
    try:
        kept.rename(own)
    except OSError:
        aside.rename(own)
        raise
    remove_tree(aside)


def keep_caches(folder: Path) -> Path | None:
    """Keep the caches of the command in this room, which has ended; where they are now. The first of two is kept."""
    try:
        first, *lines = (folder / LENT_FILE).read_text().split("\n")
    except OSError:
        return None
    kept = folder.with_name(first)
    for own, name in (line.split(" ") for line in lines):
        with suppress(OSError):
            if os.listdir(folder / own / "upper"):  # noqa: PTH208
                kept.mkdir(mode=0o700, exist_ok=True)
                (folder / own).rename(kept / name)
                for made in ("upper", "work"):
                    (folder / own / made).mkdir(parents=True)
    return kept


def trim_caches(kept: Path | None) -> None:
    """Throw kept caches away that grew too large, and those that nobody came for."""
    if kept is None:
        return
    oldest = time.time() - MAX_CACHE_AGE_S
    for found in kept.parent.glob(f"{CACHES_PREFIX}*"):
        with suppress(OSError):
            if found.stat().st_mtime < oldest or (found == kept and measure_bytes(found) > MAX_CACHE_BYTES):
                gone = found.with_name(f"{os.getpid()}-{os.urandom(8).hex()}")
                found.rename(gone)
                remove_tree(gone)
