"""Which store a workspace's snapshots lie in."""

from remit.gate.recorder import Recorder
from remit.workspace.place import Workspace
from remit.workspace.snapshots import Store
from remit.workspace.snapshots_copies import CopyStore
from remit.workspace.snapshots_git import GitStore


def snapshot_store(workspace: Workspace, recorder: Recorder, *, stays: bool) -> Store:
    """The repository, where there is one; else copies. Raises OSError where this machine has no name."""
    if workspace.common_dir is None:
        return CopyStore(workspace)
    return GitStore(workspace, recorder.machine, stays=stays)
