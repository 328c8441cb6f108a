"""What comes in from the process's environment, once, for every door."""

import os
import tempfile
from pathlib import Path

from remit.adapters import ROWS
from remit.gate.environment import Environment

FORWARDED = ("REMIT_INTENT", "TMPDIR")
"""The variables that Remit looks at; the thin client passes on these and no others."""


def enter() -> Environment:
    """The environment of this process.

    git's own variables are dropped: in a git hook they would mislead us. So are parts of PATH that mean the current
    folder: a repository may hold a program called `git`.
    """
    os.environ["PATH"] = os.pathsep.join(p for p in os.get_exec_path() if p.startswith("/"))
    for name in [n for n in os.environ if n.startswith("GIT_") and n not in ("GIT_CONFIG_NOSYSTEM", "GIT_SSL_CAINFO")]:
        del os.environ[name]
    return environment(dict(os.environ))


def environment(variables: dict[str, str]) -> Environment:
    """The environment that these variables describe."""
    rows = ROWS.values()
    return Environment(
        home=Path.home(),
        temporary=Path(variables.get("TMPDIR") or tempfile.gettempdir()),
        settings=tuple(s for row in rows for s in (*row.settings, row.hooks_file, row.mcp_file)),
        own_folders=tuple(folder for row in rows for folder in row.own_folders),
        bound_intent=variables.get("REMIT_INTENT") or None,
    )
