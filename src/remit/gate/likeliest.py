"""Who most likely made a change that no call explains: candidates with reasons, and never an origin."""

from collections.abc import Iterable, Sequence

from remit.adapters import ROWS
from remit.core.call import SessionKey
from remit.core.text import quoted_path, shown
from remit.gate.site import Site
from remit.workspace.writers import Writer, likely_writers

MOST = 6
ANY = "*"
"""The key of those that may have written any of the files."""

AGENTS = frozenset(row.binary for row in ROWS.values())


def likeliest(site: Site, paths: Sequence[str], sessions: Iterable[str]) -> dict[str, list[str]]:
    """By path, in words, who may have written it, the likeliest first; under `*` who may have written any.

    `sessions` have run commands and are not over. Raises StateError.
    """
    seen = likely_writers(site.workspace.root, paths, AGENTS)
    about = {path: [said(w) for w in seen if w.path == path][:MOST] for path in paths}
    others = [*(of_session(site, name) for name in sessions), *(said(w) for w in seen if not w.path)]
    found = {quoted_path(path): words for path, words in about.items() if words}
    return {**found, ANY: others[:MOST]} if others else found


def of_session(site: Site, name: str) -> str:
    """A session as a candidate."""
    known = site.state.session(SessionKey(name))
    agent = f" of {known.agent}" if known and known.agent else ""
    return f"session {shown(name, 60)}{agent}, which has run commands and is not over"


def said(writer: Writer) -> str:
    """A process as a candidate."""
    return shown(str(writer), 200)
