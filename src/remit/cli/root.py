"""The tree of commands, imported on demand."""

import os
import sys
from importlib import import_module
from typing import NoReturn

import click
from click.exceptions import NoSuchCommand

from remit.cli.screen import forced_colour
from remit.extensions import PARTS, Part, find_extensions, find_part, is_installed, load_extension
from remit.servers.environ_checks import NoHome

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "init": ("agents.init", "govern this repository, and wire the agents that are here"),
        "adopt": ("agents.adopt", "let the rules hold that this clone carries, or decline them"),
        "start": ("intent.start", "say what is to be done: the next session proposes an intent for it"),
        "demo": ("demo", "the whole story in a throw-away repository"),
        "completion": ("completion", "completion for bash, zsh or fish"),
    },
    "Every day": {
        "status": ("status", "what is governed here, and what happened lately"),
        "log": ("records.log", "the newest records"),
        "session": ("records.session", "what happened in a session: prompts, calls, verdicts, changes"),
        "approvals": ("policy.approvals", "answer what agents may not do without a person"),
        "mode": ("policy.mode", "observe, warn or enforce"),
        "serve": ("serve", "open the console: what agents do, what waits for you, why code is there"),
        "exec": ("exec:exec_", "run a command contained, and keep what its intent may change"),
    },
    "Intents": {
        "intent": ("intent.intent", "what agents may do: make, list, select, complete"),
        "todo": ("intent.memory:todo", "what each session still has to do"),
        "lesson": ("intent.memory:lesson", "what the next session should know"),
        "map": ("intent.intent:map_", "which intent changed which parts of which files: .orchestration/intent_map.md"),
    },
    "Several agents": {},
    "Explain": {
        "blame": ("blame.blame", "who wrote each line, under which intent"),
        "why": ("blame.why", "why lines are there: the intent, what was asked and said, the edit"),
        "show": ("records.show", "one record, whole"),
        "search": ("records.log:search", "the newest records that say these words"),
        "stats": ("blame.stats", "how much agents wrote, and what the ledger counts"),
        "verify": ("ledger.verify", "whether the ledger is whole, and what agents changed was allowed"),
    },
    "Recover": {
        "patch": ("patch", "hand a change over: exactly, merged, or refused with who changed the lines"),
        "restore": ("restore", "go back to how the files were before something was done"),
        "doctor": ("agents.doctor", "what is wired, what works, and what to do about the rest"),
    },
    "Administer": {
        "policy": ("policy.policy", "ask the rules, without doing anything"),
        "rules": ("policy.rules", "what a checkout would loosen, and your yes to it"),
        "trust": ("policy.trust", "let the commands run that a repository brings: hooks, criteria"),
        "data": ("policy.data", "which runtime data commands may change: databases, uploads"),
        "pin": ("pin", "a PIN for where Remit cannot tell you from an agent"),
        "ledger": ("ledger.ledger", "check the ledger, sign it, take in another's"),
        "notes": ("ledger.attribution:notes", "attribution as git notes, which travel with the commits"),
        "trailers": (
            "ledger.attribution:trailers",
            "say in a commit message that an agent helped, or see that none says so",
        ),
        "import": ("ledger.ledger:import_", "take in what other tools recorded, as evidence"),
        "export": ("records.log:export", "records in another form"),
        "uninstall": ("agents.uninstall", "take everything out again"),
    },
    "For programs": {
        "schema": ("for_programs:schema", "the JSON Schema of what Remit reads and writes"),
        "mcp": ("for_programs:mcp", "serve the agent-facing tools on stdio (agents start this)"),
        "daemon": ("for_programs:daemon", "answer hook calls from a warm process (the hook client starts it)"),
    },
}
"""The sections of `remit --help`: commands, each with its module below `remit.cli` (and `:attribute` unless named like
the module), and the help line.

A module is imported when its command is called: `remit --help` needs only the help lines. Other packages add to the
sections: `remit.extensions`.
"""
REMOVED = {
    "ledger proof": "`remit ledger push` shares the log, and `remit ledger verify` holds it against signed heads",
    "ledger consistency": "`remit ledger verify` holds the log against every signed head",
    "ledger check-proof": "`remit ledger fetch` takes in a shared log, and `remit ledger verify` checks it",
    "ledger import": "`remit import FILE`",
    "plan fork": "`remit plan start ID…` starts anew what did not land; `--rivals NAME,NAME` lets agents compete",
    "notes audit": "`remit verify [RANGE]` compares notes with the lines of their commits",
}
"""What to use in place of removed commands."""
COMMANDS = {name: entry for commands in SECTIONS.values() for name, entry in commands.items()}


