"""`remit daemon`: answer hook calls from a warm process. The hook client starts it."""

from importlib.metadata import version
from pathlib import Path

import click

from remit.servers.daemon import IDLE_S, Daemon
from remit.servers.environment import enter


@click.command()
@click.option("--idle-s", default=IDLE_S, show_default=True, help="Leave after this many seconds without a call.")
def daemon(idle_s: float) -> None:
    """Answer hook calls from a warm process until nobody calls any more."""
    enter()
    raise SystemExit(Daemon(Path.home(), version("remit"), idle_s).serve())
