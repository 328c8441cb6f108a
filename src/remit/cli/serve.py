"""`remit serve`: open the console, a page on this machine."""

import time
import webbrowser
from importlib.metadata import version
from pathlib import Path

import click

from remit.cli.output import UNAVAILABLE, Failure, emit, json_option, reports_failures
from remit.cli.person_only import require_person
from remit.console.pairing import LINK_LIFETIME_S, forget_console, write_opening_page
from remit.core.acts import Act
from remit.servers.daemon import CONSOLE_AGENT
from remit.servers.daemon_client import DaemonAway, ask_daemon, ask_started_daemon
from remit.servers.environment import read_environment

OPENING_S = 5.0  # how long the page that leads to the link stays on the disk


@click.command()
@click.option("--open", "opens", is_flag=True, help="Open the link in your browser.")
@click.option("--port", type=click.IntRange(1, 65535), help="Listen on this port; it is kept for the next time.")
@click.option("--stop", is_flag=True, help="Stop serving the console.")
@json_option
@reports_failures
def serve(opens: bool, port: int | None, stop: bool, as_json: bool) -> None:
    """Open the console: a page that shows what agents do, asks you what waits, and says why code is there.

    It is served by Remit's daemon on this machine only, unless `~/.config/remit/remit.toml` opens it to people who log
    in. The link pairs one browser, within a minute; a paired browser finds the page again at the same address.
    """
    home = read_environment().home
    if stop:
        require_person(Act.STOP_SERVING)
        reply = ask_daemon(home, version("remit"), CONSOLE_AGENT, "stop", b"")
        forget_console(home)
        was_running = reply is not None and bool(reply.stdout)
        emit({"stopped": was_running}, as_json, "stopped" if was_running else "the console was not running")
        return
    require_person(Act.SERVE)
    payload = str(port).encode() if port else b""
    try:
        reply = ask_started_daemon(home, version("remit"), CONSOLE_AGENT, "open", payload)
    except DaemonAway as error:
        raise Failure("DAEMON_AWAY", str(error), fix="run `remit doctor`", exit_code=UNAVAILABLE) from None
    if reply.exit_code:
        message, _, fix = reply.stderr.decode("utf-8", "replace").partition("\n")
        code = "REMOTE_REFUSED" if fix else "PORT_TAKEN"
        raise Failure(code, message, fix=fix or "remit serve --port 7718")
    link, _, remote = reply.stdout.decode().partition("\n")
    lines = [
        link,
        f"It pairs one browser, within {LINK_LIFETIME_S:.0f} seconds. `remit serve --stop` stops the console.",
        *([f"From other machines, with a login: {remote}"] if remote else []),
    ]
    emit({"link": link, "expires_s": LINK_LIFETIME_S, "remote": remote or None}, as_json, lines)
    if opens:
        open_link(home, link)


def open_link(home: Path, link: str) -> None:
    page = write_opening_page(home, link)
    try:
        webbrowser.open(page.as_uri())
        time.sleep(OPENING_S)
    finally:
        page.unlink(missing_ok=True)
