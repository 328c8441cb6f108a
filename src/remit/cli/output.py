"""What every command shares: where it works, how it answers, and how it fails."""

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import NoReturn, ParamSpec, TypeVar

import click
import msgspec

from remit.gate.gate import Gate
from remit.gate.intents import IntentError, Refused
from remit.gate.state import StateError
from remit.ledger.segments import LedgerError
from remit.servers.environment import enter
from remit.workspace.git import GitError
from remit.workspace.intents_edit import EditRefused, IntentsFileChanged, IntentsFileLocked

FINDINGS, USAGE, REFUSED, UNAVAILABLE, INTEGRITY = 1, 2, 3, 4, 5

P = ParamSpec("P")
R = TypeVar("R")

repo_option = click.option(
    "--repo",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default="the current folder",
    help="Work in this repository.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")


class Failure(Exception):
    """A command cannot do what was asked. `fix` is the next step."""

    def __init__(self, code: str, message: str, *, fix: str = "", target: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix
        self.target = target
        self.exit_code = exit_code


def open_gate(repo: Path) -> Gate:
    """The gate of the repository. Raises Failure where there is none."""
    gate = Gate.open(repo, enter())
    if gate.found is None:
        raise Failure(
            "NO_WORKSPACE",
            f"{str(repo.resolve())!r} is in no git repository, and has no .orchestration/ folder",
            fix="run `git init` there first, or `remit init` in a folder that needs no git",
        )
    return gate


def governed_gate(repo: Path) -> Gate:
    """The gate of a repository that Remit governs. Raises Failure."""
    gate = open_gate(repo)
    if not gate.governed:
        raise Failure(
            "NOT_GOVERNED", f"Remit does not govern {str(gate.workspace.root)!r}", fix="run `remit init` there"
        )
    return gate


def emit(data: object, as_json: bool, text: str) -> None:
    """The answer: one JSON document, or text."""
    click.echo(document({"schema_version": 1, "data": data}) if as_json else text)


def document(value: object) -> str:
    """`value` as JSON text."""
    return msgspec.json.encode(value).decode()


def reports_failures(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what can go wrong into a message with its next step, and the exit code of contracts §8."""

    @wraps(command)
    def reported(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except Failure as failure:
            fail(failure, bool(kwargs.get("as_json")))
        except (Refused, IntentError, EditRefused, ValueError) as error:
            fail(as_failure(error), bool(kwargs.get("as_json")))
        except (StateError, LedgerError, GitError, IntentsFileChanged, IntentsFileLocked, OSError) as error:
            fail(Failure("UNAVAILABLE", str(error), exit_code=UNAVAILABLE), bool(kwargs.get("as_json")))

    return reported


def as_failure(error: Exception) -> Failure:
    """A refusal of the rules, or a value that does not fit."""
    if isinstance(error, Refused):
        return Failure(error.violation.error_type, error.violation.error, exit_code=REFUSED)
    return Failure("INVALID", str(error))


def fail(failure: Failure, as_json: bool) -> NoReturn:
    """Say what is wrong and end the process."""
    if as_json:
        error = {"code": failure.code, "message": failure.message, "target": failure.target, "fix": failure.fix}
        click.echo(document({"schema_version": 1, "error": error}))
    click.echo(f"{click.style('error', fg='red', bold=True)}: {failure.message}", err=True)
    if failure.fix:
        click.echo(f"{click.style('hint', bold=True)}: {failure.fix}", err=True)
    sys.exit(failure.exit_code)
