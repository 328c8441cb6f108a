"""Shared by all commands: options, opening the repository, printing the answer, reporting failures."""

import errno
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from shutil import get_terminal_size
from sqlite3 import Error as SqliteError
from typing import TYPE_CHECKING, NoReturn, ParamSpec, TypeVar

import click
from click.core import ParameterSource

from remit.cli.screen import Screen, choose_pager, forced_colour, open_screen, show_in_pager
from remit.core.untrusted_input import encode_json, sanitise_text
from remit.extensions import loaded_errors
from remit.ledger.index import index as ledger_index
from remit.ledger.index.index import Index
from remit.ledger.log_files import LedgerError
from remit.servers.environ_checks import clean_environment
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import GitError, find_git_folder
from remit.workspace.place.workspace import (
    Workspace,
    find_nested_repository,
    has_replays,
    is_in_jail,
    is_repository_registered,
    locate_workspace,
)

if TYPE_CHECKING:
    from remit.cli.view import ViewPart
    from remit.gate.context import WorkspaceContext
    from remit.gate.gate import Gate

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="WorkspaceContext")
FINDINGS, USAGE, REFUSED, UNAVAILABLE, INTEGRITY = 1, 2, 3, 4, 5
INTERRUPT = 130  # exit codes: contracts §8


class Failure(Exception):
    """A command's error. `fix` is the next step."""

    def __init__(self, code: str, message: str, *, fix: str = "", target: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix
        self.target = target
        self.exit_code = exit_code

    @classmethod
    def from_error(cls, error: Exception, code: str, *, target: str = "", exit_code: int = USAGE) -> "Failure":
        """Return the failure for an error whose message may end in a hint on its own line."""
        message, _, hint = str(error).partition("\nhint: ")
        return cls(code, message, fix=hint, target=target, exit_code=exit_code)


Errors = tuple[type[Exception], ...]
READ_ONLY_HINT = "commands that only read, such as `remit log` and `remit blame`, need no right to write"

repo_option = click.option(
    "--repo",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default="the current folder",
    # Ids of intents are looked up there.
    is_eager=True,
    help="Work in this repository.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def store_display_option(context: click.Context, parameter: click.Parameter, value: object) -> None:
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
    return repo_option(json_option(reports_failures(command)))


def view_command_options(command: Callable[P, R]) -> Callable[P, R]:
    decorated = reports_failures(command)
    for option in reversed(DISPLAY_OPTIONS):
        decorated = option(decorated)
    return repo_option(json_option(decorated))


# --- the repository ----------------------------------------------------------------------------------------


def open_gate(repo: Path) -> "Gate":
    from remit.gate.gate import Gate  # imports every check, which doubles the start-up of a reading command

    return open_context(Gate, repo)


def governed_gate(repo: Path) -> "Gate":
    return require_governed(open_gate(repo))


def governed_context(repo: Path) -> "WorkspaceContext":
    from remit.gate.context import WorkspaceContext  # half of the start-up of `remit blame`, which needs none

    return require_governed(open_context(WorkspaceContext, repo))


def reading_context(repo: Path) -> "WorkspaceContext":
    """Open the workspace's context, also where Remit governs nothing. Raises as `find_readable_workspace`."""
    from remit.gate.context import WorkspaceContext  # as above

    find_readable_workspace(repo)
    return open_context(WorkspaceContext, repo)


def open_context(kind: type[C], repo: Path) -> C:
    """Open a workspace context of this kind. Raises Failure outside a repository."""
    from remit.servers.environment import read_environment  # the tables of all agents

    return kind(find_workspace(repo), read_environment())


def find_workspace(repo: Path) -> Workspace:
    """Return the workspace around `repo`, and clean the environment. Raises Failure outside a repository."""
    clean_environment()
    if is_in_jail(Path.home()):
        message = "this is the jail of an agent of a plan: Remit's records are out of its reach"
        raise Failure(
            "RECORDS_ELSEWHERE", message, fix="use Remit's tools, or `remit blame FILE`", exit_code=UNAVAILABLE
        )
    if found := locate_workspace(repo):
        return found
    folder = repo.resolve()
    if find_git_folder(folder) is not None:
        message = f"the git repository around {str(folder)!r} has no work tree"
        fix = "work in a clone of it, or in a tree that `git worktree add PATH` makes"
    else:
        message = f"{str(folder)!r} is in no git repository, and has no .orchestration/ folder"
        fix = "run `git init` there first, or `remit init` in a folder that needs no git"
    raise Failure("NO_WORKSPACE", message, fix=fix)


def find_readable_workspace(repo: Path) -> tuple[Workspace, bool]:
    """Return the workspace around `repo`, and whether Remit governs it; warn if not. Raises as `find_workspace`."""
    workspace = find_workspace(repo)
    if workspace.is_governed:
        return workspace, True
    if is_repository_registered(Path.home(), workspace):
        return workspace, governed_context(repo).is_governed
    hint = "attribution comes from git and notes only; `remit init` there starts a record"
    say(f"Remit does not govern {str(workspace.root)!r}: {hint}", err=True)
    return workspace, False


def require_governed(context: C) -> C:
    if not context.is_governed:
        root = str(context.workspace.root)
        raise Failure("NOT_GOVERNED", f"Remit does not govern {root!r}", fix="run `remit init` there")
    return context


def open_index(workspace: Workspace) -> Index:
    """Open the index, after the replays that a question must not overtake."""
    if has_replays(workspace):
        from remit.gate.effects.replays import run_replays  # few questions find one
        from remit.servers.environment import read_environment

        with suppress(OSError):
            run_replays(workspace, read_environment())
    return ledger_index.open_index(workspace.state, workspace.log_folder)


@contextmanager
def open_index_or_empty(workspace: Workspace, *, governed: bool) -> Generator[Index]:
    """Open the index; in an ungoverned repository an empty temporary index, leaving the repository untouched."""
    if governed:
        with open_index(workspace) as index:
            yield index
        return
    from tempfile import TemporaryDirectory  # slow to import

    with TemporaryDirectory(prefix="remit.") as name, Index.open(Path(name) / "index.db", Path(name) / "log") as index:
        yield index


def open_content_store(workspace: Workspace) -> ContentStore:
    return ContentStore(workspace, "")


def folder_of_paths(workspace: Workspace, repo: Path, folder: Path | None = None) -> Path:
    """Return the folder that paths on the command line count from: `folder`, by default the working directory; with
    `--repo`, the workspace's root, or that of a repository inside, such as a submodule.
    """
    if repo == Path():
        return folder or Path.cwd()
    inside = os.path.relpath(repo.resolve() / "file", workspace.root)
    return workspace.root / find_nested_repository(workspace, inside)


def path_in_workspace(workspace: Workspace, repo: Path, file: str, folder: Path | None = None) -> str:
    """Return the path of `file`, relative to the workspace root; the file may be deleted. Raises Failure. `file` is
    relative to `folder_of_paths`.
    """
    start = folder_of_paths(workspace, repo, folder)
    path = Path(os.path.normpath(start.resolve() / file))
    real = path.parent.resolve() / path.name
    if not real.is_relative_to(workspace.root):
        raise Failure("OUTSIDE_WORKSPACE", f"{file!r} is not in {str(workspace.root)!r}", target=file)
    return str(real.relative_to(workspace.root))


# --- the answer --------------------------------------------------------------------------------------------


def emit(data: object, as_json: bool, text: str | Iterable[str], exit_code: int = 0) -> None:
    """Print the answer: one JSON document, or text, given whole or in lines. End the process with any other code."""
    if as_json:
        print_text(encode_json({"schema_version": 1, "data": data}))
    else:
        print_text(text if isinstance(text, str) else "\n".join(text))
    if exit_code:
        sys.exit(exit_code)


def emit_view(data: object, as_json: bool, view: "Callable[[Screen], Iterable[ViewPart]]") -> None:
    """Print one JSON document, or the view fitted to the screen and paged if longer."""
    if as_json:
        emit(data, as_json, "")
        return
    from remit.cli.view import render  # imports rich, which JSON output does not need

    screen = current_screen()
    text = render(view(screen), screen)
    is_long = screen.width is not None and text.count("\n") + 2 > get_terminal_size().lines
    is_paged = is_long and not click.get_current_context().meta.get("remit.no_pager")
    if is_paged and (pager := choose_pager({}, os.environ)):
        show_in_pager(f"{sanitise_text(text)}\n".encode("utf-8", "replace"), pager)
    else:
        print_text(text, has_colour=screen.is_coloured)


def current_screen() -> Screen:
    meta = click.get_current_context().meta
    return open_screen(meta.get("remit.color", "auto"), meta.get("remit.time", "auto"), time.time())


def print_text(text: str, *, has_colour: bool | None = None) -> None:
    """Print the text. A reader that closes the pipe ends the process silently."""
    try:
        say(text, has_colour=has_colour)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def say(text: str, *, err: bool = False, nl: bool = True, has_colour: bool | None = None) -> None:
    """Print text for a person: the one door to a terminal, and nothing passes it that a terminal would obey but
    colours.
    """
    click.echo(sanitise_text(text), nl=nl, err=err, color=has_colour)


def write_content(content: bytes) -> None:
    """Write bytes that are promised as they are. A terminal gets them as text, escaped: nobody reads bytes there."""
    if sys.stdout.isatty():
        say(sanitise_text(content.decode("utf-8", "replace"), keeps_colours=False), nl=False)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def warn(text: str) -> None:
    say(f"warning: {text}", err=True)


# --- failures ----------------------------------------------------------------------------------------------


def reports_failures(command: Callable[P, R]) -> Callable[P, R]:
    """Turn errors into a message with the next step, and an exit code of contracts §8."""

    @wraps(command)
    def call_command(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (*known_errors(), *unavailable_errors()) as error:
            fail(to_failure(error), bool(kwargs.get("as_json")))

    return call_command


def known_errors() -> Errors:
    """Return the errors in what was asked. Imports their rooms, which a command that succeeds may not need."""
    from remit.gate.intents.refusals import IntentError, IntentRefused
    from remit.wiring.manifest import SettingsError
    from remit.workspace.agents.read_write_settings import SettingsChanged
    from remit.workspace.intents_file.storage import EditRefused

    return (Failure, IntentError, IntentRefused, EditRefused, ValueError, SettingsError, SettingsChanged)


def unavailable_errors() -> Errors:
    """Return the errors of disk, database, git or a lock. Imports their rooms."""
    from remit.gate.state.database import StateError
    from remit.workspace.intents_file.storage import IntentsFileChanged

    others = (error for module in loaded_errors() for error in module.ERRORS)
    return (StateError, LedgerError, GitError, IntentsFileChanged, OSError, SqliteError, *others)


def to_failure(error: Exception) -> Failure:
    from remit.gate.intents.refusals import IntentRefused
    from remit.wiring.manifest import SettingsError
    from remit.workspace.agents.read_write_settings import SettingsChanged

    if isinstance(error, Failure):
        return error
    if isinstance(error, IntentRefused):
        return Failure(error.violation.error_type, error.violation.error, exit_code=REFUSED)
    if isinstance(error, SettingsError | SettingsChanged):
        code = USAGE if isinstance(error, SettingsError) and not error.is_unavailable else UNAVAILABLE
        return Failure("SETTINGS", str(error), target=str(error.path or ""), exit_code=code)
    if not isinstance(error, unavailable_errors()):
        return Failure("INVALID", str(error))
    for module in loaded_errors():
        if isinstance(error, module.ERRORS):
            code, message, fix = module.describe_failure(error)
            return Failure(code, message, fix=fix, exit_code=UNAVAILABLE)
    message, _, hint = str(error).partition("\nhint: ")
    code = getattr(error, "errno", None)
    path = getattr(error, "filename", None) or getattr(error, "path", None)
    if isinstance(error, FileExistsError | NotADirectoryError) and isinstance(path, str):
        message = f"{path!r} is no folder, and one is needed there; move it away"
    elif code == errno.EROFS:
        message = f"{str(path)!r} cannot be written: it is on a read-only file system"
        hint = f"mount it writable, or work in a clone of it: {READ_ONLY_HINT}"
    elif code in (errno.EACCES, errno.EPERM):
        verb = "read" if path and not os.access(path, os.R_OK) else "write"
        try:
            owner = f", which belongs to {Path(str(path)).owner()}"
        except (OSError, KeyError):
            owner = ""
        message = f"this user may not {verb} {str(path)!r}{owner}"
        hint = f"run this as that user, or ask for the right to {verb} it: {READ_ONLY_HINT}"
    return Failure("UNAVAILABLE", message, fix=hint, exit_code=UNAVAILABLE)


def fail(failure: Failure, as_json: bool) -> NoReturn:
    if as_json:
        error = {"code": failure.code, "message": failure.message, "target": failure.target, "fix": failure.fix}
        say(encode_json({"schema_version": 1, "error": error}))
    say(f"{click.style('error', fg='red', bold=True)}: {failure.message}", err=True)
    if failure.fix:
        say(f"{click.style('hint', bold=True)}: {failure.fix}", err=True)
    sys.exit(failure.exit_code)
