"""Contents of other branches, stashes and older commits that a version repeats.

The texts of contained commands and of generators do not tell what the commands write; a merge, a stash or `git show`
inside such a command brings lines of other authors. Lines committed before the call are therefore not attributed to the
call. Contents left by recorded calls do not count: their lines have authors.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec.structs import replace

from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.provenance.origins.blame_porcelain import FileVersion
from remit.provenance.origins.commits_before_call import parse_raw_changes
from remit.provenance.origins.evidence import Attribution, Attributions
from remit.provenance.origins.file_histories import FileHistories
from remit.provenance.origins.recorded_steps import FileHistory, certain_route
from remit.workspace.git.command import GitError

LOG_OPTIONS = (
    *("log", "--all", "--reflog", "--format=%ct", "--raw"),
    *("--no-abbrev", "--no-renames", "--diff-filter=AM", "-m", "-z"),
)
MAX_VERSIONS = 2000
"""Versions of one file that are read."""

MAX_PATHS_PER_CALL = 200


def drop_lines_committed_earlier(
    file_histories: FileHistories,
    attributed: Mapping[FileVersion, Attributions],
    calls: Mapping[FileVersion, Mapping[str, float]],
) -> dict[FileVersion, Attributions]:
    """Remove proof from attributed lines that the repository held before their call.

    `calls` are the records in question with their times. Common lines of a run follow its distinctive ones.
    """
    earlier = EarlierVersions(file_histories, list(calls))
    file_histories.load_contents({blob for version in calls if (blob := file_histories.version_blob(version))})
    return {
        version: drop_earlier_lines_of_version(file_histories, earlier, version, attributed[version], calls[version])
        for version in calls
    }


def drop_earlier_lines_of_version(
    file_histories: FileHistories,
    earlier: "EarlierVersions",
    version: FileVersion,
    attributions: Attributions,
    calls: Mapping[str, float],
) -> Attributions:
    """Remove proof from such lines of one version."""
    texts = file_histories.lines_of(file_histories.version_blob(version)) or ()
    result = list(attributions)
    for record, run in groupby(
        range(min(len(attributions), len(texts))), key=lambda i: attributed_record(attributions[i], calls)
    ):
        if record is None:
            continue
        numbers = list(run)
        earlier_lines = earlier.committed_lines(version, calls[record])
        distinctive = {i for i in numbers if is_distinctive_line(texts[i]) and texts[i].strip() in earlier_lines}
        unproved = (
            distinctive | {i for i in numbers if not is_distinctive_line(texts[i])} if distinctive else distinctive
        )
        for i in unproved:
            attribution = result[i]
            result[i] = replace(attribution, proved=False, likely=False) if attribution else None
    return result


def attributed_record(attribution: Attribution | None, calls: Mapping[str, float]) -> str | None:
    return (
        attribution.record
        if attribution and attribution.record in calls and (attribution.proved or attribution.likely)
        else None
    )


class EarlierVersions:
    """Versions of some files that no recorded call left."""

    def __init__(self, file_histories: FileHistories, versions: Sequence[FileVersion]) -> None:
        self.histories = file_histories
        self.versions: dict[str, list[tuple[int, str]]] = {}
        recorded = {version.path_in_tree: file_histories.recorded_contents(version.path) for version in versions}
        for time_s, path, blob in committed_versions(file_histories, sorted(recorded)):
            if blob not in recorded.get(path, ()):
                self.versions.setdefault(path, []).append((time_s, blob))
        file_histories.load_contents(
            {blob for committed in self.versions.values() for _, blob in committed[:MAX_VERSIONS]}
        )

    def committed_lines(self, version: FileVersion, before: float) -> frozenset[bytes]:
        """Return the lines committed before a time in seconds; commit times are whole seconds."""
        committed = self.versions.get(version.path_in_tree, ())[:MAX_VERSIONS]
        blobs = {blob for time_s, blob in committed if time_s < int(before)}
        return frozenset(line.strip() for blob in blobs for line in self.histories.lines_of(blob) or ())


def committed_versions(file_histories: FileHistories, paths: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield commit time, path and blob of each version of the files; nothing if git fails."""
    for start in range(0, len(paths) if file_histories.workspace.common_dir else 0, MAX_PATHS_PER_CALL):
        pathspecs = (f":(top,literal){path}" for path in paths[start : start + MAX_PATHS_PER_CALL])
        try:
            output = file_histories.git.run(*LOG_OPTIONS, "--", *pathspecs)
        except GitError:
            return
        for change in parse_raw_changes(output):
            yield int(change.mark), change.path, change.after


def is_on_other_branch(file_histories: FileHistories, version: FileVersion, content: str) -> bool:
    """Return whether only commits beside the version's history hold that content, or a content that calls made of
    it. Source: git-log(1), `--find-object`, read 2026-11.
    """
    git, path = file_histories.git, version.path
    try:
        if git.text("log", "-1", "--format=%H", f"--find-object={content}", version.commit, "--", path):
            return False
        output = git.run(
            "log", "--format=", "--raw", "--no-abbrev", "--no-renames", "-z", "HEAD", f"^{version.commit}", "--", path
        )
    except GitError:
        return False
    history = file_histories.history_of(path)
    blobs = (change.after for change in parse_raw_changes(output))
    return any(blob == content or follows_by_calls(blob, content, history) for blob in blobs)


def follows_by_calls(blob: str, content: str, history: FileHistory) -> bool:
    """Return whether recorded calls alone turned `content` into `blob`."""
    route = certain_route(blob, content, history)
    return bool(route) and route[0].before == content and not any(step.inferred for step in route)


def drop_moved(attributions: Attributions) -> Attributions:
    return [None if attribution and attribution.grade == "moved" else attribution for attribution in attributions]
