"""What every command shares: where it works, how it answers, and how it fails."""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from shutil import get_terminal_size
from sqlite3 import Error as SqliteError
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

import click
import msgspec
from click.core import ParameterSource

from remit.cli.colour import forced_colour
from remit.cli.failure import FINDINGS as FINDINGS
from remit.cli.failure import INTEGRITY as INTEGRITY
from remit.cli.failure import REFUSED, UNAVAILABLE, Failure
from remit.cli.failure import USAGE as USAGE
from remit.cli.terminal.screen import Screen, open_screen
from remit.core.display_text import escape_json, sanitise_text
from remit.gate.context import WorkspaceContext
from remit.gate.intents.refusals import IntentError, IntentRefused
from remit.gate.state.database import StateError
from remit.ledger.segments import LedgerError
from remit.servers.environment import read_environment
from remit.workspace.git.command import GitError
from remit.workspace.git.settings import find_git_folder
from remit.workspace.intents_file.storage import EditRefused, IntentsFileChanged

if TYPE_CHECKING:
    from remit.cli.terminal.view import ViewPart
    from remit.gate.gate import Gate

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=WorkspaceContext)

repo_option = click.option(
    "--repo",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default="the current folder",
    help="Work in this repository.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")


def store_display_option(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep an option about looks where `current_screen` finds it: no command takes it as an argument."""
    if context.get_parameter_source(str(parameter.name)) is not ParameterSource.DEFAULT:
        context.meta[f"remit.{parameter.name}"] = value
        if parameter.name == "color":
            context.color = forced_colour(str(value), os.environ)


DISPLAY_OPTIONS = (
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        expose_value=False,
        callback=store_display_option,
        help="Colour; by default on a terminal, unless NO_COLOR is set.",
    ),
    click.option(
        "--time",
        type=click.Choice(["auto", "relative", "iso"]),
        default="auto",
        expose_value=False,
        callback=store_display_option,
        help="`3 min ago`, or the time in UTC; by default the first on a terminal, else the second.",
    ),
    click.option(
        "--no-pager",
        is_flag=True,
        expose_value=False,
        callback=store_display_option,
        help="Never start a pager for long output.",
    ),
)


def view_options(command: F) -> F:
    """Give a command the options about its looks, which `emit_view` obeys."""
    for option in reversed(DISPLAY_OPTIONS):
        command = option(command)
    return command


def current_screen() -> Screen:
    """Return the screen as the options of the running command have it."""
    meta = click.get_current_context().meta
    return open_screen(meta.get("remit.color", "auto"), meta.get("remit.time", "auto"), time.time())


def open_gate(repo: Path) -> "Gate":
    """The gate of the repository. Raises Failure where there is none."""
    from remit.gate.gate import Gate  # with all the checks: half of the start of a command that only reads

    return open_site(Gate, repo)


def governed_gate(repo: Path) -> "Gate":
    """The gate of a repository that Remit governs. Raises Failure."""
    return require_governed(open_gate(repo))


def governed_site(repo: Path) -> WorkspaceContext:
    """What belongs to a repository that Remit governs, for who only reads. Raises Failure."""
    return require_governed(open_site(WorkspaceContext, repo))


def reading_site(repo: Path) -> WorkspaceContext:
    """What belongs to a repository, governed or not: where nothing governs, there are git and notes to read.

    That this is so is said on standard error. Raises Failure where there is no repository.
    """
    site = open_site(WorkspaceContext, repo)
    if not site.is_governed:
        told = "only git, and notes where there are any, tell of its lines; `remit init` there begins a record"
        click.echo(f"Remit does not govern {str(site.workspace.root)!r}: {told}", err=True)
    return site


def open_site(kind: type[S], repo: Path) -> S:
    """A site of that kind. Raises Failure where there is no repository."""
    site = kind.open(repo, read_environment())
    if site.found_workspace is None:
        raise no_workspace_failure(str(repo.resolve()), bare=find_git_folder(repo.resolve()) is not None)
    return site


def no_workspace_failure(folder: str, *, bare: bool) -> Failure:
    """That there is nothing to work in: no repository, or one that has no files of its own."""
    if bare:
        return Failure(
            "NO_WORKSPACE",
            f"the git repository around {folder!r} has no work tree",
            fix="work in a clone of it, or in a tree that `git worktree add PATH` makes",
        )
    return Failure(
        "NO_WORKSPACE",
        f"{folder!r} is in no git repository, and has no .orchestration/ folder",
        fix="run `git init` there first, or `remit init` in a folder that needs no git",
    )


def require_governed(site: S) -> S:
    """That site. Raises Failure where Remit does not govern it."""
    if not site.is_governed:
        raise Failure(
            "NOT_GOVERNED", f"Remit does not govern {str(site.workspace.root)!r}", fix="run `remit init` there"
        )
    return site


def emit(data: object, as_json: bool, text: str) -> None:
    """The answer: one JSON document, or text."""
    print_text(encode_json({"schema_version": 1, "data": data}) if as_json else sanitise_text(text))


def emit_view(data: object, as_json: bool, view: "Callable[[Screen], Iterable[ViewPart]]") -> None:
    """Answer with one JSON document, or with the view, made for the screen and paged where it is longer than that."""
    if as_json:
        print_text(encode_json({"schema_version": 1, "data": data}))
        return
    from remit.cli.terminal.view import render  # rich is for people's eyes only

    screen = current_screen()
    text = sanitise_text(render(view(screen), screen))
    if screen.width is not None and not click.get_current_context().meta.get("remit.no_pager"):
        from remit.cli.terminal.pager import choose_pager, show_in_pager

        pager = choose_pager({}, os.environ) if text.count("\n") + 2 > get_terminal_size().lines else ""
        if pager:
            show_in_pager(f"{text}\n".encode("utf-8", "replace"), pager)
            return
    print_text(text, has_colour=screen.is_coloured)


def print_text(text: str, *, has_colour: bool | None = None) -> None:
    """Print it. Where whoever read has read enough, the process ends, without a word."""
    try:
        click.echo(text, color=has_colour)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def encode_json(value: object) -> str:
    """`value` as JSON text."""
    return escape_json(msgspec.json.encode(value).decode())


def reports_failures(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what can go wrong into a message with its next step, and the exit code of contracts §8."""

    @wraps(command)
    def call_command(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except Failure as failure:
            fail(failure, bool(kwargs.get("as_json")))
        except (IntentRefused, IntentError, EditRefused, ValueError) as error:
            fail(to_failure(error), bool(kwargs.get("as_json")))
        except UNAVAILABLE_ERRORS as error:
            fail(unavailable_failure(error), bool(kwargs.get("as_json")))

    return call_command


def unavailable_failure(error: Exception) -> Failure:
    """Return the failure for what disk, database, git or a lock did not allow, with its next step."""
    message, _, hint = describe_error(error).partition("\nhint: ")
    code = getattr(error, "errno", None)
    path = getattr(error, "filename", None) or getattr(error, "path", None)
    if code == errno.EROFS:
        hint = f"mount it writable, or work in a clone of it: {READ_ONLY_HINT}"
        message = f"{str(path)!r} cannot be written: it is on a read-only file system"
    elif code in (errno.EACCES, errno.EPERM):
        verb = "read" if path and not os.access(path, os.R_OK) else "write"
        message = f"this user may not {verb} {str(path)!r}{describe_owner(path)}"
        hint = f"run this as that user, or ask for the right to {verb} it: {READ_ONLY_HINT}"
    return Failure("UNAVAILABLE", message, fix=hint, exit_code=UNAVAILABLE)


READ_ONLY_HINT = "commands that only read, such as `remit log` and `remit blame`, need no right to write"


def describe_owner(path: object) -> str:
    """Whose file that is, in words; empty where that cannot be told."""
    try:
        return f", which belongs to {Path(str(path)).owner()}"
    except (OSError, KeyError):
        return ""


def describe_error(error: Exception) -> str:
    """The error, with the name of what is in the way where a folder or a file stands in the other's place."""
    if isinstance(error, FileExistsError | NotADirectoryError) and isinstance(error.filename, str):
        return f"{error.filename!r} is no folder, and one is needed there; move it away"
    return str(error)


UNAVAILABLE_ERRORS = (StateError, LedgerError, GitError, IntentsFileChanged, OSError, SqliteError)
"""Disk, database, git or a lock."""


def to_failure(error: Exception) -> Failure:
    """A refusal of the rules, or a value that does not fit."""
    if isinstance(error, IntentRefused):
        return Failure(error.violation.error_type, error.violation.error, exit_code=REFUSED)
    return Failure("INVALID", str(error))


def fail(failure: Failure, as_json: bool) -> NoReturn:
    """Say what is wrong and end the process."""
    if as_json:
        error = {"code": failure.code, "message": failure.message, "target": failure.target, "fix": failure.fix}
        click.echo(encode_json({"schema_version": 1, "error": error}))
    click.echo(f"{click.style('error', fg='red', bold=True)}: {sanitise_text(failure.message)}", err=True)
    if failure.fix:
        click.echo(f"{click.style('hint', bold=True)}: {sanitise_text(failure.fix)}", err=True)
    sys.exit(failure.exit_code)
