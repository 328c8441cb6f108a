"""Entries on the left of each page, those of other packages included."""

from collections.abc import Sequence
from importlib import import_module
from typing import TypeAlias

from remit.extensions import find_extensions

NavigationEntry: TypeAlias = tuple[str, str, str, str]
"""Name, words, icon, and address (below the repository unless it begins with `/`)."""
EXTENSIONS = [import_module(extension.console) for extension in find_extensions()]
"""The modules with the tables of other packages' pages."""

NAVIGATION: Sequence[Sequence[NavigationEntry]] = (
    (
        ("now", "Now", "activity", "/"),
        ("approvals", "Approvals", "shield-check", "/approvals"),
        ("intents", "Intents", "target", "intents"),
        ("sessions", "Sessions", "scroll-text", "sessions"),
    ),
    (
        ("code", "Code", "file-code", "code"),
        ("changes", "Changes", "git-pull-request-arrow", "changes"),
        ("agents", "Agents", "bot", "agents"),
        *(entry for tables in EXTENSIONS for entry in tables.NAVIGATION),
        ("recovery", "Recovery", "history", "restore"),
    ),
    (
        ("coverage", "Coverage", "gauge", "governed"),
        ("metrics", "Metrics", "chart-line", "metrics"),
        ("ledger", "Ledger", "book-lock", "ledger"),
        ("settings", "Settings", "settings", "/settings"),
    ),
)
"""Groups of entries."""