def list_sections() -> dict[str, dict[str, tuple[str, str]]]:
    sections = {title: dict(commands) for title, commands in SECTIONS.items()}
    for extension in find_extensions():
        for title, commands in extension.commands.items():
            sections[title] |= commands
    return sections


class MissingCommand(click.Command):
    """A command of a package that is not installed: whatever its words, it says how to install the package."""

    def __init__(self, name: str, part: Part) -> None:
        super().__init__(name, help=f"Not installed: the extra `{part.extra}` brings it.", add_help_option=False)
        self.part = part
        self.allow_extra_args = self.ignore_unknown_options = True

    def invoke(self, ctx: click.Context) -> NoReturn:
        from remit.cli.output import Failure, fail  # not needed by other commands
        from remit.core.extras import DISTRIBUTIONS, describe_installation

        extra = self.part.extra
        message = f"`remit {self.name}` needs the extra `{extra}`: the package {DISTRIBUTIONS[extra]} is not installed"
        fail(Failure(self.part.code, message, fix=describe_installation(extra)), "--json" in ctx.args)


class LazyGroup(click.Group):
    """A group that imports a command when called; help lines come from the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*(name for commands in list_sections().values() for name in commands), "hook"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "hook":
            return click.Command("hook", help="Answer an agent's hook call (agents start this).")
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name][0].partition(":")
            return getattr(import_module(f"remit.cli.{module}"), name or module.rpartition(".")[2])
        part = find_part(cmd_name)
        if part is None:
            return None
        if not is_installed(part):
            return MissingCommand(cmd_name, part)
        entries = {name: entry for group in load_extension(part).commands.values() for name, entry in group.items()}
        module, _, name = entries[cmd_name][0].partition(":")
        return getattr(import_module(module), name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            raise NoSuchCommand(error.command_name, possibilities=self.list_commands(ctx), ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. With `--json`, usage errors are printed as JSON too. Raises UsageError."""
        words = sys.argv[1:]
        ctx.color = forced_colour("auto", os.environ)
        try:
            return super().invoke(ctx)
        except click.UsageError as raised:
            error = raised
            if raised.ctx is None:
                # click's parser does not name the command of an option without a value: the words do
                context = ctx
                for word in words:
                    group = context.command
                    command = group.get_command(context, word) if isinstance(group, click.Group) else None
                    if command is None:
                        break
                    context = click.Context(command, parent=context, info_name=word)
                error = click.UsageError(raised.format_message(), context)
            if isinstance(raised, NoSuchCommand) and raised.ctx is not None:
                name = f"{raised.ctx.command_path} {raised.command_name}".partition(" ")[2]
                if name in REMOVED:
                    error = click.UsageError(f"`remit {name}` was removed; instead: {REMOVED[name]}", raised.ctx)
            if "--json" in words[: words.index("--") if "--" in words else None]:
                from remit.cli.output import encode_json, say  # not needed by valid commands

                fix = f"read `{error.ctx.command_path if error.ctx else 'remit'} --help`"
                answer = {"code": "USAGE", "message": error.format_message(), "target": "", "fix": fix}
                say(encode_json({"schema_version": 1, "error": answer}))
            raise error from None
        except NoHome as error:
            from remit.cli.output import Failure, fail

            fail(Failure("NO_HOME", str(error)), "--json" in words)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = {title: commands for title, commands in list_sections().items() if commands}
        missing = [part for part in PARTS if not is_installed(part)]
        names = [name for commands in sections.values() for name in commands]
        width = max(map(len, [*names, *(name for part in missing for name in part.commands)]))
        for title, commands in sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), about) for name, (_, about) in commands.items()])
        if missing:
            with formatter.section("Not installed"):
                formatter.write_dl(
                    [(name.ljust(width), f"extra `{part.extra}`") for part in missing for name in part.commands]
                )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="remit", message="%(prog)s %(version)s")
def remit() -> None:
    """A coding agent acts within its remit, and every line it leaves can say why it is there.

    Start in a repository with `remit init`, or see it all work first with `remit demo`.
    """
