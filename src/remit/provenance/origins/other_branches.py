"""Lines that the repository held before a call, in commits of any branch or in stashes: the call only brought them.

Asked of what a contained command left, and of what a command alone can be seen to have written: their texts do not tell
what they write, and a merge, a stash or `git show` inside them writes others' lines. Versions that recorded calls left
do not count: these lines have their authors.

Contents that another branch has: what a version says as they do was written in both, and moved from nowhere.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec.structs import replace

from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.provenance.origins.blame_porcelain import FileVersion
from remit.provenance.origins.evidence import Attribution, Attributions
from remit.provenance.origins.file_histories import FileHistories
from remit.provenance.origins.recorded_steps import FileHistory, certain_route
from remit.workspace.git.command import GitError

LOG_OPTIONS = (
    "log",
    "--all",
    "--reflog",
    "--format=%x01%ct",
    "--raw",
    "--no-abbrev",
    "--no-renames",
    "--diff-filter=AM",
    "-m",
    "-z",
)
MAX_VERSIONS = 2000
"""Versions of one file that are read."""

MAX_PATHS_PER_CALL = 200


def drop_lines_committed_earlier(
    file_histories: FileHistories,
    attributed: Mapping[FileVersion, Attributions],
    calls: Mapping[FileVersion, Mapping[str, float]],
) -> dict[FileVersion, Attributions]:
    """The labels of versions, where lines that the repository held before their call are nobody's.

    `calls` are the records that are asked about, with their times. Of a run of lines that holds such a one, the lines
    that anybody would write go with it.
    """
    earlier = EarlierVersions(file_histories, list(calls))
    file_histories.load_contents({version for place in calls if (version := file_histories.version_blob(place))})
    return {
        place: drop_earlier_lines_of_version(file_histories, earlier, place, attributed[place], calls[place])
        for place in calls
    }


def drop_earlier_lines_of_version(
    file_histories: FileHistories,
    earlier: "EarlierVersions",
    version: FileVersion,
    attributions: Attributions,
    calls: Mapping[str, float],
) -> Attributions:
    """The same for one version."""
    texts = file_histories.lines_of(file_histories.version_blob(version)) or ()
    found = list(attributions)
    for record, run in groupby(
        range(min(len(attributions), len(texts))), key=lambda i: attributed_record(attributions[i], calls)
    ):
        if record is None:
            continue
        numbers = list(run)
        held = earlier.committed_lines(version, calls[record])
        strong = {i for i in numbers if is_distinctive_line(texts[i]) and texts[i].strip() in held}
        gone = strong | {i for i in numbers if not is_distinctive_line(texts[i])} if strong else strong
        for i in gone:
            attribution = found[i]
            found[i] = replace(attribution, proved=False, likely=False) if attribution else None
    return found


def attributed_record(attribution: Attribution | None, calls: Mapping[str, float]) -> str | None:
    """The record of a label that is asked about."""
    return (
        attribution.record
        if attribution and attribution.record in calls and (attribution.proved or attribution.likely)
        else None
    )


class EarlierVersions:
    """The texts of the versions of some files that no recorded call left."""

    def __init__(self, file_histories: FileHistories, versions: Sequence[FileVersion]) -> None:
        self.histories = file_histories
        self.versions: dict[str, list[tuple[int, str]]] = {}
        left = {place.path_in_tree: file_histories.recorded_contents(place.path) for place in versions}
        for at, path, blob in committed_versions(file_histories, sorted(left)):
            if blob not in left.get(path, ()):
                self.versions.setdefault(path, []).append((at, blob))
        file_histories.load_contents({blob for known in self.versions.values() for _, blob in known[:MAX_VERSIONS]})

    def committed_lines(self, version: FileVersion, before: float) -> frozenset[bytes]:
        """The lines of those that were committed before that time, in seconds; commits tell whole ones."""
        known = self.versions.get(version.path_in_tree, ())[:MAX_VERSIONS]
        blobs = {blob for at, blob in known if at < int(before)}
        return frozenset(line.strip() for blob in blobs for line in self.histories.lines_of(blob) or ())


def committed_versions(file_histories: FileHistories, paths: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """When each version of those files was committed, its path, and its git name; none where git says no."""
    for start in range(0, len(paths) if file_histories.workspace.common_dir else 0, MAX_PATHS_PER_CALL):
        asked = (f":(top,literal){path}" for path in paths[start : start + MAX_PATHS_PER_CALL])
        try:
            out = file_histories.git.run(*LOG_OPTIONS, "--", *asked)
        except GitError:
            return
        at, about = 0, ""
        for field in out.decode("utf-8", "surrogateescape").split("\0"):
            if about:
                yield at, field, about.split(" ")[3]
                about = ""
            elif field.startswith("\1"):
                at = int(field[1:].strip() or 0)
            elif field.lstrip("\n").startswith(":"):
                about = field


RAW_BLOB = re.compile(r"^:\d+ \d+ \w+ (\w+)", re.MULTILINE)
"""What a change left, in `git log --raw`."""


def is_on_other_branch(file_histories: FileHistories, version: FileVersion, content: str) -> bool:
    """Whether commits have that content of the file, by its git name, or what calls made of it, and none of them is
    older than the version. Source: git-log(1), `--find-object`, read 2026-11.
    """
    git, path = file_histories.git, version.path
    try:
        if git.text("log", "-1", "--format=%H", f"--find-object={content}", version.commit, "--", path):
            return False
        out = git.text("log", "--format=", "--raw", "--no-abbrev", "HEAD", f"^{version.commit}", "--", path)
    except GitError:
        return False
    history = file_histories.history_of(path)
    return any(blob == content or follows_by_calls(blob, content, history) for blob in RAW_BLOB.findall(out))


def follows_by_calls(blob: str, content: str, history: FileHistory) -> bool:
    """Whether calls alone made one content of another."""
    route = certain_route(blob, content, history)
    return bool(route) and route[0].before == content and not any(step.inferred for step in route)


def drop_moved(attributions: Attributions) -> Attributions:
    """The labels but for those of lines that were taken for moved ones."""
    return [None if label and label.grade == "moved" else label for label in attributions]
