"""Settings of the console."""

from msgspec import Struct

from remit.servers.web.pages.page import PageRequest


class SettingsPage(Struct, frozen=True):
    """The governed repositories and the places of the console's files."""

    repositories: list[dict[str, str]]


def read_settings(request: PageRequest) -> SettingsPage:
    return SettingsPage([{"name": r.name, "root": r.root} for r in request.repositories.list_all()])
