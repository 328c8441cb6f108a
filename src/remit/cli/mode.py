"""`remit mode`: observe, warn or enforce."""

from pathlib import Path
from typing import Literal

import click
import msgspec

from remit.cli.output import emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.people import only_people
from remit.core.decision import Mode
from remit.core.text import shown
from remit.gate.governing import set_mode
from remit.provenance.stats import Refusable, would_refuse

ABOUT: dict[Mode, str] = {
    "observe": "everything passes and is recorded",
    "warn": "everything passes; the agent is told what enforce would refuse",
    "enforce": "changes need an intent, and stay in its scope",
}


@click.command()
@click.argument("mode", type=click.Choice([*ABOUT, "suggest"]), required=False)
@repo_option
@json_option
@reports_failures
def mode(mode: Mode | Literal["suggest"] | None, repo: Path, as_json: bool) -> None:
    """Show the mode, or set it; `suggest` tells what enforce would have refused so far."""
    gate = governed_gate(repo)
    if mode == "suggest":
        found = would_refuse(gate.workspace.log_folder)
        step = next_step(found)
        data = {**msgspec.to_builtins(found), "mode": gate.governing.mode, "next": step}
        emit(data, as_json, "\n".join((*in_words(found), step)))
        return
    if mode is not None:
        only_people("setting the mode")
        set_mode(gate.workspace, mode)
    now = gate.governing.mode
    emit({"mode": now}, as_json, f"{now}: {ABOUT[now]}")


def in_words(found: Refusable) -> list[str]:
    """What enforce would have said, for people."""
    lines = [f"{found.calls} calls were let through without enforcing; enforce would have refused {found.refused}"]
    if found.asked:
        lines.append(f"and asked a person about {found.asked}")
    lines += [f"  {count:>5}  {rule}" for rule, count in found.by_rule.items()]
    lines += [f"         {shown(example, 160)}" for example in found.examples]
    return lines


def next_step(found: Refusable) -> str:
    """What to do about it."""
    if not found.calls:
        return "Nothing was recorded in observe or warn yet: work for a while, then ask again."
    if not found.by_rule:
        return "Nothing would have been refused: `remit mode enforce`."
    if next(iter(found.by_rule)) == "active_intent":
        session = next(iter(found.sessions), "SESSION")
        return f"Most of it had no intent: `remit intent new NAME --from-session {session}` makes one for that work."
    return "Widen scopes where the work was right (`remit intent edit ID --add-scope GLOB`), then `remit mode warn`."
