"""The watchers of a warm process: one for each work tree in use, started by its first look, each in its own thread."""

import select
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from remit.gate.watched import Watched
from remit.workspace.following import Following, Suspect
from remit.workspace.git import GitError
from remit.workspace.observe import Observation, observe
from remit.workspace.place import Workspace

if TYPE_CHECKING:
    from remit.workspace.dirty_set import DirtySet

MOST = 16
WAKE_MS = 250
SETTLED_S = 0.2
"""How long nothing may have been lost before everything is watched anew: a checkout loses it many times in a row."""

LATER_S = 5.0

BEGINS = "it has only just begun to watch"


class Watch:
    """The watcher of one work tree, as a gate's observer."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.dirty: DirtySet | None = None
        self.following = Following(workspace.root)
        self.over = threading.Event()
        threading.Thread(target=self.keep, daemon=True).start()

    @property
    def told(self) -> Watched:
        """Whether the next look is at what changed alone. Asked in the repository's turn."""
        if self.dirty is None:
            return Watched(BEGINS)
        tree = self.dirty.tree
        return Watched(self.dirty.why_full(), len(tree.watches), bool(tree.ended))

    def observe(self, *, fully: bool = False) -> Observation:
        """The workspace; nobody waits for the watcher to be ready. Raises GitError."""
        self.following.called()
        return self.dirty.observe(fully=fully) if self.dirty else observe(self.workspace)

    def suspects(self) -> dict[str, tuple[Suspect, ...]]:
        """By path, which processes that calls left running were there when it changed."""
        return self.following.suspects()

    def keep(self) -> None:
        """Begin, then take in what happens as it does: the kernel's queue has an end."""
        # For start-up speed: a fresh process watches nothing, and loads none of it.
        from remit.workspace.dirty_set import DirtySet

        dirty = DirtySet(self.workspace)
        while not self.over.is_set():
            try:
                dirty.renew()
                self.dirty = dirty
                self.wait(dirty)
            except (GitError, OSError, ValueError):  # a queue that was closed meanwhile: the next look is full
                self.over.wait(SETTLED_S)
        dirty.close()

    def wait(self, dirty: "DirtySet") -> None:
        """Sleep until something happens, and take it in."""
        queue = dirty.tree.queue
        if queue is None or dirty.tree.lost:
            self.over.wait(LATER_S if dirty.tree.ended else SETTLED_S)
            return
        poll = select.poll()
        poll.register(queue.descriptor, select.POLLIN)
        due = self.following.due_s
        news = bool(poll.poll(WAKE_MS if due is None else min(WAKE_MS, due * 1000)))
        if news and dirty.tree.queue is queue:
            dirty.tree.drain()
        if self.following.is_due(news=news):
            with dirty.tree.lock:
                pending = [*dirty.tree.paths]
            self.following.look(pending)

    def close(self) -> None:
        """End it."""
        self.over.set()


class Watches:
    """All watchers, the latest used last."""

    def __init__(self) -> None:
        self.found: OrderedDict[Path, Watch] = OrderedDict()
        self.lock = threading.Lock()

    @property
    def suspicious(self) -> bool:
        """Whether anything changed while a process was there that a call had left running, and all is known of it."""
        with self.lock:
            return any(watch.following.seen and watch.following.ripe for watch in self.found.values())

    def of(self, workspace: Workspace) -> Watch:
        """The watcher of this work tree, begun where none was; of too many the oldest ends."""
        with self.lock:
            found = self.found.get(workspace.root)
            if found is None or found.workspace != workspace or found.over.is_set():
                if found is not None:
                    found.close()
                found = self.found[workspace.root] = Watch(workspace)
            self.found.move_to_end(workspace.root)
            while len(self.found) > MOST:
                self.found.popitem(last=False)[1].close()
            return found
