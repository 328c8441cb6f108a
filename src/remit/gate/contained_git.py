"""What a contained command did to git's folder: brought over as a whole, refused as a whole, and what commits hold."""

import os
import posixpath
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.gate.contained_verdicts import Verdicts
from remit.gate.contained_words import of_git, remits_ref, stranger, unwritten
from remit.workspace.git import GitError
from remit.workspace.head import head_commit
from remit.workspace.ignored import find_ignored
from remit.workspace.observe import glance
from remit.workspace.place import Workspace
from remit.workspace.sandbox.committing import Committing
from remit.workspace.sandbox.git_changes import STASH, GitChanges
from remit.workspace.sandbox.git_holds import Held, TooMany, committed, indexed, staged
from remit.workspace.sandbox.places import Staging
from remit.workspace.sandbox.staged import Touched, changed_since, may_be_lost, touched, was_copied

GIT = ".git"
JUDGED = ("refs/heads/", "refs/tags/")
"""The names whose commits a person takes for work on this repository, beside HEAD. A stash is the tree that was."""


class GitTaking:
    """Judges what one command did to git's folder, and brings it over."""

    def __init__(self, verdicts: Verdicts, staging: Staging, changes: Sequence[Touched]) -> None:
        self.verdicts = verdicts
        self.workspace = verdicts.site.workspace
        self.began_ns = staging.began_ns
        self.found = changes_of(self.workspace, staging, changes)

    def taken(self, call: ToolCall, *, whole: bool) -> list[Finding]:
        """Bring it over, if all else stays (`whole`); why not, where it may not. Raises OSError, GitError."""
        if self.found is None:
            return []
        findings = [remits_ref(GIT, change.path) for change in self.found.remits if change.path.startswith("refs/")]
        if not self.found.changes:
            return findings
        if not whole:
            return [*findings, of_git(GIT, "it belongs with changes that were dropped")]
        why = self.found.objection() or self.why_overtaken()
        if why is not None:
            return [*findings, of_git(GIT, why, self.unnamed(why))]
        if strangers := self.strangers(call):
            return [*findings, *strangers]
        return [*findings, *self.brought(self.found.in_order())]

    def brought(self, changes: Sequence[Touched]) -> list[Finding]:
        """Bring these over; what could not be."""
        if self.found is None:
            return []
        failed = Committing(self.found.upper, self.found.common).kept_in_order(changes)
        return [unwritten(f"{GIT}/{path}", why) for path, why in failed.items()]

    def why_overtaken(self) -> str | None:
        """Whether somebody else changed what it changed."""
        if self.found is None:
            return None
        upper, common = self.found.upper, self.found.common
        for change in self.found.changes:
            lost = was_copied(upper / change.path) and may_be_lost(common, change, self.began_ns)
            if lost or changed_since(common, change, self.began_ns):
                return "somebody else used git meanwhile"
        return None

    def unnamed(self, why: str = "") -> tuple[str, ...]:
        """Keep the commits whose names may not come over, as objects without one; which they are."""
        if self.found is None or "object" in why:
            return ()
        tips = tuple(tip for tip in dict.fromkeys(self.found.tips().values()) if not self.found.is_real(tip))
        return tips if tips and not self.brought(self.found.objects()) else ()

    # -- what commits hold ----------------------------------------------------------------------------------

    def strangers(self, call: ToolCall) -> list[Finding]:
        """What new commits and the index hold beyond the scope, that is in no working tree; their names go then.

        What a person left there, changed or staged, an agent may commit: it is in the tree, or was in the index.
        """
        if self.found is None:
            return []
        try:
            held = self.held(self.found)
            paths = {one.path: self.inside(one.path) for one in held}
            objections = self.verdicts.objections(call, dict.fromkeys(paths.values()))
            wrong = [one for one in held if (f := objections.get(paths[one.path])) and f.code != "STALE_FILE"]
            wrong = self.unexplained(wrong, self.found)
        except (GitError, TooMany) as error:
            return [of_git(GIT, str(error), self.unnamed())]
        if not wrong:
            return []
        newest = {paths[one.path]: one.commit for one in reversed(wrong)}
        found = [stranger(objections[path], path, commit) for path, commit in newest.items()]
        return [*found, of_git(GIT, "no branch was moved, and the index is as before", self.unnamed())]

    def held(self, found: GitChanges) -> list[Held]:
        """What its commits change, and what is staged beyond the newest."""
        tips = {name: commit for name, commit in found.tips().items() if is_judged(name)}
        known = committed(found.layered, tuple(tips.values()))
        if found.index is None:
            return known
        return [*known, *staged(found.layered, found.index, self.head(found))]

    def head(self, found: GitChanges) -> str:
        """What HEAD stands for after the command, as git finds it: a commit, or the empty tree before the first."""
        name = f"{found.tree}/HEAD".lstrip("/")
        said = next((p.read_text().strip() for p in (found.upper / name, found.common / name) if p.is_file()), "")
        said = said.removeprefix("ref: ")
        tips = found.tips()
        if said in tips:
            return tips[said]
        words = ("rev-parse", "--verify", "--quiet", f"{said}^{{commit}}")
        commit = found.layered.asked(*words, ok=(0, 1, 128)).decode().strip()
        return commit or found.layered.asked("hash-object", "-t", "tree", "/dev/null").decode().strip()

    def inside(self, path: str) -> str:
        """A path of a commit, relative to the workspace: that may be a folder of the repository."""
        top = next((p for p in (self.workspace.root, *self.workspace.root.parents) if (p / ".git").exists()), None)
        prefix = "." if top is None else str(self.workspace.root.relative_to(top))
        return path if prefix == "." else posixpath.relpath(path, prefix)

    def unexplained(self, wrong: Iterable[Held], found: GitChanges) -> list[Held]:
        """Those that are neither what the working tree holds, nor what was in the index before.

        What git ignores there explains nothing: commands leave such files under any intent, and unrecorded.
        """
        wrong = list(wrong)
        paths = {one.path: self.inside(one.path) for one in wrong}
        head = head_commit(self.workspace)
        ignored = find_ignored(self.workspace, head, dict.fromkeys(paths.values()), by_tree=False)
        left = [
            one
            for one in wrong
            if paths[one.path] in ignored.below or paths[one.path] in ignored.alone or not self.in_tree(one)
        ]
        if not left or self.workspace.git_dir is None:
            return left
        before = indexed(found.layered, self.workspace.git_dir / "index")
        return [one for one in left if (before.get(one.path) != (one.mode, one.name))]

    def in_tree(self, one: Held) -> bool:
        """Whether the working tree holds the same."""
        place = self.workspace.root / self.inside(one.path)
        if one.gone:
            return not os.path.lexists(place)
        now = glance(place)
        if now is None or self.found is None:
            return False
        if len(one.name) == len(now.version.git_blob) or not is_plain(place):
            return now.version.git_blob == one.name
        return self.found.layered.asked("hash-object", "--no-filters", "--", str(place)).decode().strip() == one.name


def is_plain(place: Path) -> bool:
    """Whether a file stands there, and no link."""
    return place.is_file() and not place.is_symlink()


def is_judged(name: str) -> bool:
    """Whether a name is one whose commits are looked into."""
    return name.startswith(JUDGED) or (name.endswith("HEAD") and name != STASH)


def changes_of(workspace: Workspace, staging: Staging, changes: Sequence[Touched]) -> GitChanges | None:
    """What was done to git's folder; None without one. Raises OSError."""
    common, root = workspace.common_dir, workspace.root
    if common is None:
        return None
    if staging.common is not None:
        upper, own = staging.common.upper, touched(staging.common.upper, common)
    else:
        name = str(common.relative_to(root))
        upper = staging.root.upper / name
        own = [replace(c, path=c.path[len(name) + 1 :]) for c in changes if c.path.startswith(f"{name}/")]
    return GitChanges(upper, common, own, tree_of(workspace.git_dir, common))


def tree_of(git_dir: Path | None, common: Path) -> str:
    """The git folder of a linked work tree, relative to the repository's; empty for the first."""
    if git_dir is None or git_dir == common or not git_dir.is_relative_to(common):
        return ""
    return str(git_dir.relative_to(common))
