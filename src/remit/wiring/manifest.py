"""What was wired, so that it can be taken out: `~/.local/state/remit/wired.json` (0600).

It holds hashes of the settings files and the text that we put into them; nothing of what stood there before.
"""

from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.wiring.insertions import Insertions
from remit.workspace.files.atomic import write_atomically

MANIFEST_PATH = ".local/state/remit/wired.json"
"""Below HOME."""
MANIFEST_FORMAT = 1


class ManifestError(RuntimeError):
    """The manifest is there and cannot be used."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{str(path)!r} cannot be read ({why}). Move it away: `remit uninstall --all-agents` then finds what is "
            "ours by its looks"
        )
        self.path = path


class WiredFile(Struct, frozen=True):
    """One settings file. `created`: there was none; `folders` are those we made for it, the innermost last.

    `at` is ISO 8601 in UTC, `version` Remit's own.
    """

    path: str
    agents: tuple[str, ...]
    insertions: Insertions
    created: bool = False
    folders: tuple[str, ...] = ()
    at: str = ""
    version: str = ""


class Manifest(Struct, frozen=True):
    """Every wired file, and the roots of the repositories that `init` was run in.

    `client` is the SHA-256 of the hook client that was installed, empty where nobody wrote it down. `moved` are the
    agents' own folders that `init` found elsewhere than below HOME.
    """

    format: int = MANIFEST_FORMAT
    files: tuple[WiredFile, ...] = ()
    repositories: tuple[str, ...] = ()
    client: str = ""
    moved: dict[str, str] = {}

    def find_file(self, path: Path) -> WiredFile | None:
        """What was put into this file."""
        return next((f for f in self.files if f.path == str(path)), None)

    def with_file(self, file: WiredFile) -> "Manifest":
        """The manifest with this file in its place."""
        kept = self.without_file(Path(file.path)).files
        return replace(self, files=(*kept, file))

    def without_file(self, path: Path) -> "Manifest":
        """The manifest without this file."""
        return replace(self, files=tuple(f for f in self.files if f.path != str(path)))

    def with_repository(self, root: Path) -> "Manifest":
        """The manifest with this repository in it."""
        return replace(self, repositories=tuple(dict.fromkeys((*self.repositories, str(root)))))

    def without_repository(self, root: Path) -> "Manifest":
        """The manifest without this repository."""
        return replace(self, repositories=tuple(r for r in self.repositories if r != str(root)))


def read_manifest(home: Path) -> Manifest:
    """The manifest; an empty one where there is none. Raises ManifestError."""
    path = home / MANIFEST_PATH
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return Manifest()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ManifestError(path, str(error)[:200]) from error
    if found.format != MANIFEST_FORMAT:
        raise ManifestError(path, f"its format is {found.format!r}, expected {MANIFEST_FORMAT}")
    return found


def write_manifest(home: Path, manifest: Manifest) -> None:
    """Keep the manifest; an empty one is no file. Raises OSError."""
    path = home / MANIFEST_PATH
    if not manifest.files and not manifest.repositories:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(manifest), indent=1), 0o600)
