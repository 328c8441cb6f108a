"""Author, subject and pull request of commits."""

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
"""Messages of hosting sites: GitHub merges, Bitbucket merges, GitHub squashes and rebases, GitLab merges."""

COMMIT_FORMAT = "--format=%H%x00%an%x00%aI%x00%B%x00"


class CommitDetails(Struct, frozen=True):
    """A commit in short. `pull_request` is from its message, or from the merge that brought it."""

    sha: str
    subject: str
    author: str
    at: str
    pull_request: int | None = None


def describe_commits(git: Git, shas: Iterable[str]) -> tuple[CommitDetails, ...]:
    shas_shown = [sha for sha in dict.fromkeys(shas) if sha.strip("0")][:MAX_COMMITS]
    return tuple(commit for sha in shas_shown if (commit := describe_commit(git, sha)))


def describe_commit(git: Git, sha: str) -> CommitDetails | None:
    commits = read_messages(git, "show", "-s", COMMIT_FORMAT, sha, "--")
    if not commits:
        return None
    name, author, at, message = commits[0]
    return CommitDetails(
        name, message.partition("\n")[0], author, at, parse_pull_request(message) or pull_request_of_merge(git, name)
    )


def pull_request_of_merge(git: Git, sha: str) -> int | None:
    """Return the pull request of the merge that brought the commit to HEAD; None if committed directly."""
    try:
        merges = git.text("rev-list", "--first-parent", "--ancestry-path", "--merges", f"{sha}..HEAD", "--").split()
        is_brought = merges and git.text("rev-list", "-n", "1", sha, f"^{merges[-1]}^1", "--")
    except GitError:
        return None
    commits = read_messages(git, "show", "-s", COMMIT_FORMAT, merges[-1], "--") if is_brought else []
    return parse_pull_request(commits[0][3]) if commits else None


def parse_pull_request(message: str) -> int | None:
    matches = (pattern.search(message) for pattern in PULL_REQUEST_PATTERNS)
    return next((int(match[1]) for match in matches if match), None)


def read_messages(git: Git, *arguments: str) -> list[tuple[str, str, str, str]]:
    """Return (name, author, time, message) of each commit; empty if git fails."""
    try:
        output = git.run(*arguments).decode("utf-8", "replace")
    except GitError:
        return []
    parts = output.split("\0")
    rows = zip(*(parts[n::4] for n in range(4)), strict=False)
    return [(name.strip(), author, at, message.strip()) for name, author, at, message in rows]
