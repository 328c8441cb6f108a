"""`remit mcp`: the agent-facing tools on stdio."""

from importlib.metadata import version
from pathlib import Path

import click

from remit.servers.environment import read_environment


@click.command()
@click.option(
    "--repo", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="Work in this repository."
)
def mcp(repo: Path) -> None:
    """Serve the agent-facing tools to an MCP client on standard input and output."""
    from remit.servers.mcp import serve_stdio

    serve_stdio(repo.resolve(), read_environment(), version("remit"))
