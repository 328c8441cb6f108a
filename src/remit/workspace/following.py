"""Keeping an eye on what calls left running, while anything of it lives: who was at a file when it changed.

A process that wrote and ended is not there any more to be asked, so those that live are remembered beforehand.
"""

import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from remit.workspace.lingering import Process, names, processes, writes_to

SOON_S = 0.1
OFTEN_S = 0.25
SELDOM_S = 1.0
"""How long between two looks: just after a call, for a minute, and for as long as something lives."""

PAUSE_S = 0.03
"""And between any two, however much changes."""

JUST_S = 2.0
MINUTE_S = 60.0
TOGETHER = 3
"""A process that named a file and ended within so many looks of its change wrote it, where no other is at it."""

RIPE_S = 1.0
"""So long after a change it may still turn out who made it."""

KEPT_S = 120.0
"""What was seen longer ago than a call takes to be noticed explains nothing any more."""

MOST = 1000
"""Paths of which it is remembered who was at them."""


class Suspect(Struct, frozen=True):
    """A process that was there when a file changed. `open`: it had it open for writing; `ended`: its command line named
    the file, and it ended then; `there`: nothing more.
    """

    process: Process
    why: Literal["open", "ended", "there"]
    at: float
    """When it was seen that the file had changed, in seconds since the epoch."""


class Following:
    """The processes that calls in one work tree left running. Threads may ask while one looks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.living: dict[int, Process] = {}
        self.unmarked: set[tuple[int, str]] = set()
        self.ended: list[dict[int, Process]] = []
        self.changed: list[tuple[float, frozenset[str]]] = []
        self.before: frozenset[str] = frozenset()
        self.seen: dict[str, dict[int, Suspect]] = {}
        self.asked = self.looked = float("-inf")
        self.lock = threading.Lock()

    def called(self) -> None:
        """A call came or went: it may have left something."""
        self.asked = time.monotonic()

    @property
    def due_s(self) -> float | None:
        """In how many seconds to look; None where nothing is left, and nothing can be."""
        since = time.monotonic() - self.asked
        if since > JUST_S and not self.living and not any(self.ended):
            return None
        pause = SOON_S if since < JUST_S else OFTEN_S if since < MINUTE_S else SELDOM_S
        return max(0.0, self.looked + pause - time.monotonic())

    def is_due(self, *, news: bool) -> bool:
        """Whether to look now; with `news` of a change, while who made it may still be at it."""
        if news and self.living:
            return time.monotonic() - self.looked > PAUSE_S
        return self.due_s == 0

    def look(self, pending: Iterable[str]) -> None:
        """See who lives, and who may have made what changed since the last look; `pending` are all changed paths that
        nobody has asked for yet.
        """
        with self.lock:
            self.look_at(frozenset(pending))

    def look_at(self, paths: frozenset[str]) -> None:
        """The same, in one's turn. For a while after a change it is looked often: who made it may be about to end."""
        self.looked = time.monotonic()
        self.asked = self.looked if paths - self.before else self.asked
        found = processes(self.living, self.unmarked)
        same = {pid: one.started for pid, one in found.items()}
        gone = {pid: one for pid, one in self.living.items() if same.get(pid) != one.started}
        self.ended = [*self.ended, gone][-TOGETHER:]
        self.changed = [*self.changed, (time.time(), paths - self.before)][-TOGETHER:]
        self.living, self.before = found, paths
        fresh = {path: at for at, some in self.changed for path in some}
        if fresh and (found or any(self.ended)):
            self.note(fresh)

    def note(self, fresh: Mapping[str, float]) -> None:
        """Remember who was there when these paths changed."""
        ended = {one.pid: one for look in self.ended for one in look.values()}
        for one in (each for each in (*self.living.values(), *ended.values()) if not each.personal):
            named = names(one, self.root, fresh) if one.pid in ended else set[str]()
            held = writes_to(one, self.root, fresh) if one.pid not in ended else set[str]()
            for path, at in fresh.items():
                suspect = Suspect(one, "open" if path in held else "ended" if path in named else "there", at)
                known = self.seen.setdefault(path, {})
                if suspect.why != "there" or one.pid not in known:
                    known[one.pid] = suspect
        self.seen = dict([(path, known) for path, known in self.seen.items() if is_recent(known)][-MOST:])

    def suspects(self) -> dict[str, tuple[Suspect, ...]]:
        """By path, who was there when it changed; looked at once more where that may be too soon to tell."""
        with self.lock:
            if not self.ripe:
                self.look_at(self.before)
            return {path: tuple(known.values()) for path, known in self.seen.items() if is_recent(known)}

    @property
    def ripe(self) -> bool:
        """Whether all is known of what was seen that a little waiting tells."""
        now = time.time()
        return all(
            suspect.at < now - RIPE_S or any(one.why != "there" for one in known.values())
            for known in self.seen.values()
            for suspect in known.values()
        )

    def forget(self) -> None:
        """All of it was looked into."""
        with self.lock:
            self.seen = {}


def is_recent(known: Mapping[int, Suspect]) -> bool:
    """Whether this was seen just lately."""
    return max(suspect.at for suspect in known.values()) > time.time() - KEPT_S


def suspects_now(root: Path, paths: Iterable[str]) -> dict[str, tuple[Suspect, ...]]:
    """The same where nobody kept an eye on it: who lives, and has which of these files open."""
    asked, now = list(paths), time.time()
    living = [one for one in processes({}, set()).values() if not one.personal]
    held = {one.pid: writes_to(one, root, asked) for one in living}
    return {
        path: tuple(Suspect(one, "open" if path in held[one.pid] else "there", now) for one in living) for path in asked
    }
