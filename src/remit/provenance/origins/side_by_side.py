"""Contents that another branch has: what a version says as they do was written in both, and moved from nowhere."""

import re

from remit.provenance.origins.evidence import Labels
from remit.provenance.origins.histories import Histories
from remit.provenance.origins.porcelain import Place
from remit.provenance.origins.ways import History, certain
from remit.workspace.git import GitError

BLOB = re.compile(r"^:\d+ \d+ \w+ (\w+)", re.MULTILINE)
"""What a change left, in `git log --raw`."""


def stands_beside(histories: Histories, place: Place, content: str) -> bool:
    """Whether commits have that content of the file, by its git name, or what calls made of it, and none of them is
    older than the version. Source: git-log(1), `--find-object`, read 2026-11.
    """
    git, path = histories.git, place.path
    try:
        if git.text("log", "-1", "--format=%H", f"--find-object={content}", place.commit, "--", path):
            return False
        out = git.text("log", "--format=", "--raw", "--no-abbrev", "HEAD", f"^{place.commit}", "--", path)
    except GitError:
        return False
    history = histories.history(path)
    return any(blob == content or came_from(blob, content, history) for blob in BLOB.findall(out))


def came_from(blob: str, content: str, history: History) -> bool:
    """Whether calls alone made one content of another."""
    way = certain(blob, content, history)
    return bool(way) and way[0].before == content and not any(step.loose for step in way)


def unmoved(labels: Labels) -> Labels:
    """The labels but for those of lines that were taken for moved ones."""
    return [None if label and label.grade == "moved" else label for label in labels]
