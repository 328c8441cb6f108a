"""The commits that lines went through, and the pull requests that they came with."""

import re
from collections.abc import Iterable

from msgspec import Struct

from remit.workspace.git.command import Git, GitError

MAX_COMMITS = 5
PULL_REQUEST_PATTERNS = (
    re.compile(r"\AMerge pull request #(\d{1,9})\b"),
    re.compile(r"\AMerged in .{1,200} \(pull request #(\d{1,9})\)"),
    re.compile(r"\A[^\n]{0,500}\(#(\d{1,9})\)[ \t]*$", re.MULTILINE),
    re.compile(r"^See merge request .{0,200}!(\d{1,9})[ \t]*$", re.MULTILINE),
)
"""How hosting sites write it: GitHub's merges, Bitbucket's, GitHub's squashes and rebases, GitLab's."""

COMMIT_FORMAT = "--format=%H%x00%an%x00%aI%x00%B%x00"


class CommitDetails(Struct, frozen=True):
    """A commit, in short. `pull_request` is as its message, or that of the merge that brought it, tells."""

    sha: str
    subject: str
    author: str
    at: str
    pull_request: int | None = None


def describe_commits(git: Git, shas: Iterable[str]) -> tuple[CommitDetails, ...]:
    """The first few of these commits; those that git cannot show are left out."""
    wanted = [sha for sha in dict.fromkeys(shas) if sha.strip("0")][:MAX_COMMITS]
    return tuple(found for sha in wanted if (found := describe_commit(git, sha)))


def describe_commit(git: Git, sha: str) -> CommitDetails | None:
    """One commit; None where git cannot show it."""
    found = read_messages(git, "show", "-s", COMMIT_FORMAT, sha, "--")
    if not found:
        return None
    name, author, at, message = found[0]
    return CommitDetails(
        name, message.partition("\n")[0], author, at, parse_pull_request(message) or pull_request_of_merge(git, name)
    )


def pull_request_of_merge(git: Git, sha: str) -> int | None:
    """The pull request of the merge that brought the commit to where HEAD is; None where it was made there."""
    try:
        merges = git.text("rev-list", "--first-parent", "--ancestry-path", "--merges", f"{sha}..HEAD", "--").split()
        brought = merges and git.text("rev-list", "-n", "1", sha, f"^{merges[-1]}^1", "--")
    except GitError:
        return None
    found = read_messages(git, "show", "-s", COMMIT_FORMAT, merges[-1], "--") if brought else []
    return parse_pull_request(found[0][3]) if found else None


def parse_pull_request(message: str) -> int | None:
    """The number of the pull request that a commit message names."""
    found = (pattern.search(message) for pattern in PULL_REQUEST_PATTERNS)
    return next((int(match[1]) for match in found if match), None)


def read_messages(git: Git, *arguments: str) -> list[tuple[str, str, str, str]]:
    """(name, author, time, message) of each commit that this shows; none where git says no."""
    try:
        out = git.run(*arguments).decode("utf-8", "replace")
    except GitError:
        return []
    parts = out.split("\0")
    rows = zip(*(parts[n::4] for n in range(4)), strict=False)
    return [(name.strip(), author, at, message.strip()) for name, author, at, message in rows]
