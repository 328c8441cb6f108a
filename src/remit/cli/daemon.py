"""`remit daemon`: answer hook calls from a warm process. The hook client starts it."""

from importlib.metadata import version
from pathlib import Path
from signal import SIGTERM, signal

import click
from msgspec.structs import replace

from remit.servers.daemon import IDLE_TIMEOUT_S, SWEEP_INTERVAL_S, Daemon
from remit.servers.environment import read_environment
from remit.wiring.hook_client import NoClient, client_path, hash_client, install_client, is_client_current
from remit.wiring.manifest import ManifestError, read_manifest, write_manifest


@click.command()
@click.option(
    "--idle-s", default=IDLE_TIMEOUT_S, show_default=True, help="Leave after this many seconds without a call."
)
@click.option(
    "--sweep-s", default=SWEEP_INTERVAL_S, show_default=True, help="Look this often for calls that never came back."
)
def daemon(idle_s: float, sweep_s: float) -> None:
    """Answer hook calls from a warm process until nobody calls any more."""
    home = read_environment().home
    refresh_client(home)
    running = Daemon(home, version("remit"), idle_s, sweep_s)

    def leave(_number: int, _frame: object) -> None:
        running.stopping.set()

    signal(SIGTERM, leave)
    raise SystemExit(running.serve())


def refresh_client(home: Path) -> None:
    """Update the installed client after an upgrade: an old client would keep asking fresh processes."""
    try:
        if client_path(home).exists() and not is_client_current(home):
            install_client(home)
            record_client_hash(home)
    except (OSError, NoClient, ManifestError) as error:
        click.echo(f"remit: the hook client could not be brought up to date: {error}", err=True)


def record_client_hash(home: Path) -> None:
    """Record the client's SHA-256, so that a replaced client is noticed. Raises OSError, ManifestError."""
    manifest = read_manifest(home)
    if manifest.files:
        write_manifest(home, replace(manifest, client=hash_client(home)))
