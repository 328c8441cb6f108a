"""`remit run`: Remit's own agent, in a terminal, in plain lines, or as JSON events.

Modules of a run are imported when the run is opened: on a terminal the prompt stands before the import.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

import click

from remit.cli.completion import INTENT
from remit.cli.output import INTERRUPT, Failure, repo_option, reports_failures, say
from remit.core.clock import Clock
from remit.workspace.system_clock import SYSTEM_CLOCK
from remit_agent.faces.terminal.arguments import NEWEST_RUN, RunArguments

PROVIDERS = ("anthropic", "openai", "openai-compatible", "google")  # those with a key to keep
EXPORT_FORMS = ("md", "jsonl", "roo")


@click.command("run")
@click.argument("task", required=False)
@click.option(
    "--intent", "intent_id", type=INTENT, metavar="ID", help="Select this intent first; else the agent selects one."
)
@click.option("--model", metavar="PROVIDER:NAME", help="The model; else REMIT_MODEL, else `[run] model`.")
@click.option("--mode", "mode", metavar="SLUG", help="The mode to begin in: code, architect, ask, debug, …")
@click.option(
    "--image", "images", multiple=True, type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Show it."
)
@click.option(
    "--yes-within-scope", is_flag=True, help="Say yes to risky file changes that only the risk threshold asks about."
)
@click.option("--without-floor", is_flag=True, help="Let the mode alone decide: no containment, no questions outside.")
@click.option("--max-turns", type=click.IntRange(1), help="Stop after so many turns of the model.")
@click.option("--max-cost", type=click.FloatRange(0, min_open=True), metavar="USD", help="Stop when it has cost that.")
@click.option("--plain", is_flag=True, help="Plain lines, also on a terminal.")
@click.option("--json", "as_json", is_flag=True, help="One JSON event a line.")
@click.option(
    "--input",
    "input_form",
    type=click.Choice(("json",)),
    help="Take words from standard input, one JSON object a line.",
)
@click.option("--resume", metavar="[RUN]", is_flag=False, flag_value=NEWEST_RUN, help="Go on with a run; the newest.")
@click.option("--fork", metavar="RUN[:N]", help="Go on with a copy of a run, up to its line N.")
@click.option("--list", "list_runs", is_flag=True, help="List the runs of this repository.")
@click.option("--export", "exported", metavar="RUN", help="Print a run, without secrets.")
@click.option("--as", "form", type=click.Choice(EXPORT_FORMS), default="md", show_default=True)
@click.option("--print-prompt", is_flag=True, help="Print what the model would be told, and ask no model.")
@click.option("--set-key", "provider", type=click.Choice(PROVIDERS), help="Store a provider's key in the keyring.")
@repo_option
@reports_failures
def run(
    task: str | None,
    intent_id: str | None,
    model: str | None,
    mode: str | None,
    images: tuple[Path, ...],
    yes_within_scope: bool,
    without_floor: bool,
    max_turns: int | None,
    max_cost: float | None,
    plain: bool,
    as_json: bool,
    input_form: str | None,
    resume: str | None,
    fork: str | None,
    list_runs: bool,
    exported: str | None,
    form: str,
    print_prompt: bool,
    provider: str | None,
    repo: Path,
) -> None:
    """Run Remit's own coding agent on TASK; `-` reads it from standard input.

    On a terminal without a TASK it is a conversation, and with --input one for a program. Its file changes and
    commands pass the same gate as any agent's. The exit code is 0 when the task is completed or answered, 1 when it was
    stopped or is stuck, 4 without a model.
    """
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not as_json and input_form is None
    arguments = RunArguments(
        repo,
        task,
        intent_id,
        model,
        mode,
        images,
        yes_within_scope,
        max_turns,
        max_cost,
        as_json,
        input_form == "json",
        resume,
        fork,
        is_terminal,
        without_floor,
    )
    if without_floor:
        from remit.cli.person_only import require_person  # the tables of all agents
        from remit.core.acts import Act

        require_person(Act.RUN_WITHOUT_FLOOR)
    is_plain = plain or os.environ.get("TERM", "dumb") == "dumb" or bool(os.environ.get("NO_COLOR"))
    is_about_runs = provider or list_runs or exported or print_prompt
    try:
        if is_terminal and not is_plain and not is_about_runs:
            sys.exit(run_screen(arguments))
        from remit_agent.faces.terminal import runs  # the gate and all of the host: slow to import

        if provider is not None:
            runs.keep_key(provider)
        elif list_runs:
            runs.print_runs(repo, as_json=as_json)
        elif exported is not None:
            runs.print_export(repo, exported, form)
        elif print_prompt:
            runs.print_prompt(arguments)
        else:
            sys.exit(runs.run_lines(arguments))
    except KeyboardInterrupt:
        sys.exit(INTERRUPT)


def run_screen(arguments: RunArguments, clock: Clock = SYSTEM_CLOCK) -> int:
    import asyncio

    from remit_agent.models.extra import ExtraMissing, name_missing_extra

    try:
        with name_missing_extra():
            from remit_agent.faces.terminal.screen import AgentScreen
    except ExtraMissing as error:
        raise Failure.from_error(error, "NO_EXTRA") from error

    async def converse(screen: AgentScreen) -> None:
        # In a thread, so that the prompt takes keys meanwhile.
        await asyncio.to_thread(import_module, "remit_agent.faces.terminal.conversation")
        from remit_agent.faces.terminal.conversation import converse_on_screen

        await converse_on_screen(screen, arguments)

    screen = AgentScreen(clock)
    asyncio.run(screen.run(converse))
    if screen.farewell:
        say(screen.farewell, err=True)
    return 0
