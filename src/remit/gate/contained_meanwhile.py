"""Which files of a contained command somebody else changed, or took away, while it ran: their state stays."""

from collections.abc import Sequence
from pathlib import Path

from remit.core.decision import Finding
from remit.gate.contained_words import meanwhile, taken_away
from remit.gate.observed import last_observed, observed_head
from remit.gate.site import Site
from remit.workspace.git import Git
from remit.workspace.sandbox.staged import Touched, changed_since, may_be_lost, was_copied


def overtaken(site: Site, upper: Path, changes: Sequence[Touched], began_ns: int) -> dict[str, Finding]:
    """By path, that its file is another by now, or gone. Raises OSError, GitError, StateError."""
    root = site.workspace.root
    found = {c.path: meanwhile(c.path) for c in changes if changed_since(root, c, began_ns)}
    missing = [c for c in changes if may_be_lost(root, c, began_ns)]
    if not missing:
        return found
    before, moves = known_files(site), any(c.kind == "gone" for c in changes)
    # A copy of what stood below tells so itself, but for one that the command gave another name.
    lost = [c.path for c in missing if c.path in before or (not moves and was_copied(upper / c.path))]
    return found | {path: taken_away(path) for path in lost}


def known_files(site: Site) -> set[str]:
    """The files that were there when somebody last looked: git's, and those that the last observation found."""
    observed = {one.path for one in last_observed(site.state) if one.version is not None}
    if site.workspace.common_dir is None:
        return observed
    git = Git(site.workspace.root)
    listed = [git.run("ls-files", "-z")]
    for commit in {"HEAD", observed_head(site.state) or "HEAD"}:
        listed.append(git.run("ls-tree", "-r", "-z", "--name-only", commit, ok=(0, 128)))
    names = b"".join(listed).decode("utf-8", "surrogateescape").split("\0")
    return observed.union(names)
