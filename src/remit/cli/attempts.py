"""What an agent tried with a command that is for people: refused, and recorded."""

from pathlib import Path

import click

from remit.core.record import Body, CallPart
from remit.gate.effects import as_document
from remit.gate.gate import Gate
from remit.gate.intent_refusals import refusal
from remit.servers.environment import enter


def attempted(what: str, why: str) -> None:
    """Record that `what` was tried where no person did it. Nothing where Remit does not govern."""
    context = click.get_current_context(silent=True)
    command = context.command_path if context else "remit"
    repo = context.params.get("repo") if context else None
    gate = Gate.open(repo if isinstance(repo, Path) else Path.cwd(), enter())
    if not gate.governed:
        return
    refused = refusal("COMMAND_BLOCKED", f"{what} is for a person at a terminal: {why}.", command, None)
    body = Body(
        event="denied",
        intent_id=None,
        session_id=None,
        call=CallPart(name=command, effect="execute", command=command),
        violation=as_document(refused.violation),
    )
    gate.recorder.append_or_spool([gate.recorder.record(body)])
