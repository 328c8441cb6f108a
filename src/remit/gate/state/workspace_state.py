"""The state of a workspace, kept from process to process outside of the ledger.

A SQLite file holds the state of a repository, shared by the worktrees; each row names a workspace.
"""

from remit.gate.state.pending_calls import CallTable
from remit.gate.state.sessions import SessionTable


class State(SessionTable, CallTable):
    """The state of a workspace: sessions and pending calls. Further tables have modules of their own."""
