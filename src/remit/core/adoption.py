"""Adoption: which clones of repositories with committed rules a person wants governed, by remote or by path."""

import posixpath
import re
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from remit.core.decision import Mode

SCP_REMOTE = re.compile(r"(?:[^@/:]+@)?(?P<host>\[[^\]/]+\]|[^/:]+):(?!//)(?P<path>.*)", re.DOTALL)
"""git's short form of an ssh address: `git@host:path`."""


HOME_MARK = re.compile(r"\A~(?=/|\*|\Z)")


class AdoptSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[adopt]` of a person's own settings. `remotes` are patterns of the address of `origin`, as host/path
    without user, port and `.git`; `paths` of the clone's folder. A `*` stays in one part, `**` does not. `otherwise`
    applies to clones with rules and without a match: the agent is told, a change is asked about, or refused.
    """

    remotes: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    otherwise: Literal["tell", "ask", "refuse"] = "tell"

    def find_pattern(self, remote: str, root: str, home: str) -> str:
        """Return the first pattern that covers the clone; empty for none."""
        by_remote = (pattern for pattern in self.remotes if remote and is_match(pattern.lower(), remote.lower()))
        places = ((pattern, HOME_MARK.sub(lambda _: home, pattern)) for pattern in self.paths)
        by_path = (pattern for pattern, place in places if is_match(place, root))
        return next(by_remote, "") or next(by_path, "")


def is_match(pattern: str, text: str) -> bool:
    wild = {"*": "[^/]*", "**": ".*"}
    parts = re.split(r"(\*\*?)", pattern.rstrip("/"))
    return re.fullmatch("".join(wild.get(part) or re.escape(part) for part in parts), text, re.DOTALL) is not None


def normalise_remote(address: str, root: str) -> str:
    """Return a remote's address as host/path, or as an absolute path on this machine; empty if the address names
    neither. The repository claims the address, without proof.
    """
    if "://" in address:
        try:
            parts = urlsplit(address)
            host, path = parts.hostname or "", parts.path
        except ValueError:
            return ""
    elif (short := SCP_REMOTE.fullmatch(address)) and not address.startswith(("/", ".")):
        host, path = short["host"].lower(), f"/{short['path']}"
    else:
        host, path = "", posixpath.join(root, address) if address else ""
    path = posixpath.normpath(path).lstrip("/").removesuffix(".git").rstrip("/") if path else ""
    return f"{host}/{path}" if path and path != "." else ""


CARRIED_NOTICE = (
    "Remit: this repository carries Remit rules ({mode}). They do not hold in this clone. "
    "Tell the person: `remit adopt`, or `remit adopt --never`."
)
"""To a model and a person: fixed words, and nothing of the repository's text."""


def describe_carried(mode: Mode) -> str:
    return CARRIED_NOTICE.format(mode=mode)
