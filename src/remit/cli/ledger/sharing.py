"""`remit ledger push` and `fetch`: the log as a ref, or as a tracked file, that teammates read."""

import os
from pathlib import Path

import click
import msgspec

from remit.cli.failure import UNAVAILABLE
from remit.cli.output import (
    INTEGRITY,
    USAGE,
    Failure,
    emit,
    governed_gate,
    json_option,
    repo_option,
    reports_failures,
)
from remit.core.display_text import sanitise_line
from remit.gate.gate import Gate
from remit.gate.log_sharing.as_file import (
    NothingToTrack,
    TooLargeToTrack,
    TrackedLogDiffers,
    TrackedLogReport,
    import_tracked_logs,
    write_tracked_log,
)
from remit.gate.log_sharing.as_ref import FetchedLogs, fetch_logs, write_log_ref
from remit.workspace.sharing.log_refs import LogRefs, SharedLog, SharedLogDiffers
from remit.workspace.sharing.tracked_logs import IndexLocked

LARGE_FILE_BYTES = 25 * 1024 * 1024
"""Bytes, from which on hosting sites are slow with a file, and warn soon."""

HISTORY_COST = (
    'each commit of it keeps a piece of the log in the history for good; `log = "ref"` keeps it out of commits'
)
CONFLICT_FIX = "take one by `git checkout --ours` or `--theirs`"


@click.command()
@click.argument("remote", required=False)
@click.option("--local", is_flag=True, help="Only write the ref here; push nothing. A tracked log is never pushed.")
@click.option("--stage", is_flag=True, help="Where the log is a tracked file: only stage it, for your own commit.")
@repo_option
@json_option
@reports_failures
def push(remote: str | None, local: bool, stage: bool, repo: Path, as_json: bool) -> None:
    """Share this machine's log, as [share] log in remit.toml says; nothing is ever forced.

    "ref": write it to refs/remit/log/, and push that ref to REMOTE (default: origin). "tree": write it to a tracked
    file under .orchestration/log/ and commit that file alone, or with --stage leave it to your next commit; it travels
    with the branch, and every such commit keeps a piece of the log for good.

    Only where a person set one of the two: the log names paths, commands and intents, and what was pushed cannot be
    taken back.
    """
    index = os.environ.get("GIT_INDEX_FILE", "")
    gate = governed_gate(repo)
    if require_sharing(gate) == "tree":
        push_tracked(gate, remote, stage, index, as_json)
        return
    if stage:
        fix = 'set `log = "tree"` under [share], or leave --stage out'
        raise Failure("USAGE", "a log that is shared as a ref is not staged", fix=fix, exit_code=USAGE)
    try:
        done = write_log_ref(gate)
    except SharedLogDiffers as error:
        raise to_failure(error, "INTEGRITY", INTEGRITY) from error
    named = remote or "origin"
    if not local:
        LogRefs(gate.workspace).push_log(named, done.ref, done.tip)
    data = {**msgspec.to_builtins(done), "pushed": not local}
    emit(data, as_json, "\n".join(describe_shared_ref(done, "" if local else sanitise_line(named))))


def require_sharing(gate: Gate) -> str:
    """How the log is shared: only where a person said so. Raises Failure."""
    setting = gate.rules.config.share.log
    if gate.workspace.common_dir is None:
        raise Failure("NO_GIT", "a log is shared by way of git, and this folder is no git repository", fix="git init")
    if setting == "off":
        raise Failure(
            "NOT_SHARED",
            f"this repository shares no log: [share] log is {setting!r}",
            fix='set `log = "ref"`, or "tree", under [share] in .orchestration/remit.toml',
        )
    return setting


def describe_shared_ref(done: SharedLog, remote: str) -> list[str]:
    """What was shared, for people."""
    lines = [f"{done.ref} has {done.files} segments, {done.fresh} of them new or longer"]
    lines += [f"left out: {name} was pruned before it was shared" for name in done.absent]
    return [*lines, f"pushed to {remote}" if remote else "pushed nowhere"]


def to_failure(error: Exception, code: str, exit_code: int) -> Failure:
    """The failure, with its next step."""
    message, _, hint = str(error).partition("\nhint: ")
    return Failure(code, message, fix=hint, exit_code=exit_code)


