"""Paths inside a workspace, normalised by construction.

A write to `/w/src/../db/secret.sql` once passed a scope of `src/**`, because five places compared strings. Hence a type
with a single constructor.
"""

import posixpath
import unicodedata


class InvalidPath(ValueError):
    """Error for text that cannot name a file: empty, with a NUL, or not encodable."""

    def __init__(self, raw: str, why: str) -> None:
        super().__init__(f"{raw[:200]!r} cannot name a file: {why}")
        self.raw = raw
        self.why = why


class OutsideWorkspace(ValueError):
    """Error for a path that is not below the workspace root."""

    def __init__(self, raw: str, root: str) -> None:
        super().__init__(f"{raw[:200]!r} is outside the workspace {root!r}")
        self.raw = raw
        self.root = root


class RepoPath(str):
    """A normalised path relative to a workspace root: `/` separated, no `..`, no leading `/`.

    The root itself is `"."`. Only `RepoPath.parse` makes instances. Callers resolve symbolic links first, since `core`
    does no I/O.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, raw: str, root: str, cwd: str | None = None) -> "RepoPath":
        """Return `raw` (absolute, or relative to `cwd`, by default the root) as a path below `root`.

        Raises InvalidPath, OutsideWorkspace. `root` and `cwd` are absolute.
        """
        absolute = posixpath.join(cwd or root, check_path_text(raw))
        clean, base = normalise_path(absolute), normalise_path(root)
        if clean == base:
            return str.__new__(cls, ".")
        prefix = base if base.endswith("/") else base + "/"
        if not clean.startswith(prefix):
            raise OutsideWorkspace(raw, root)
        return str.__new__(cls, clean[len(prefix) :])

    @property
    def case_folded(self) -> str:
        """Return the spelling compared by file systems that ignore case and Unicode form."""
        return fold_case(self)


def normalise_path(path: str) -> str:
    """Remove `.`, `..` and doubled slashes, also the two leading slashes that POSIX permits."""
    clean = posixpath.normpath(path)
    return clean[1:] if clean.startswith("//") else clean


def check_path_text(raw: str) -> str:
    """Return `raw` if it can name a file. Raises InvalidPath."""
    if not raw:
        raise InvalidPath(raw, "it is empty")
    if "\0" in raw:
        raise InvalidPath(raw, "it holds a NUL")
    try:
        raw.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidPath(raw, "it is not encodable") from error
    return raw


def fold_case(path: str) -> str:
    """Return `path` as seen by a file system that ignores case and Unicode form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
