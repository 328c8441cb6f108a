"""The watchers of a warm process: one for each work tree in use, started by its first look, each in its own thread."""

import select
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from remit.gate.state.watch_status import WatchStatus
from remit.workspace.git.command import GitError
from remit.workspace.observe.observation import Observation, observe_workspace
from remit.workspace.place.workspace import Workspace
from remit.workspace.processes.background import ProcessFollower, Suspect

if TYPE_CHECKING:
    from remit.workspace.observe.incremental import IncrementalObserver

MAX_WATCHERS = 16
POLL_INTERVAL_MS = 250
SETTLE_S = 0.2
"""How long nothing may have been lost before everything is watched anew: a checkout loses it many times in a row."""

RETRY_S = 5.0

STARTING_REASON = "it has only just begun to watch"


class WorktreeWatcher:
    """The watcher of one work tree, as a gate's observer."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.dirty_set: IncrementalObserver | None = None
        self.following = ProcessFollower(workspace.root)
        self.stopped = threading.Event()
        threading.Thread(target=self.watch_changes, daemon=True).start()

    @property
    def status(self) -> WatchStatus:
        """Whether the next look is at what changed alone. Asked in the repository's turn."""
        if self.dirty_set is None:
            return WatchStatus(STARTING_REASON)
        tree = self.dirty_set.watched_tree
        return WatchStatus(self.dirty_set.find_full_look_reason(), len(tree.watches), bool(tree.end_reason))

    def observe(self, *, fully: bool = False) -> Observation:
        """The workspace; nobody waits for the watcher to be ready. Raises GitError."""
        self.following.note_call()
        return self.dirty_set.observe(fully=fully) if self.dirty_set else observe_workspace(self.workspace)

    def suspects(self) -> dict[str, tuple[Suspect, ...]]:
        """By path, which processes that calls left running were there when it changed."""
        return self.following.suspects()

    def watch_changes(self) -> None:
        """Begin, then take in what happens as it does: the kernel's queue has an end."""
        # For start-up speed: a fresh process watches nothing, and loads none of it.
        from remit.workspace.observe.incremental import IncrementalObserver

        dirty = IncrementalObserver(self.workspace)
        while not self.stopped.is_set():
            try:
                dirty.restart_watching()
                self.dirty_set = dirty
                self.wait_for_changes(dirty)
            except (GitError, OSError, ValueError):  # a queue that was closed meanwhile: the next look is full
                self.stopped.wait(SETTLE_S)
        dirty.close()

    def wait_for_changes(self, dirty: "IncrementalObserver") -> None:
        """Sleep until something happens, and take it in."""
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
        """End it."""
        self.stopped.set()


class WorktreeWatchers:
    """All watchers, the latest used last."""

    def __init__(self) -> None:
        self.watchers: OrderedDict[Path, WorktreeWatcher] = OrderedDict()
        self.lock = threading.Lock()

    @property
    def has_suspects(self) -> bool:
        """Whether anything changed while a process was there that a call had left running, and all is known of it."""
        with self.lock:
            return any(
                watch.following.suspects_by_path and watch.following.is_settled_enough
                for watch in self.watchers.values()
            )

    def find_watcher(self, workspace: Workspace) -> WorktreeWatcher:
        """The watcher of this work tree, begun where none was; of too many the oldest ends."""
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
