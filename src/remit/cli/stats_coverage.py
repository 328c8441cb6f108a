"""The part of `remit stats` that tells how much was judged before it changed."""

from typing import Any

from msgspec import to_builtins

from remit.cli.failure import Failure
from remit.core.text import shown
from remit.ledger.index import Index
from remit.provenance.verify.coverage import RangeCoverage, coverage, coverage_of_range
from remit.workspace.git import GitError
from remit.workspace.place import Workspace

NAMED = 5


def covered(
    index: Index, workspace: Workspace, since: str | None, until: str | None, commits: str | None
) -> tuple[dict[str, Any], list[str]]:
    """The coverage of that time, and of a range of commits where one is asked for: as data, and in lines."""
    share = coverage(index, since=since, until=until).overall
    data: dict[str, Any] = {"judged": share.judged, **to_builtins(share)}
    said = f"coverage        {share.judged} of {share.changed} changed files were judged before they changed"
    lines = [said, f"  others        people alone changed {share.people}, git {share.git}"]
    if commits is not None:
        found = asked_for(index, workspace, commits)
        data["range"] = {"commits": commits, **to_builtins(found)}
        lines += of_range(commits, found)
    return data, lines


def asked_for(index: Index, workspace: Workspace, commits: str) -> RangeCoverage:
    """The coverage of those commits. Raises Failure where git knows no such range."""
    try:
        return coverage_of_range(index, workspace, commits)
    except GitError as error:
        message = error.message.strip() or str(error)
        raise Failure("GIT", message, target=commits, fix="for example: remit stats --range main..HEAD") from error


def of_range(commits: str, found: RangeCoverage) -> list[str]:
    """The coverage of a range, for people."""
    lines = [f"  {shown(commits, 60)}: {found.judged} of {found.files} files of these commits were judged"]
    for name, paths in (("not judged", found.ungoverned), ("nothing recorded", found.unrecorded)):
        if paths:
            few = ", ".join(shown(path, 120) for path in paths[:NAMED])
            more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
            lines.append(f"    {name}: {few}{more}")
    return lines
