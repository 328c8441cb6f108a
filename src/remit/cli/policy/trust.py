"""`remit trust`: a person's approval of the commands that a repository brings."""

from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from remit.cli.output import Failure, command_options, emit, governed_gate, say
from remit.cli.person_only import require_terminal
from remit.cli.screen import DIFF_COLOURS
from remit.core.acts import Act
from remit.core.config import MAX_MCP_BYTES, MCP_FILE, TrustItem, make_mcp_item, parse_mcp_servers
from remit.core.record import format_utc
from remit.core.untrusted_input import sanitise_full_line, sanitise_line
from remit.gate.gate import Gate
from remit.servers.environment import read_environment
from remit.workspace.place import config
from remit.workspace.safe_files import read_regular_file


@click.command()
@click.option("--show", is_flag=True, help="Only show what would run, and what of it is trusted.")
@click.option("--list", "list_", is_flag=True, help="List the repositories that are trusted on this machine.")
@click.option("--revoke", is_flag=True, help="Trust nothing of this repository any more.")
@command_options
def trust(show: bool, list_: bool, revoke: bool, repo: Path, as_json: bool) -> None:
    """Let the commands run that this repository brings: its hooks, and the commands of acceptance criteria.

    You are shown them and asked. The yes is for exactly these, on this machine; whatever is changed or added later is
    asked about again. Without it they do not run.
    """
    if show + list_ + revoke > 1:
        raise Failure("USAGE", "--show, --list and --revoke cannot be combined")
    if list_:
        trusts = list(config.list_trusts(read_environment().home))
        rows = ((t.at, len(t.commands), sanitise_line(t.root), t.repository[:12]) for t in trusts)
        lines = [f"{at}  {count:>3} commands  {root}  ({name})" for at, count, root, name in rows]
        emit(trusts, as_json, lines or "nothing")
        return
    gate = governed_gate(repo)
    if revoke:
        require_terminal(Act.DISTRUST)
        revoked = config.forget_trust(gate.environment.home, gate.recorder.repository)
        text = "nothing of it is trusted any more" if revoked else "nothing of it was trusted"
        emit({"revoked": revoked}, as_json, text)
        return
    before = config.read_trust(gate.environment.home, gate.recorder.repository)
    old, new = before.commands if before else (), brought_commands(gate)
    trusted, current = {item.digest for item in old}, {item.digest for item in new}
    if show or as_json:
        commands = [{**msgspec.to_builtins(item), "trusted": item.digest in trusted} for item in new]
        data = {"commands": commands, "no_longer": [item for item in old if item.digest not in current]}
        emit(data, as_json, trust_lines(gate, old, new))
        return
    require_terminal(Act.TRUST)
    say("\n".join(trust_lines(gate, old, new)))
    if current == trusted:
        return
    if not click.confirm("Let all of these run on this machine?", default=False):
        raise Failure("NOT_TRUSTED", "nothing was changed", fix="`remit trust` asks again")
    if brought_commands(gate) != new:
        message = "the commands changed while you read them; nothing is trusted"
        raise Failure("CHANGED", message, fix="run `remit trust` again")
    now = format_utc(datetime.now(UTC), "seconds")
    config.write_trust(
        gate.environment.home, config.Trust(gate.recorder.repository, str(gate.workspace.root), now, new)
    )
    say(f"trusted: {len(new)} commands")


def brought_commands(gate: Gate) -> tuple[TrustItem, ...]:
    rules = gate.rules
    if rules.config_error:
        raise Failure("CONFIG_INVALID", rules.config_error, fix="repair it first: what it names cannot be shown")
    if rules.document is not None and rules.document.errors:
        raise Failure("INTENTS_FILE_INVALID", "a file of intents has errors", fix="see `remit intent lint`")
    try:
        content = read_regular_file(gate.workspace.root / MCP_FILE, MAX_MCP_BYTES)
    except OSError:
        content = b""
    servers = (make_mcp_item(content),) if parse_mcp_servers(content) else ()
    return (*rules.repository_commands, *servers)


def trust_lines(gate: Gate, old: tuple[TrustItem, ...], new: tuple[TrustItem, ...]) -> list[str]:
    if not new and not old:
        return ["This repository brings no commands."]
    trusted, current = {item.digest for item in old}, {item.digest for item in new}
    lines = [command_line("-", item) for item in old if item.digest not in current]
    lines += [command_line(" " if item.digest in trusted else "+", item) for item in new]
    if any(item.kind == "hook" for item in new):
        # The approval covers these files byte for byte, and no file elsewhere.
        folder = gate.workspace.folder / config.HOOKS_FOLDER
        names = [path.relative_to(folder.parent).as_posix() for path in config.list_hook_files(folder)]
        lines += [f"  beside them, covered to the byte: {sanitise_line(', '.join(names), 2_000)}"] if names else []
    waiting = sum(item.digest not in trusted for item in new)
    state = f"{waiting} of {len(new)} are not trusted, and do not run" if waiting else "all of them are trusted"
    return [*lines, state]


def command_line(sign: str, command: TrustItem) -> str:
    """Return one command in full, because people must see all that they approve."""
    line = f"{sign} {command.kind:<6} {sanitise_line(command.name, 100)}  {sanitise_full_line(command.text)}"
    return click.style(line, fg=DIFF_COLOURS.get(sign))
