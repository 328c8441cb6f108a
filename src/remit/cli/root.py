"""The tree of commands, imported on demand."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click
from click.exceptions import NoSuchCommand

from remit.cli.terminal.colour import forced_colour
from remit.servers.environ_checks import NoHome

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("agents.init", "govern this repository, and wire the agents that are here"),
    "intent": ("intent.intent", "what agents may do: make, list, select, complete"),
    "mode": ("policy.mode", "observe, warn or enforce"),
    "status": ("status", "what is governed here, and what happened lately"),
    "log": ("records.log", "the newest records"),
    "search": ("records.log:search", "the newest records that say these words"),
    "show": ("records.show", "one record, whole"),
    "blame": ("blame.blame", "who wrote each line, under which intent"),
    "why": ("blame.why", "why lines are there: the intent, what was asked and said, the edit"),
    "session": ("records.session", "what happened in a session: prompts, calls, verdicts, changes"),
    "map": ("intent.intent_map", "which intent changed which parts of which files: .orchestration/intent_map.md"),
    "stats": ("blame.stats", "how much agents wrote, and what the ledger counts"),
    "verify": ("ledger.verify", "whether the ledger is whole, and what agents changed was allowed"),
    "lesson": ("intent.lesson", "what the next session should know"),
    "todo": ("intent.todo", "what each session still has to do"),
    "restore": ("restore", "go back to how the files were before something was done"),
    "policy": ("policy.policy", "ask the rules, without doing anything"),
    "approvals": ("policy.approvals", "answer what agents may not do without a person"),
    "exec": ("exec:exec_", "run a command contained, and keep what its intent may change"),
    "trust": ("policy.trust", "let the commands run that a repository brings: hooks, criteria"),
    "doctor": ("agents.doctor", "what is wired, what works, and what to do about the rest"),
    "uninstall": ("agents.uninstall", "take everything out again"),
    "ledger": ("ledger.ledger", "check the ledger, sign it, take in another's"),
    "notes": ("ledger.notes", "attribution as git notes, which travel with the commits"),
    "trailers": ("ledger.trailers", "say in a commit message that an agent helped, or see that none says so"),
    "import": ("ledger.import_", "take in what other tools recorded, as evidence"),
    "export": ("records.export", "records in another form"),
    "schema": ("schema", "the JSON Schema of what Remit reads and writes"),
    "mcp": ("mcp", "serve the agent-facing tools on stdio (agents start this)"),
    "daemon": ("daemon", "answer hook calls from a warm process (the hook client starts it)"),
    "completion": ("completion", "completion for bash, zsh or fish"),
    "demo": ("demo", "the whole story in a throw-away repository"),
}
"""By name: the module below `remit.cli`, with `:attribute` unless named like the module; and the help line.

A module is imported when its command is called: `remit --help` needs only the help lines.
"""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("init", "demo", "completion"),
    "Every day": ("status", "log", "session", "approvals", "mode", "exec"),
    "Intents": ("intent", "todo", "lesson", "map"),
    "Explain": ("blame", "why", "show", "search", "stats", "verify"),
    "Recover": ("restore", "doctor"),
    "Administer": ("policy", "trust", "ledger", "notes", "trailers", "import", "export", "uninstall"),
    "For programs": ("schema", "mcp", "daemon"),
}
"""The sections of `remit --help`."""
MAX_NAME_CHARS = max(map(len, COMMANDS))


def print_usage_error(error: click.UsageError) -> None:
    from remit.cli.output import encode_json  # not needed by valid commands

    command = error.ctx.command_path if error.ctx else "remit"
    answer = {"code": "USAGE", "message": error.format_message(), "target": "", "fix": f"read `{command} --help`"}
    click.echo(encode_json({"schema_version": 1, "error": answer}))


def find_context(context: click.Context, words: Sequence[str]) -> click.Context:
    """Return the context of the command that the words name, as deep as they match."""
    for word in words:
        command = context.command.get_command(context, word) if isinstance(context.command, click.Group) else None
        if command is None:
            break
        context = click.Context(command, parent=context, info_name=word)
    return context


class LazyGroup(click.Group):
    """A group that imports a command when called; help lines come from the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, "hook"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "hook":
            return click.Command("hook", help="Answer an agent's hook call (agents start this).")
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"remit.cli.{module}"), name or module.rpartition(".")[2])
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word. Raises NoSuchCommand with similar names."""
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            raise NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. With `--json`, usage errors are printed as JSON too. Raises UsageError."""
        words = sys.argv[1:]
        ctx.color = forced_colour("auto", os.environ)
        try:
            return super().invoke(ctx)
        except click.UsageError as raised:
            # click's parser does not name the command of an option without a value
            error = raised if raised.ctx else click.UsageError(raised.format_message(), find_context(ctx, words))
            if "--json" in words[: words.index("--") if "--" in words else None]:
                print_usage_error(error)
            raise error from None
        except NoHome as error:
            from remit.cli.output import Failure, fail

            fail(Failure("NO_HOME", str(error)), "--json" in words)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(MAX_NAME_CHARS), COMMANDS[name][1]) for name in names])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="remit", message="%(prog)s %(version)s")
def remit() -> None:
    """A coding agent acts within its remit, and every line it leaves can say why it is there.

    Start in a repository with `remit init`, or see it all work first with `remit demo`.
    """
