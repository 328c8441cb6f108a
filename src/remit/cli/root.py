"""The tree of commands, loaded when they are called."""

import os
import sys
from collections.abc import Callable, Sequence

import click
from click.exceptions import NoSuchCommand

from remit.cli.colour import forced_colour
from remit.servers.environ_checks import NoHome


def intent() -> click.Command:
    """`remit intent`."""
    from remit.cli.intent.intent import intent

    return intent


def mode() -> click.Command:
    """`remit mode`."""
    from remit.cli.policy.mode import mode

    return mode


def log() -> click.Command:
    """`remit log`."""
    from remit.cli.records.log import log

    return log


def search() -> click.Command:
    """`remit search`."""
    from remit.cli.records.log import search

    return search


def export() -> click.Command:
    """`remit export`."""
    from remit.cli.records.export import export

    return export


def schema() -> click.Command:
    """`remit schema`."""
    from remit.cli.schema import schema

    return schema


def show() -> click.Command:
    """`remit show`."""
    from remit.cli.records.show import show

    return show


def blame() -> click.Command:
    """`remit blame`."""
    from remit.cli.blame.blame import blame

    return blame


def ledger() -> click.Command:
    """`remit ledger`."""
    from remit.cli.ledger.ledger import ledger

    return ledger


def init() -> click.Command:
    """`remit init`."""
    from remit.cli.agents.init import init

    return init


def status() -> click.Command:
    """`remit status`."""
    from remit.cli.status import status

    return status


def mcp() -> click.Command:
    """`remit mcp`."""
    from remit.cli.mcp import mcp

    return mcp


def demo() -> click.Command:
    """`remit demo`."""
    from remit.cli.demo import demo

    return demo


def approvals() -> click.Command:
    """`remit approvals`."""
    from remit.cli.policy.approvals import approvals

    return approvals


def daemon() -> click.Command:
    """`remit daemon`."""
    from remit.cli.daemon import daemon

    return daemon


def uninstall() -> click.Command:
    """`remit uninstall`."""
    from remit.cli.agents.uninstall import uninstall

    return uninstall


def doctor() -> click.Command:
    """`remit doctor`."""
    from remit.cli.agents.doctor import doctor

    return doctor


def lesson() -> click.Command:
    """`remit lesson`."""
    from remit.cli.intent.lesson import lesson

    return lesson


def todo() -> click.Command:
    """`remit todo`."""
    from remit.cli.intent.todo import todo

    return todo


def why() -> click.Command:
    """`remit why`."""
    from remit.cli.blame.why import why

    return why


def session() -> click.Command:
    """`remit session`."""
    from remit.cli.records.session import session

    return session


def intent_map() -> click.Command:
    """`remit map`."""
    from remit.cli.intent.intent_map import intent_map

    return intent_map


def exec_() -> click.Command:
    """`remit exec`."""
    from remit.cli.exec import exec_

    return exec_


def trust() -> click.Command:
    """`remit trust`."""
    from remit.cli.policy.trust import trust

    return trust


def completion() -> click.Command:
    """`remit completion`."""
    from remit.cli.completion import completion

    return completion


def policy() -> click.Command:
    """`remit policy`."""
    from remit.cli.policy.policy import policy

    return policy


def stats() -> click.Command:
    """`remit stats`."""
    from remit.cli.blame.stats import stats

    return stats


def notes() -> click.Command:
    """`remit notes`."""
    from remit.cli.ledger.notes import notes

    return notes


def trailers() -> click.Command:
    """`remit trailers`."""
    from remit.cli.ledger.trailers import trailers

    return trailers


def import_() -> click.Command:
    """`remit import`."""
    from remit.cli.ledger.import_ import import_

    return import_


def verify() -> click.Command:
    """`remit verify`."""
    from remit.cli.ledger.verify import verify

    return verify


def restore() -> click.Command:
    """`remit restore`."""
    from remit.cli.restore import restore

    return restore


