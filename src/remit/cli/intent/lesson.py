"""`remit lesson`: what the next session should know."""

from pathlib import Path

import click
import msgspec

from remit.cli.completion import complete_intents
from remit.cli.output import REFUSED, Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.person_only import PERSON, is_below_agent
from remit.core.secrets.redaction import redact
from remit.gate.gate import Gate
from remit.gate.intents.lessons import LessonsWriter, find_lessons_path, read_lessons
from remit.workspace.agents.shared_brain import KINDS, BrainEntry, Kind, to_plain_line


@click.command()
@click.argument("text", required=False)
@click.option("--kind", type=click.Choice(KINDS), default="lesson", show_default=True)
@click.option("--problem", default="", help="What went wrong.")
@click.option("--resolution", default="", help="What helped.")
@click.option("--pattern", default="", help="The rule behind it.")
@click.option("--path", "paths", multiple=True, metavar="GLOB", help="Files it concerns; repeatable.")
@click.option(
    "--intent", "intent_id", metavar="ID", help="The intent it was learned under.", shell_complete=complete_intents
)
@repo_option
@json_option
@reports_failures
def lesson(
    text: str | None,
    kind: Kind,
    problem: str,
    resolution: str,
    pattern: str,
    paths: tuple[str, ...],
    intent_id: str | None,
    repo: Path,
    as_json: bool,
) -> None:
    """Write down what the next session should know; without TEXT, list what is known.

    Run by an agent in its shell, the agent's hook has written it already; this tells whether it stands there.
    """
    gate = governed_gate(repo)
    if text is None:
        found = read_lessons(gate.workspace)
        lines = [f"{e.date or '-':<10}  {e.kind:<10}  {e.summary}" for e in found]
        emit(msgspec.to_builtins(found), as_json, "\n".join(lines) or "nothing is written down yet")
        return
    wanted = BrainEntry(kind, text, "", "", intent_id, paths, problem, resolution, pattern)
    made = find_written_entry(gate, text) if is_below_agent() else write_entry(gate, wanted)
    emit(
        msgspec.to_builtins(made), as_json, f"written down in {find_lessons_path(gate.workspace).name}: {made.summary}"
    )


def write_entry(gate: Gate, wanted: BrainEntry) -> BrainEntry:
    """Write it for the person who runs this."""
    return LessonsWriter(gate.workspace, gate.state, gate.recorder).record_lesson(None, PERSON, wanted)


def find_written_entry(gate: Gate, text: str) -> BrainEntry:
    """The newest entry with that text, which the agent's hook wrote. Raises Failure where it did not."""
    wanted = to_plain_line(redact(text))
    found = next((e for e in reversed(read_lessons(gate.workspace)) if e.lesson == wanted), None)
    if found is None:
        raise Failure(
            "NOT_WRITTEN",
            "the lesson was not written: no hook of Remit's saw this command",
            fix="call the tool record_lesson, run `remit lesson 'TEXT'` by itself, or ask for a `remit doctor`",
            exit_code=REFUSED,
        )
    return found