def find_commit_index(gate: Gate, index: str) -> Path | None:
    """The index that `git commit --all` hands to its hooks, where it is this repository's: git works on it from here.

    Of a commit of some paths git throws its index away, so nothing is added to that.
    """
    named, lock = Path(index).absolute(), Path(f"{gate.workspace.git_dir}/index.lock")
    if not index or not lock.exists() or not named.exists() or not named.samefile(lock):
        return None
    os.environ["GIT_INDEX_FILE"] = str(lock)
    return lock


def push_tracked(gate: Gate, remote: str | None, stage: bool, index: str, as_json: bool) -> None:
    """Write the tracked log, and commit or stage it. `index` is the one that git names to its hooks. Raises Failure."""
    if remote is not None:
        raise Failure(
            "USAGE",
            'with `log = "tree"` the log goes where its branch goes, and Remit pushes no branch',
            fix=f"remit ledger push, then git push {sanitise_line(remote)}",
            exit_code=USAGE,
        )
    try:
        done = write_tracked_log(gate, commit=not stage and not index, index=find_commit_index(gate, index))
    except TrackedLogDiffers as error:
        raise to_failure(error, "INTEGRITY", INTEGRITY) from error
    except (NothingToTrack, TooLargeToTrack) as error:
        raise to_failure(error, "INVALID", USAGE) from error
    except IndexLocked as error:
        raise to_failure(error, "UNAVAILABLE", UNAVAILABLE) from error
    emit(msgspec.to_builtins(done), as_json, "\n".join(describe_tracked_log(done)))


def describe_tracked_log(done: TrackedLogReport) -> list[str]:
    """What became of the tracked log, for people."""
    size = f"{done.bytes / 1024 / 1024:.1f} MiB"
    lines = [f"{done.path} has {done.records} records, {done.fresh} of them new, {size}"]
    lines += [f"left out: {done.absent} records were pruned before they were shared"] if done.absent else []
    lines += [f"gone from it: {done.junk} lines that were no records of this log"] if done.junk else []
    lines += [f"settled: both sides of {name} are in it now" for name in done.settled]
    lines += [f"not settled: neither side of {name} continues the other; {CONFLICT_FIX}" for name in done.unsettled]
    lines.append(describe_location(done))
    lines += [HISTORY_COST] if done.staged else []
    return lines + (
        ["it is large for a tracked file: hosting sites warn above 50 MiB"] if done.bytes > LARGE_FILE_BYTES else []
    )


def describe_location(done: TrackedLogReport) -> str:
    """Where the file is now."""
    if done.commit is not None:
        return f"committed alone as {done.commit[:12]}: it goes out when you push this branch, and cannot be taken back"
    if not done.staged:
        return "HEAD has all of it" if done.settled else "HEAD has all of it: nothing to commit"
    why = "git is in the midst of a merge or rebase, so it is only staged" if done.stopped else "staged"
    return f"{why}: commit it before you switch branches"


@click.command()
@click.argument("remote", required=False)
@repo_option
@json_option
@reports_failures
def fetch(remote: str | None, repo: Path, as_json: bool) -> None:
    """Take in the logs that other machines pushed to REMOTE: read beside our own, never part of it.

    They are `unproved` unless signed by a key in `trusted_keys`. Exit 5 where a log on the remote is no longer a
    continuation of what was fetched earlier: what is here stays as it is.

    With `log = "tree"` logs lie in the work tree and are read without this; without REMOTE it then takes in what only
    the history has: of other branches that are here, and what a merge dropped.
    """
    gate = governed_gate(repo)
    if gate.workspace.common_dir is None:
        raise Failure("NO_GIT", "logs are shared by way of git, and this folder is no git repository", fix="git init")
    if remote is None and gate.rules.config.share.log == "tree":
        found = import_tracked_logs(gate)
        emit({"records": found, "refused": []}, as_json, "\n".join(describe_gathered(found)))
        return
    named = remote or "origin"
    done = fetch_logs(gate, named)
    emit(msgspec.to_builtins(done), as_json, "\n".join(describe_fetched(done, sanitise_line(named))))
    if done.refused:
        raise SystemExit(INTEGRITY)


def describe_gathered(found: dict[str, int]) -> list[str]:
    """What the history had, for people."""
    lines = [f"{records} records of {name}" for name, records in found.items()]
    return lines or ["no branch that is here has a log of another machine"]


def describe_fetched(done: FetchedLogs, remote: str) -> list[str]:
    """What was taken in, for people."""
    lines = [f"{records} records of machine {machine}" for machine, records in done.records.items()]
    lines += [f"not taken: the log of {m} on {remote} does not continue what is here" for m in done.refused]
    return lines or [f"{remote} has no log of another machine"]
