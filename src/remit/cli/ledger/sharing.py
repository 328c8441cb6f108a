"""`remit ledger push` and `fetch`: share the log with teammates, as a ref or as a tracked file."""

import os
from pathlib import Path

import click
import msgspec

from remit.cli.output import INTEGRITY, UNAVAILABLE, Failure, command_options, emit, governed_gate
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.records import share_logs
from remit.workspace.sharing.shared_refs import LogRefs, SharedLogDiffers
from remit.workspace.sharing.tracked_logs import IndexLocked

LARGE_FILE_BYTES = 25 * 1024 * 1024  # above this size hosting sites are slow with a file, and soon warn

HISTORY_COST = (
    'each commit of it keeps a piece of the log in the history for good; `log = "ref"` keeps it out of commits'
)
CONFLICT_FIX = "take one by `git checkout --ours` or `--theirs`"


@click.command()
@click.argument("remote", required=False)
@click.option("--local", is_flag=True, help="Only write the ref here; push nothing. A tracked log is never pushed.")
@click.option("--stage", is_flag=True, help="Where the log is a tracked file: only stage it, for your own commit.")
@command_options
def push(remote: str | None, local: bool, stage: bool, repo: Path, as_json: bool) -> None:
    """Share this machine's log, as [share] log in remit.toml says; a push is never forced.

    "ref": write the log to refs/remit/log/, and push the ref to REMOTE (default: origin). "tree": write the log to a
    tracked file under .orchestration/log/ and commit only the file, or with --stage leave the file to your next commit;
    the log travels with the branch, and every commit keeps a piece of the log for good.

    Works only if a person has set "ref" or "tree": the log names paths, commands and intents, and a push cannot be
    taken back.
    """
    index = os.environ.get("GIT_INDEX_FILE", "")
    gate = governed_gate(repo)
    if gate.workspace.common_dir is None:
        raise Failure("NO_GIT", "a log is shared by way of git, and this folder is no git repository", fix="git init")
    setting = gate.rules.config.share.log
    if setting == "off":
        fix = 'set `log = "ref"`, or "tree", under [share] in .orchestration/remit.toml'
        raise Failure("NOT_SHARED", f"this repository shares no log: [share] log is {setting!r}", fix=fix)
    if setting == "tree":
        push_tracked(gate, remote, stage, index, as_json)
        return
    if stage:
        fix = 'set `log = "tree"` under [share], or leave --stage out'
        raise Failure("USAGE", "a log that is shared as a ref is not staged", fix=fix)
    try:
        shared = share_logs.write_log_ref(gate.recorder)
    except SharedLogDiffers as error:
        raise Failure.from_error(error, "INTEGRITY", exit_code=INTEGRITY) from error
    target = remote or "origin"
    if not local:
        LogRefs(gate.workspace).push_log(target, shared.ref, shared.tip)
    lines = [f"{shared.ref} has {shared.files} segments, {shared.fresh} of them new or longer"]
    lines += [f"left out: {name} was pruned before it was shared" for name in shared.absent]
    lines.append("pushed nowhere" if local else f"pushed to {sanitise_line(target)}")
    emit({**msgspec.to_builtins(shared), "pushed": not local}, as_json, lines)


def push_tracked(gate: Gate, remote: str | None, stage: bool, index: str, as_json: bool) -> None:
    """Write the tracked log, and commit or stage it. `index` is the index named by a git hook. Raises Failure."""
    if remote is not None:
        message = 'with `log = "tree"` the log goes where its branch goes, and Remit pushes no branch'
        raise Failure("USAGE", message, fix=f"remit ledger push, then git push {sanitise_line(remote)}")
    # `git commit --all` passes its index to hooks; the index of a commit of named paths git discards: nothing is added.
    named, lock = Path(index).absolute(), Path(f"{gate.workspace.git_dir}/index.lock")
    is_of_commit = bool(index) and lock.exists() and named.exists() and named.samefile(lock)
    if is_of_commit:
        os.environ["GIT_INDEX_FILE"] = str(lock)
    try:
        report = share_logs.write_tracked_log(
            gate.recorder, commit=not stage and not index, index=lock if is_of_commit else None
        )
    except share_logs.TrackedLogDiffers as error:
        raise Failure.from_error(error, "INTEGRITY", exit_code=INTEGRITY) from error
    except share_logs.LogNotTrackable as error:
        raise Failure.from_error(error, "INVALID") from error
    except IndexLocked as error:
        raise Failure.from_error(error, "UNAVAILABLE", exit_code=UNAVAILABLE) from error
    emit(report, as_json, describe_tracked_log(report))


def describe_tracked_log(report: share_logs.TrackedLogReport) -> list[str]:
    size = f"{report.bytes / 1024 / 1024:.1f} MiB"
    lines = [f"{report.path} has {report.records} records, {report.fresh} of them new, {size}"]
    lines += [f"left out: {report.absent} records were pruned before they were shared"] if report.absent else []
    lines += [f"gone from it: {report.junk} lines that were no records of this log"] if report.junk else []
    lines += [f"settled: both sides of {name} are in it now" for name in report.settled]
    lines += [f"not settled: neither side of {name} continues the other; {CONFLICT_FIX}" for name in report.unsettled]
    if report.commit is not None:
        commit = f"committed alone as {report.commit[:12]}"
        lines.append(f"{commit}: it goes out when you push this branch, and cannot be taken back")
    elif report.staged:
        why = "git is in the midst of a merge or rebase, so it is only staged" if report.stopped else "staged"
        lines.append(f"{why}: commit it before you switch branches")
    else:
        lines.append("HEAD has all of it" if report.settled else "HEAD has all of it: nothing to commit")
    lines += [HISTORY_COST] if report.staged else []
    is_large = report.bytes > LARGE_FILE_BYTES
    return [*lines, "it is large for a tracked file: hosting sites warn above 50 MiB"] if is_large else lines


@click.command()
@click.argument("remote", required=False)
@command_options
def fetch(remote: str | None, repo: Path, as_json: bool) -> None:
    """Take in the logs that other machines pushed to REMOTE: read beside our own, never part of our log.

    Logs are `unproved` unless signed by a key in `trusted_keys`. Exit 5 if a log on the remote no longer continues the
    log fetched earlier; the log fetched earlier stays unchanged.

    With `log = "tree"`, logs lie in the work tree and are read without this command; without REMOTE, the command then
    takes in logs found only in the history: of local branches, and logs dropped by a merge.
    """
    gate = governed_gate(repo)
    if gate.workspace.common_dir is None:
        raise Failure("NO_GIT", "logs are shared by way of git, and this folder is no git repository", fix="git init")
    if remote is None and gate.rules.config.share.log == "tree":
        imported = share_logs.import_tracked_logs(gate.recorder)
        lines = [f"{records} records of {name}" for name, records in imported.items()]
        lines = lines or ["no branch that is here has a log of another machine"]
        emit({"records": imported, "refused": []}, as_json, lines)
        return
    source = remote or "origin"
    fetched = share_logs.fetch_logs(gate.recorder, source)
    name = sanitise_line(source)
    lines = [f"{records} records of machine {machine}" for machine, records in fetched.records.items()]
    lines += [f"not taken: the log of {other} on {name} does not continue what is here" for other in fetched.refused]
    lines = lines or [f"{name} has no log of another machine"]
    emit(fetched, as_json, lines, INTEGRITY if fetched.refused else 0)
