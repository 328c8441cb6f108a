"""Shared by all commands: opening the repository, printing the answer, reporting failures."""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from shutil import get_terminal_size
from sqlite3 import Error as SqliteError
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

import click
import msgspec
from click.core import ParameterSource

from remit.cli.failure import FINDINGS as FINDINGS
from remit.cli.failure import INTEGRITY as INTEGRITY
from remit.cli.failure import REFUSED, UNAVAILABLE, Failure
from remit.cli.failure import USAGE as USAGE
from remit.cli.terminal.colour import forced_colour
from remit.cli.terminal.screen import Screen, open_screen
from remit.core.display_text import escape_json, sanitise_text
from remit.gate.context import WorkspaceContext
from remit.gate.intents.refusals import IntentError, IntentRefused
from remit.gate.state.database import StateError
from remit.ledger.segments import LedgerError
from remit.servers.environment import read_environment
from remit.workspace.git.command import GitError
from remit.workspace.git.programs_in_settings import find_git_folder
from remit.workspace.intents_file.storage import EditRefused, IntentsFileChanged

if TYPE_CHECKING:
    from remit.cli.terminal.view import ViewPart
    from remit.gate.gate import Gate

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=WorkspaceContext)

repo_option = click.option(
    "--repo",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default="the current folder",
    help="Work in this repository.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")


def store_display_option(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Store a display option for `current_screen`; no command receives the option as an argument."""
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


def command_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add `--repo` and `--json` to a command, and report its errors as failures."""
    return repo_option(json_option(reports_failures(command)))


def view_command_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add the options of `command_options`, and the display options that `emit_view` obeys."""
    decorated = reports_failures(command)
    for option in reversed(DISPLAY_OPTIONS):
        decorated = option(decorated)
    return repo_option(json_option(decorated))


def current_screen() -> Screen:
    meta = click.get_current_context().meta
    return open_screen(meta.get("remit.color", "auto"), meta.get("remit.time", "auto"), time.time())


def open_gate(repo: Path) -> "Gate":
    """Return the gate of the repository. Raises Failure outside a repository."""
    from remit.gate.gate import Gate  # imports every check, which doubles the start-up of a reading command

    return open_context(Gate, repo)


def governed_gate(repo: Path) -> "Gate":
    """Return the gate of a governed repository. Raises Failure."""
    return require_governed(open_gate(repo))


def governed_context(repo: Path) -> WorkspaceContext:
    """Return read access to a governed repository. Raises Failure."""
    return require_governed(open_context(WorkspaceContext, repo))


def reading_context(repo: Path) -> WorkspaceContext:
    """Return read access to a repository, governed or not; warn on standard error if not governed.

    Raises Failure outside a repository.
    """
    opened = open_context(WorkspaceContext, repo)
    if not opened.is_governed:
        hint = "attribution comes from git and notes only; `remit init` there starts a record"
        click.echo(f"Remit does not govern {str(opened.workspace.root)!r}: {hint}", err=True)
    return opened


def open_context(kind: type[C], repo: Path) -> C:
    """Open a workspace context of this kind. Raises Failure outside a repository."""
    opened = kind.open(repo, read_environment())
    if opened.found_workspace is not None:
        return opened
    folder = repo.resolve()
    if find_git_folder(folder) is not None:
        raise Failure(
            "NO_WORKSPACE",
            f"the git repository around {str(folder)!r} has no work tree",
            fix="work in a clone of it, or in a tree that `git worktree add PATH` makes",
        )
    raise Failure(
        "NO_WORKSPACE",
        f"{str(folder)!r} is in no git repository, and has no .orchestration/ folder",
        fix="run `git init` there first, or `remit init` in a folder that needs no git",
    )


def require_governed(context: C) -> C:
    """Return the context. Raises Failure if not governed."""
    if not context.is_governed:
        root = str(context.workspace.root)
        raise Failure("NOT_GOVERNED", f"Remit does not govern {root!r}", fix="run `remit init` there")
    return context


def emit(data: object, as_json: bool, text: str) -> None:
    """Print the answer: one JSON document, or text."""
    print_text(encode_json({"schema_version": 1, "data": data}) if as_json else sanitise_text(text))


def emit_view(data: object, as_json: bool, view: "Callable[[Screen], Iterable[ViewPart]]") -> None:
    """Print one JSON document, or the view fitted to the screen and paged if longer."""
    if as_json:
        print_text(encode_json({"schema_version": 1, "data": data}))
        return
    from remit.cli.terminal.view import render  # imports rich, which JSON output does not need

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
    """Print the text. A reader that closes the pipe ends the process silently."""
    try:
        click.echo(text, color=has_colour)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def encode_json(value: object) -> str:
    return escape_json(msgspec.json.encode(value).decode())


def reports_failures(command: Callable[P, R]) -> Callable[P, R]:
    """Turn errors into a message with the next step, and an exit code of contracts §8."""

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
    """Return the failure for an error of disk, database, git or a lock, with the next step."""
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
    try:
        return f", which belongs to {Path(str(path)).owner()}"
    except (OSError, KeyError):
        return ""


def describe_error(error: Exception) -> str:
    """Return the error's message, naming the obstacle if a file stands in a folder's place or the reverse."""
    if isinstance(error, FileExistsError | NotADirectoryError) and isinstance(error.filename, str):
        return f"{error.filename!r} is no folder, and one is needed there; move it away"
    return str(error)


UNAVAILABLE_ERRORS = (StateError, LedgerError, GitError, IntentsFileChanged, OSError, SqliteError)
"""Errors of disk, database, git or a lock."""


def to_failure(error: Exception) -> Failure:
    if isinstance(error, IntentRefused):
        return Failure(error.violation.error_type, error.violation.error, exit_code=REFUSED)
    return Failure("INVALID", str(error))


def fail(failure: Failure, as_json: bool) -> NoReturn:
    """Print the failure and end the process."""
    if as_json:
        error = {"code": failure.code, "message": failure.message, "target": failure.target, "fix": failure.fix}
        click.echo(encode_json({"schema_version": 1, "error": error}))
    click.echo(f"{click.style('error', fg='red', bold=True)}: {sanitise_text(failure.message)}", err=True)
    if failure.fix:
        click.echo(f"{click.style('hint', bold=True)}: {sanitise_text(failure.fix)}", err=True)
    sys.exit(failure.exit_code)
