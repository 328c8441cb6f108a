"""Snapshots that a person wants to keep, however old they get and however much room they take."""

from remit.workspace.place import Workspace


class Pins:
    """The pinned snapshots of one repository: an empty file for each, named as the snapshot is."""

    def __init__(self, workspace: Workspace) -> None:
        self.folder = workspace.state / "snapshots" / "pinned"

    def ids(self) -> frozenset[str]:
        """Their names."""
        try:
            return frozenset(path.name for path in self.folder.iterdir())
        except FileNotFoundError:
            return frozenset()

    def pin(self, name: str) -> None:
        """Keep this one. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / name).touch(mode=0o600)

    def unpin(self, name: str) -> bool:
        """Let it go when its time comes; whether it was pinned. Raises OSError."""
        try:
            (self.folder / name).unlink()
        except FileNotFoundError:
            return False
        return True
