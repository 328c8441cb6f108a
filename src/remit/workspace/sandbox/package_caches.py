"""Package caches of contained commands, kept per intent and apart from the real caches.

A cache holds code that runs later. Code cached under an intent is never met under a different intent, nor by a person.
Source: Documentation/filesystems/overlayfs.rst of Linux 6.18, "Changes to underlying filesystems", read 2026-11: lower
folders may change while unmounted.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from remit.core.diff.contents import sha256
from remit.workspace.sandbox.layer_changes import measure_bytes
from remit.workspace.sandbox.layers import Staging
from remit.workspace.sandbox.remove_tree import remove_tree

LENT_FILE = "lent"
"""File in a command's staging area: the origin of its caches and their names."""

CACHES_PREFIX = "caches-"
MAX_CACHE_BYTES = 1 << 30
"""Limit per intent; larger caches are dropped."""

MAX_CACHE_AGE_S = 14 * 86400.0


def lend_caches(staging: Staging, root: Path, intent_id: str) -> None:
    """Lay the caches of the intent over the staging area; a concurrent command may hold them."""
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
    """Replace the empty layer by the kept layer. Raises OSError if absent or lent to a different command."""
    aside = own.with_name(f"{own.name}-empty")
    own.rename(aside)
    try:
        kept.rename(own)
    except OSError:
        aside.rename(own)
        raise
    remove_tree(aside)


def keep_caches(folder: Path) -> Path | None:
    """Keep the caches of an ended command; return their folder. Of two, the first is kept."""
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
    """Remove caches that are too large or unused for too long."""
    if kept is None:
        return
    oldest = time.time() - MAX_CACHE_AGE_S
    for found in kept.parent.glob(f"{CACHES_PREFIX}*"):
        with suppress(OSError):
            if found.stat().st_mtime < oldest or (found == kept and measure_bytes(found) > MAX_CACHE_BYTES):
                gone = found.with_name(f"{os.getpid()}-{os.urandom(8).hex()}")
                found.rename(gone)
                remove_tree(gone)
