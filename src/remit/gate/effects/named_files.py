"""Contents of the files that a command names, members of folders and archives included, within bounds."""

import gzip
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from remit.core.call import ToolCall
from remit.core.diff.contents import sha256
from remit.workspace.place.workspace import Workspace

MAX_FILE_BYTES = 1 << 20
MAX_TOTAL_BYTES = 8 << 20
"""Bytes of one named file, and of all."""

MAX_SCRIPT_BYTES = 1 << 16
"""Bytes of a named file that is searched for further names."""

MAX_WORDS = 4_000
"""Words of one text that may be names."""

MAX_FILES = 400
"""Files, members of folders and archives included."""

WORD_BREAKS = str.maketrans(dict.fromkeys("'\"`;|&<>()${}=\n\t", " "))
ARCHIVE_ERRORS = (OSError, EOFError, ValueError, tarfile.TarError, zipfile.BadZipFile, zlib.error, RuntimeError)


def read_named_files(
    workspace: Workspace, call: ToolCall, changed: set[str], is_own: Callable[[str], bool]
) -> Iterator[bytes]:
    """Yield the contents of files that a command, or a script named by it, names, but for the `changed` paths and the
    contents that are the session's own by their SHA-256.
    """
    root, seen, total = f"{workspace.root}/", set[Path](), 0
    texts = [call.command or ""]
    while texts:
        text, is_command = texts.pop(0), not seen
        for place in named_places(text, Path(call.cwd)):
            for file in list_regular_files(place, MAX_FILES - len(seen)):
                if file in seen or str(file).removeprefix(root) in changed or total > MAX_TOTAL_BYTES:
                    continue
                seen.add(file)
                for content in read_members(file):
                    total += len(content)
                    if is_command and file == place and len(content) <= MAX_SCRIPT_BYTES:
                        texts.append(content.decode("utf-8", "surrogateescape"))
                    if not is_own(sha256(content)):
                        yield content


def named_places(text: str, cwd: Path) -> dict[Path, None]:
    words = dict.fromkeys(text.translate(WORD_BREAKS).split()[:MAX_WORDS])
    return {Path(os.path.normpath(cwd / os.path.expanduser(word))): None for word in words}  # noqa: PTH111


def list_regular_files(place: Path, most: int) -> list[Path]:
    found: list[Path] = []
    with suppress(OSError, ValueError):
        mode = place.lstat().st_mode
        if stat.S_ISREG(mode):
            found.append(place)
        elif stat.S_ISDIR(mode) and len(place.parts) > 2:
            for folder, names, files in os.walk(place):
                names[:] = sorted(name for name in names if name not in (".git", ".orchestration"))
                found += [path for name in sorted(files) if stat.S_ISREG((path := Path(folder, name)).lstat().st_mode)]
                if len(found) > most:
                    break
    return found[: max(0, most)]


def read_members(file: Path) -> Iterator[bytes]:
    with suppress(*ARCHIVE_ERRORS):
        if tarfile.is_tarfile(file):
            with tarfile.open(file) as archive:
                for _, member in zip(range(MAX_FILES), archive, strict=False):
                    if member.isfile() and (stream := archive.extractfile(member)) is not None:
                        yield stream.read(MAX_FILE_BYTES)
        elif zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as packed:
                for info in packed.infolist()[:MAX_FILES]:
                    with packed.open(info) as stream:
                        yield stream.read(MAX_FILE_BYTES)
        elif file.suffix == ".gz":
            with gzip.open(file) as stream:
                yield stream.read(MAX_FILE_BYTES)
        else:
            with file.open("rb") as stream:
                yield stream.read(MAX_FILE_BYTES)
