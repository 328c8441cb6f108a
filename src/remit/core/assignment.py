"""An assignment: the permissions of an attempt at a task and their end, as the gate reads them in the attempt's
worktree.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.diff.contents import sha256

AssignmentState: TypeAlias = Literal["active", "paused", "ended"]
RoleEffect: TypeAlias = Literal["read", "write", "execute", "network"]
ANYWHERE = ("**",)


class Assignment(Struct, frozen=True, forbid_unknown_fields=True):
    """The terms of an attempt. A path is open if the intent's scope, `scope` and `paths` match.

    `scope` holds the patterns proved apart from every concurrent attempt's, `paths` the role's. A change of the intents
    file changes neither; the worker widens `scope` once the wider scope is proved apart as well. The lease ends at
    `until_boot_ns` on the clock running since the boot `boot`. `token` numbers the attempts of a repository in the
    order of their claims.
    """

    task: str
    intent: str
    attempt: int
    token: int
    scope: tuple[str, ...]
    scope_sha256: str = ""
    until_boot_ns: int = 0
    boot: str = ""
    state: AssignmentState = "active"
    role: str = "builder"
    paths: tuple[str, ...] = ANYWHERE
    effects: tuple[RoleEffect, ...] = ("read", "write", "execute")
    target: str = ""
    base: str = ""

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """Patterns that a changed path has to match each, beside the intent's scope."""
        return (self.scope, self.paths)

    def allows_effect(self, effect: str) -> bool:
        """Return True if the role may have an effect on files or processes; deleting is writing."""
        return ("write" if effect == "delete" else effect) in self.effects


class AssignmentFacts(Struct, frozen=True):
    """An assignment as gathered for a call. `terms` are None if the file cannot be read; `expired` says in words why
    the lease no longer holds, and is empty while it does.
    """

    terms: Assignment | None
    expired: str = ""

    @property
    def is_paused(self) -> bool:
        return not self.expired and self.terms is not None and self.terms.state == "paused"

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        return self.terms.sets if self.terms is not None else ((),)


def hash_scope(patterns: Iterable[str]) -> str:
    """Return the SHA-256 that names a set of patterns: their order counts, since the last match decides."""
    return sha256("\n".join(patterns).encode("utf-8", "surrogateescape"))
