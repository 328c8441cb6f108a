"""Commands that programs run: `remit schema`, `remit mcp`, `remit acp-agent` and `remit daemon`."""

import asyncio
import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from json import JSONDecodeError
from pathlib import Path
from signal import SIGTERM, signal

import click
from msgspec.structs import replace

from remit.cli.mcp_client import relay_lines
from remit.cli.output import Failure, emit, encode_json, json_option, repo_option, reports_failures, say
from remit.cli.ready import ready_option
from remit.console.control import ConsoleControl
from remit.servers.call_slots import raise_descriptor_limit
from remit.servers.daemon import IDLE_TIMEOUT_S, Daemon
from remit.servers.environment import read_environment
from remit.servers.tool_offer import renew_offers
from remit.wiring.hook_client import client_path, hash_client, install_client, is_client_current
from remit.wiring.manifest import SettingsError, read_manifest, write_manifest
from remit.workspace.place.workspace import is_in_jail

EDITOR_STARTS_IT = "an editor starts this command, and speaks the Agent Client Protocol with it"


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="Name the shapes.")
@json_option
@reports_failures
def schema(name: str | None, listing: bool, as_json: bool) -> None:
    """Print the JSON Schema (2020-12) of the shape NAME."""
    # Not needed by the servers, which have to start quickly.
    from remit.core.formats.json_schemas import SCHEMAS, add_title, build_schema, build_struct_schema
    from remit.provenance.blame.blamed_line import BlamedLine
    from remit.provenance.why.explanation import Explanation

    answers: dict[str, tuple[str, type]] = {
        "blamed-line": ("one of the lines that `remit blame --json` tells", BlamedLine),
        "explanation": ("what `remit why --json` tells", Explanation),
    }
    shapes = {key: about for key, (about, _) in (*SCHEMAS.items(), *answers.items())}
    if listing or name is None:
        names = [{"name": key, "about": about} for key, about in shapes.items()]
        emit(names, as_json, [f"{key:<14} {about}" for key, about in shapes.items()])
        return
    if name not in shapes:
        raise Failure("NOT_FOUND", f"there is no shape {name!r}", fix=f"one of {', '.join(shapes)}", target=name)
    if name in answers:
        made = add_title(name, answers[name][0], build_struct_schema(answers[name][1]))
    else:
        made = build_schema(name)
    emit(made, as_json, encode_json(made))


@click.command()
@repo_option
@click.option("--direct", is_flag=True, help="Serve in this process, without the daemon.")
@click.option("--clients-fd", type=click.IntRange(min=1), help="Serve the clients that come through this descriptor.")
def mcp(repo: Path, direct: bool, clients_fd: int | None) -> None:
    """Serve the agent-facing tools to an MCP client on standard input and output.

    The tools are served by a process beside the daemon; this one passes the client's lines on.
    """
    environment = read_environment()
    if clients_fd is not None:
        from remit.servers.tool_server import serve_clients

        serve_clients(clients_fd)
    elif direct and not is_in_jail(environment.home):
        from remit.servers.mcp import serve_stdio

        serve_stdio(repo.resolve(), environment, version("remit"))
    else:
        os.chdir(repo)
        raise SystemExit(relay_lines(str(environment.home)))


@click.command("acp-agent")
@click.option("--model", metavar="PROVIDER:NAME", help="The model; else REMIT_MODEL, else `[run] model`.")
@reports_failures
def acp_agent(model: str | None) -> None:
    """Serve Remit's own agent to an editor that speaks the Agent Client Protocol, on standard input and output."""
    from remit_agent.models.extra import ExtraMissing, name_missing_extra

    try:
        with name_missing_extra():
            from remit_agent.acp import serve_acp  # takes the extra, and most of a second
    except ExtraMissing as error:
        raise Failure.from_error(error, "NO_EXTRA") from error
    if not (has_pipe(0) or os.isatty(0)) or not (has_pipe(1) or os.isatty(1)):
        message = "standard input or standard output is neither a pipe nor a terminal"
        raise Failure("USAGE", message, fix=f"{EDITOR_STARTS_IT} over pipes")
    logging.basicConfig(format="remit: %(message)s")
    logging.getLogger().handlers[0].addFilter(describe_bad_line)
    asyncio.run(serve_acp(model or os.environ.get("REMIT_MODEL"), dict(os.environ), read_environment()))


def has_pipe(number: int) -> bool:
    """Return True if the open file is a pipe or a socket; False if it is closed."""
    with suppress(OSError):
        kind = os.fstat(number).st_mode
        return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
    return False


def describe_bad_line(record: logging.LogRecord) -> bool:
    """Replace the traceback of the protocol's library for a line that is no JSON by words; keep every record."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, JSONDecodeError | UnicodeDecodeError):
        record.msg, record.args = f"a line of standard input is no JSON: {error}\nhint: {EDITOR_STARTS_IT}", ()
        record.exc_info = None
    return True


@click.command()
@click.option(
    "--idle-s", default=IDLE_TIMEOUT_S, show_default=True, help="Leave after this many seconds without a call."
)
@click.option("--first-folder", metavar="DIRECTORY", default="", help="Load what calls in this folder need, at once.")
@ready_option
def daemon(idle_s: float, first_folder: str, announce_ready: Callable[[], None]) -> None:
    """Answer hook calls from a warm process until nobody calls any more."""
    home = read_environment().home
    try:
        # After an upgrade an old client would keep asking fresh processes.
        if client_path(home).exists() and not is_client_current(home):
            install_client(home)
            renew_offers(home, version("remit"))
            manifest = read_manifest(home)
            if manifest.files:  # a replaced client is noticed by its hash
                write_manifest(home, replace(manifest, client=hash_client(home)))
    except (OSError, SettingsError) as error:
        say(f"remit: the hook client could not be brought up to date: {error}", err=True)
    raise_descriptor_limit()
    running = Daemon(home, version("remit"), ConsoleControl(home), idle_s)
    signal(SIGTERM, lambda _number, _frame: running.stopping.set())
    raise SystemExit(running.serve(announce_ready, first_folder))
