"""Entries on the left of each page, those of other packages included."""

from collections.abc import Sequence
from importlib import import_module
from typing import TypeAlias

from remit.extensions import find_extensions

NavigationEntry: TypeAlias = tuple[str, str, str, str, str]
"""Name, words, icon, the key that opens it after `g`, and address (below the repository unless it begins with `/`)."""
EXTENSIONS = [import_module(extension.console) for extension in find_extensions()]
"""The modules with the tables of other packages' pages."""

NAVIGATION: Sequence[Sequence[NavigationEntry]] = (
    (
        ("now", "Now", "activity", "n", "/"),
        ("approvals", "Approvals", "shield-check", "a", "/approvals"),
        ("intents", "Intents", "target", "i", "intents"),
        ("sessions", "Sessions", "scroll-text", "s", "sessions"),
    ),
    (
        ("code", "Code", "file-code", "c", "code"),
        ("changes", "Changes", "git-pull-request-arrow", "h", "changes"),
        ("agents", "Agents", "bot", "w", "agents"),
        *(entry for tables in EXTENSIONS for entry in tables.NAVIGATION),
        ("recovery", "Recovery", "history", "r", "restore"),
    ),
    (
        ("coverage", "Coverage", "gauge", "p", "governed"),
        ("metrics", "Metrics", "chart-line", "m", "metrics"),
        ("ledger", "Ledger", "book-lock", "l", "ledger"),
        ("settings", "Settings", "settings", ",", "/settings"),
    ),
)
"""Groups of entries."""
