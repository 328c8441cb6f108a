"""The manifest of wired files, for taking the wiring out: `~/.local/state/remit/wired.json` (0600).

The manifest holds hashes of the settings files and Remit's own insertions, no other content.
"""

from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.machine_paths import MANIFEST_PATH
from remit.wiring.insertions import Insertions
from remit.workspace.files.atomic import write_atomically

MANIFEST_FORMAT = 1


class ManifestError(RuntimeError):
    """An unusable manifest."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{str(path)!r} cannot be read ({why}). Move it away: `remit uninstall --all-agents` then finds what is "
            "ours by its looks"
        )
        self.path = path


class WiredFile(Struct, frozen=True):
    """A settings file. `created` is True for a file created by Remit; `folders` are folders created with the file,
    innermost last.

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
    """The wired files, and the roots of the repositories set up by `init`.

    `client` is the SHA-256 of the installed hook client, empty if unknown. `moved` are settings folders outside their
    usual place below HOME, as found by `init`.
    """

    format: int = MANIFEST_FORMAT
    files: tuple[WiredFile, ...] = ()
    repositories: tuple[str, ...] = ()
    client: str = ""
    moved: dict[str, str] = {}

    def find_file(self, path: Path) -> WiredFile | None:
        return next((f for f in self.files if f.path == str(path)), None)

    def with_file(self, file: WiredFile) -> "Manifest":
        kept = self.without_file(Path(file.path)).files
        return replace(self, files=(*kept, file))

    def without_file(self, path: Path) -> "Manifest":
        return replace(self, files=tuple(f for f in self.files if f.path != str(path)))

    def with_repository(self, root: Path) -> "Manifest":
        return replace(self, repositories=tuple(dict.fromkeys((*self.repositories, str(root)))))

    def without_repository(self, root: Path) -> "Manifest":
        return replace(self, repositories=tuple(r for r in self.repositories if r != str(root)))


def read_manifest(home: Path) -> Manifest:
    """Read the manifest; an empty one if the file is missing. Raises ManifestError."""
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
    """Write the manifest; an empty manifest is stored as no file. Raises OSError."""
    path = home / MANIFEST_PATH
    if not manifest.files and not manifest.repositories:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(manifest), indent=1), 0o600)
