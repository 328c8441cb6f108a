"""`remit ledger push` and `fetch`: the log as a ref that teammates read."""

from pathlib import Path

import click
import msgspec

from remit.cli.output import (
    INTEGRITY,
    Failure,
    emit,
    governed_gate,
    json_option,
    repo_option,
    reports_failures,
)
from remit.core.text import shown
from remit.gate.gate import Gate
from remit.gate.sharing import Taken, shared, taken
from remit.workspace.shared_logs import LogRefs, Shared, SharedLogDiffers


@click.command()
@click.argument("remote", default="origin")
@click.option("--local", is_flag=True, help="Only write the ref here; push nothing.")
@repo_option
@json_option
@reports_failures
def push(remote: str, local: bool, repo: Path, as_json: bool) -> None:
    """Write this machine's log to refs/remit/log/, and push that ref to REMOTE. Nothing is ever forced.

    Only where a person set `log = "ref"` under [share]: the log names paths, commands and intents, and what was
    pushed cannot be taken back.
    """
    gate = governed_gate(repo)
    must_share(gate)
    try:
        done = shared(gate)
    except SharedLogDiffers as error:
        message, _, hint = str(error).partition("\nhint: ")
        raise Failure("INTEGRITY", message, fix=hint, exit_code=INTEGRITY) from error
    if not local:
        LogRefs(gate.workspace).push(remote, done.ref, done.tip)
    data = {**msgspec.to_builtins(done), "pushed": not local}
    emit(data, as_json, "\n".join(said_shared(done, "" if local else shown(remote))))


def must_share(gate: Gate) -> None:
    """The log is for others only where a person said so. Raises Failure."""
    setting = gate.governing.config.share.log
    if gate.workspace.common_dir is None:
        raise Failure("NO_GIT", "a log is shared as a git ref, and this folder is no git repository", fix="git init")
    if setting != "ref":
        raise Failure(
            "NOT_SHARED",
            f"this repository shares no log as a ref: [share] log is {setting!r}"
            + (", which no command offers yet" if setting == "tree" else ""),
            fix='set `log = "ref"` under [share] in .orchestration/remit.toml',
        )


def said_shared(done: Shared, remote: str) -> list[str]:
    """What was shared, for people."""
    lines = [f"{done.ref} has {done.files} segments, {done.fresh} of them new or longer"]
    lines += [f"left out: {name} was pruned before it was shared" for name in done.absent]
    return [*lines, f"pushed to {remote}" if remote else "pushed nowhere"]


@click.command()
@click.argument("remote", default="origin")
@repo_option
@json_option
@reports_failures
def fetch(remote: str, repo: Path, as_json: bool) -> None:
    """Take in the logs that other machines pushed to REMOTE: read beside our own, never part of it.

    They are `unproved` unless signed by a key in `trusted_keys`. Exit 5 where a log on the remote is no longer a
    continuation of what was fetched earlier: what is here stays as it is.
    """
    gate = governed_gate(repo)
    if gate.workspace.common_dir is None:
        raise Failure("NO_GIT", "logs are shared as git refs, and this folder is no git repository", fix="git init")
    done = taken(gate, remote)
    emit(msgspec.to_builtins(done), as_json, "\n".join(said_taken(done, shown(remote))))
    if done.refused:
        raise SystemExit(INTEGRITY)


def said_taken(done: Taken, remote: str) -> list[str]:
    """What was taken in, for people."""
    lines = [f"{records} records of machine {machine}" for machine, records in done.records.items()]
    lines += [f"not taken: the log of {m} on {remote} does not continue what is here" for m in done.refused]
    return lines or [f"{remote} has no log of another machine"]
