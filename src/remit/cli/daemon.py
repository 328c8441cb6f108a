"""`remit daemon`: answer hook calls from a warm process. The hook client starts it."""

from importlib.metadata import version
from pathlib import Path

import click

from remit.servers.daemon import IDLE_S, Daemon
from remit.servers.environment import enter
from remit.wiring.client import NoClient, client_path, install_client, is_current


@click.command()
@click.option("--idle-s", default=IDLE_S, show_default=True, help="Leave after this many seconds without a call.")
def daemon(idle_s: float) -> None:
    """Answer hook calls from a warm process until nobody calls any more."""
    home = enter().home
    refresh_client(home)
    raise SystemExit(Daemon(home, version("remit"), idle_s).serve())


def refresh_client(home: Path) -> None:
    """After an upgrade, bring the installed client to this version: else it would ask a fresh process for ever."""
    try:
        if client_path(home).exists() and not is_current(home):
            install_client(home)
    except (OSError, NoClient) as error:
        click.echo(f"remit: the hook client could not be brought up to date: {error}", err=True)
