"""Filesystem watchers of the daemon: one for each worktree in use, each in its own thread."""

import select
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from remit.gate.state.watch_status import WatchStatus
from remit.workspace.git.command import GitError
from remit.workspace.observe.observation import Observation, observe_workspace
from remit.workspace.place.workspace import Workspace
from remit.workspace.processes.left_running import ProcessFollower, Suspect

if TYPE_CHECKING:
    from remit.workspace.observe.incremental import IncrementalObserver

MAX_WATCHERS = 16
POLL_INTERVAL_MS = 250
SETTLE_S = 0.2
"""Quiet time before watching anew after lost events: a checkout loses events many times in a row."""

RETRY_S = 5.0

STARTING_REASON = "it has only just begun to watch"


class WorktreeWatcher:
    """Watcher of one worktree, used as a gate's observer."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.dirty_set: IncrementalObserver | None = None
        self.following = ProcessFollower(workspace.root)
        self.stopped = threading.Event()
        threading.Thread(target=self.watch_changes, daemon=True).start()

    @property
    def status(self) -> WatchStatus:
        if self.dirty_set is None:
            return WatchStatus(STARTING_REASON)
        tree = self.dirty_set.watched_tree
        return WatchStatus(self.dirty_set.find_full_look_reason(), len(tree.watches), bool(tree.end_reason))

    def observe(self, *, fully: bool = False) -> Observation:
        """Return the workspace's observation; a full one until the watcher is ready. Raises GitError."""
        self.following.note_call()
        return self.dirty_set.observe(fully=fully) if self.dirty_set else observe_workspace(self.workspace)

    def suspects(self) -> dict[str, tuple[Suspect, ...]]:
        """Return, by path, the background processes that were alive at its change."""
        return self.following.suspects()

    def watch_changes(self) -> None:
        """Start watching, and take in events as they come: the kernel's queue is bounded."""
        # For start-up speed: a fresh process never watches.
        from remit.workspace.observe.incremental import IncrementalObserver

        dirty = IncrementalObserver(self.workspace)
        while not self.stopped.is_set():
            try:
                dirty.restart_watching()
                self.dirty_set = dirty
                self.wait_for_changes(dirty)
            except (GitError, OSError, ValueError):  # the queue was closed meanwhile: the next observation is full
                self.stopped.wait(SETTLE_S)
        dirty.close()

    def wait_for_changes(self, dirty: "IncrementalObserver") -> None:
        """Sleep until an event arrives, and take it in."""
        queue = dirty.watched_tree.queue
        if queue is None or dirty.watched_tree.lost_reason:
            self.stopped.wait(RETRY_S if dirty.watched_tree.end_reason else SETTLE_S)
            return
        poll = select.poll()
        poll.register(queue.descriptor, select.POLLIN)
        due = self.following.next_look_s
        news = bool(poll.poll(POLL_INTERVAL_MS if due is None else min(POLL_INTERVAL_MS, due * 1000)))
        if news and dirty.watched_tree.queue is queue:
            dirty.watched_tree.read_events()
        if self.following.is_due(news=news):
            with dirty.watched_tree.lock:
                pending = [*dirty.watched_tree.changed_files]
            self.following.look(pending)

    def close(self) -> None:
        self.stopped.set()


class WorktreeWatchers:
    """Watchers by worktree, the latest used last."""

    def __init__(self) -> None:
        self.watchers: OrderedDict[Path, WorktreeWatcher] = OrderedDict()
        self.lock = threading.Lock()

    @property
    def has_suspects(self) -> bool:
        """Return True if a file changed while a call's background process was alive, and the facts are complete."""
        with self.lock:
            return any(
                watch.following.suspects_by_path and watch.following.is_settled_enough
                for watch in self.watchers.values()
            )

    def find_watcher(self, workspace: Workspace) -> WorktreeWatcher:
        """Return the worktree's watcher, started if missing; the oldest of too many ends."""
        with self.lock:
            found = self.watchers.get(workspace.root)
            if found is None or found.workspace != workspace or found.stopped.is_set():
                if found is not None:
                    found.close()
                found = self.watchers[workspace.root] = WorktreeWatcher(workspace)
            self.watchers.move_to_end(workspace.root)
            while len(self.watchers) > MAX_WATCHERS:
                self.watchers.popitem(last=False)[1].close()
            return found
