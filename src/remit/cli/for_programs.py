"""Commands that programs run: `remit schema`, `remit mcp` and `remit daemon`."""

import os
from collections.abc import Callable
from importlib.metadata import version
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
