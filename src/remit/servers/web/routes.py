"""The table of pages. Each has HTML, parts of it (`Remit-Part`), and a JSON twin under its address with `.json`."""

from remit.servers.web.pages.agents import read_agents
from remit.servers.web.pages.approvals import read_approvals
from remit.servers.web.pages.code import CODE_QUERY, read_code
from remit.servers.web.pages.commands import (
    read_changes,
    read_coverage,
    read_recovery,
)
from remit.servers.web.pages.intents import read_intent, read_intents
from remit.servers.web.pages.ledger import LEDGER_QUERY, read_ledger, read_record
from remit.servers.web.pages.metrics import METRICS_QUERY, read_metrics
from remit.servers.web.pages.now import read_now
from remit.servers.web.pages.page import Page
from remit.servers.web.pages.search import SEARCH_QUERY, read_search
from remit.servers.web.pages.sessions import read_session, read_sessions
from remit.servers.web.pages.settings import SETTINGS_QUERY, read_settings

PAGES = (
    Page("/", "now", "Now", "now.html", read_now),
    Page("/approvals", "approvals", "Approvals", "approvals.html", read_approvals),
    Page("/approvals/{question}", "approvals", "Approvals", "approvals.html", read_approvals),
    Page("/search", "search", "Search", "search.html", read_search, SEARCH_QUERY),
    Page("/settings", "settings", "Settings", "settings.html", read_settings, SETTINGS_QUERY),
    Page("/r/{repository}/intents", "intents", "Intents", "intents.html", read_intents),
    Page("/r/{repository}/intents/{intent}", "intents", "Intent", "intent.html", read_intent),
    Page("/r/{repository}/sessions", "sessions", "Sessions", "sessions.html", read_sessions),
    Page(
        "/r/{repository}/sessions/{session:path}",
        "sessions",
        "Session",
        "session.html",
        read_session,
        ("from", "count", "kind", "e"),
    ),
    Page("/r/{repository}/code", "code", "Code", "code.html", read_code),
    Page("/r/{repository}/code/{path:path}", "code", "Code", "code.html", read_code, CODE_QUERY),
    Page("/r/{repository}/agents", "agents", "Agents", "agents.html", read_agents),
    Page("/r/{repository}/changes", "changes", "Changes", "changes.html", read_changes, ("range",)),
    Page("/r/{repository}/restore", "recovery", "Recovery", "recovery.html", read_recovery),
    Page("/r/{repository}/governed", "coverage", "Coverage", "coverage.html", read_coverage),
    Page("/r/{repository}/metrics", "metrics", "Metrics", "metrics.html", read_metrics, METRICS_QUERY),
    Page("/r/{repository}/ledger", "ledger", "Ledger", "ledger.html", read_ledger, LEDGER_QUERY),
    Page("/r/{repository}/records/{record}", "ledger", "Record", "record.html", read_record),
)

NAVIGATION = (
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
        ("recovery", "Recovery", "history", "restore"),
    ),
    (
        ("coverage", "Coverage", "gauge", "governed"),
        ("metrics", "Metrics", "chart-line", "metrics"),
        ("ledger", "Ledger", "book-lock", "ledger"),
        ("settings", "Settings", "settings", "/settings"),
    ),
)
"""Groups of entries on the left: name, words, icon, and address (below the repository unless it begins with `/`)."""