COMMANDS: dict[str, tuple[str, Callable[[], click.Command]]] = {
    "init": ("govern this repository, and wire the agents that are here", init),
    "intent": ("what agents may do: make, list, select, complete", intent),
    "mode": ("observe, warn or enforce", mode),
    "status": ("what is governed here, and what happened lately", status),
    "log": ("the newest records", log),
    "search": ("the newest records that say these words", search),
    "show": ("one record, whole", show),
    "blame": ("who wrote each line, under which intent", blame),
    "why": ("why lines are there: the intent, what was asked and said, the edit", why),
    "session": ("what happened in a session: prompts, calls, verdicts, changes", session),
    "map": ("which intent changed which parts of which files: .orchestration/intent_map.md", intent_map),
    "stats": ("how much agents wrote, and what the ledger counts", stats),
    "verify": ("whether the ledger is whole, and what agents changed was allowed", verify),
    "lesson": ("what the next session should know", lesson),
    "todo": ("what each session still has to do", todo),
    "restore": ("go back to how the files were before something was done", restore),
    "policy": ("ask the rules, without doing anything", policy),
    "approvals": ("answer what agents may not do without a person", approvals),
    "exec": ("run a command contained, and keep what its intent may change", exec_),
    "trust": ("let the commands run that a repository brings: hooks, criteria", trust),
    "doctor": ("what is wired, what works, and what to do about the rest", doctor),
    "uninstall": ("take everything out again", uninstall),
    "ledger": ("check the ledger, sign it, take in another's", ledger),
    "notes": ("attribution as git notes, which travel with the commits", notes),
    "trailers": ("say in a commit message that an agent helped, or see that none says so", trailers),
    "import": ("take in what other tools recorded, as evidence", import_),
    "export": ("records in another form", export),
    "schema": ("the JSON Schema of what Remit reads and writes", schema),
    "mcp": ("serve the agent-facing tools on stdio (agents start this)", mcp),
    "daemon": ("answer hook calls from a warm process (the hook client starts it)", daemon),
    "completion": ("completion for bash, zsh or fish", completion),
    "demo": ("the whole story in a throw-away repository", demo),
}

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("init", "demo", "completion"),
    "Every day": ("status", "log", "session", "approvals", "mode", "exec"),
    "Intents": ("intent", "todo", "lesson", "map"),
    "Explain": ("blame", "why", "show", "search", "stats", "verify"),
    "Recover": ("restore", "doctor"),
    "Administer": ("policy", "trust", "ledger", "notes", "trailers", "import", "export", "uninstall"),
    "For programs": ("schema", "mcp", "daemon"),
}
"""The commands as `remit --help` shows them."""
MAX_NAME_CHARS = max(map(len, COMMANDS))


def print_usage_error(error: click.UsageError) -> None:
    """What is wrong with the words, as every command's JSON says it."""
    from remit.cli.output import encode_json  # a command that fits needs nothing of it yet

    command = error.ctx.command_path if error.ctx else "remit"
    told = {"code": "USAGE", "message": error.format_message(), "target": "", "fix": f"read `{command} --help`"}
    click.echo(encode_json({"schema_version": 1, "error": told}))


def find_context(context: click.Context, words: Sequence[str]) -> click.Context:
    """The command that the words name, as far as they name one."""
    for word in words:
        command = context.command.get_command(context, word) if isinstance(context.command, click.Group) else None
        if command is None:
            break
        context = click.Context(command, parent=context, info_name=word)
    return context


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called; their help lines stand in the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order in which one meets them."""
        return [*COMMANDS, "hook"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command."""
        if cmd_name == "hook":
            return click.Command("hook", help="Answer an agent's hook call (agents start this).")
        found = COMMANDS.get(cmd_name)
        return found[1]() if found else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names. Raises NoSuchCommand, with those that are spelled almost so."""
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            raise NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Of words that do not fit, who asked for JSON is told in JSON, too. Raises UsageError."""
        asked = sys.argv[1:]
        ctx.color = forced_colour("auto", os.environ)
        try:
            return super().invoke(ctx)
        except click.UsageError as raised:
            # click's parser does not say whose option lacks its value
            error = raised if raised.ctx else click.UsageError(raised.format_message(), find_context(ctx, asked))
            if "--json" in asked[: asked.index("--") if "--" in asked else None]:
                print_usage_error(error)
            raise error from None
        except NoHome as error:
            from remit.cli.output import Failure, fail

            fail(Failure("NO_HOME", str(error)), "--json" in asked)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of `--help` by section, without importing one of them."""
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(MAX_NAME_CHARS), COMMANDS[name][0]) for name in names])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="remit", message="%(prog)s %(version)s")
def remit() -> None:
    """A coding agent acts within its remit, and every line it leaves can say why it is there.

    Start in a repository with `remit init`, or see it all work first with `remit demo`.
    """
