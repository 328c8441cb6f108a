"""Pages that show the answer of a command: metrics, changes. Their data are the command's own."""

from typing import Any

from msgspec import Struct

from remit.servers.web.pages.page import PageRequest


class CommandAnswer(Struct, frozen=True):
    """The answer of a command, and the words to ask it in a terminal."""

    command: str
    data: Any


def run(request: PageRequest, *words: str) -> CommandAnswer:
    return CommandAnswer(" ".join(("remit", *words)), request.repositories.run_command(request.one_repository, *words))


def read_metrics(request: PageRequest) -> CommandAnswer:
    return run(request, "stats")


def read_changes(request: PageRequest) -> CommandAnswer:
    asked = request.query.get("range", "")
    return run(request, "verify", *([asked] if asked and not asked.startswith("-") else []))


class SettingsPage(Struct, frozen=True):
    """The governed repositories and the places of the console's files."""

    repositories: list[dict[str, str]]


def read_settings(request: PageRequest) -> SettingsPage:
    return SettingsPage([{"name": r.name, "root": r.root} for r in request.repositories.list_all()])
