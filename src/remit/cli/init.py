"""`remit init`: start governing this repository."""

import shlex
import sys
from pathlib import Path

import click
import msgspec

from remit.adapters import settings
from remit.cli.output import document, emit, json_option, repo_option, reports_failures
from remit.cli.people import only_people
from remit.core.decision import Mode
from remit.gate.gate import Gate
from remit.gate.governing import govern, governing, set_mode
from remit.servers.environment import enter
from remit.workspace.place import Workspace

NEXT = """\
{root} is governed; mode: {mode}.

Next:
  1. Merge this into ~/.claude/settings.json (or .claude/settings.local.json in the repository):
{settings}
  2. Give Claude Code the tools:      claude mcp add --scope user remit -- {remit} mcp
  3. Say what an agent may do:        remit intent new "…" --scope 'src/**'
  4. When you have seen what it does: remit mode enforce
"""


@click.command()
@click.option("--mode", type=click.Choice(["observe", "warn", "enforce"]), default=None, help="Default: observe.")
@repo_option
@json_option
@reports_failures
def init(mode: Mode | None, repo: Path, as_json: bool) -> None:
    """Start governing this repository: `.orchestration/`, Remit's state, and what to put into the agent's settings."""
    only_people("`remit init`")
    gate = Gate.open(repo, enter())
    workspace = gate.found or Workspace(repo.resolve(), None, None)
    fresh = not workspace.config_path.exists()
    govern(workspace)
    if mode is not None or fresh:
        set_mode(workspace, mode or "observe")
    now = governing(workspace).mode
    wanted = settings("claude-code", client())
    text = NEXT.format(
        root=workspace.root,
        mode=now,
        remit=own_command(),
        settings=indented(msgspec.json.format(document(wanted), indent=2)),
    )
    emit({"root": str(workspace.root), "mode": now, "settings": {"claude-code": wanted}}, as_json, text)


def indented(text: str) -> str:
    """`text`, set in under a list item."""
    return "\n".join(f"     {line}" for line in text.splitlines())


def own_command() -> str:
    """The `remit` of this installation, as a shell word."""
    return shlex.quote(str(Path(sys.executable).with_name("remit")))


def client() -> str:
    """The hook client of this installation, as shell words."""
    import remit_hook

    path = Path(remit_hook.__file__).with_name("__main__.py")
    return f"{shlex.quote(sys.executable)} -I -S -E {shlex.quote(str(path))}"
