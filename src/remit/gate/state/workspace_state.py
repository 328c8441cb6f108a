"""The state of a workspace: everything that must outlive a process and is no record.

One SQLite file holds the state of a repository, shared by all its worktrees; rows name the workspace they belong to.
"""

from remit.gate.state.pending_calls import CallTable
from remit.gate.state.sessions import SessionTable


class State(SessionTable, CallTable):
    """The state of one workspace: sessions and pending calls; the modules beside this one hold the other tables."""
