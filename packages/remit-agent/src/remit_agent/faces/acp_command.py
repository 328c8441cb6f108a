"""`remit acp-agent`: Remit's own agent, for an editor that starts it."""

import asyncio
import logging
import os
import stat
from contextlib import suppress
from json import JSONDecodeError

import click

from remit.cli.output import Failure, reports_failures
from remit.servers.environment import read_environment

EDITOR_STARTS_IT = "an editor starts this command, and speaks the Agent Client Protocol with it"


@click.command("acp-agent")
@click.option("--model", metavar="PROVIDER:NAME", help="The model; else REMIT_MODEL, else `[run] model`.")
@reports_failures
def acp_agent(model: str | None) -> None:
    """Serve Remit's own agent to an editor that speaks the Agent Client Protocol, on standard input and output."""
    from remit_agent.faces.acp import serve_acp  # takes most of a second

    if not (has_pipe(0) or os.isatty(0)) or not (has_pipe(1) or os.isatty(1)):
        message = "standard input or standard output is neither a pipe nor a terminal"
        raise Failure("USAGE", message, fix=f"{EDITOR_STARTS_IT} over pipes")
    logging.basicConfig(format="remit: %(message)s")
    logging.getLogger().handlers[0].addFilter(describe_bad_line)
    asyncio.run(serve_acp(model or os.environ.get("REMIT_MODEL"), dict(os.environ), read_environment()))


def has_pipe(number: int) -> bool:
    with suppress(OSError):
        kind = os.fstat(number).st_mode
        return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
    return False


def describe_bad_line(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, JSONDecodeError | UnicodeDecodeError):
        record.msg, record.args = f"a line of standard input is no JSON: {error}\nhint: {EDITOR_STARTS_IT}", ()
        record.exc_info = None
    return True
