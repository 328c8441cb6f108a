"""Pages that show the answer of a command: coverage, changes, recovery. Their data are the command's own."""

from typing import Any

from msgspec import Struct

from remit.servers.web.pages.page import PageRequest


class CommandAnswer(Struct, frozen=True):
    """The answer of a command, and the words to ask it in a terminal."""

    command: str
    data: Any


def run(request: PageRequest, *words: str) -> CommandAnswer:
    return CommandAnswer(" ".join(("remit", *words)), request.repositories.run_command(request.one_repository, *words))


def read_coverage(request: PageRequest) -> CommandAnswer:
    return run(request, "status")


def read_changes(request: PageRequest) -> CommandAnswer:
    asked = request.query.get("range", "")
    return run(request, "verify", *([asked] if asked and not asked.startswith("-") else []))


def read_recovery(request: PageRequest) -> CommandAnswer:
    return run(request, "restore", "list")
