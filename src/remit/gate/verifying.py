"""Running the commands that prove an intent's criteria."""

import time

from remit.core.hooks import brought_verify
from remit.core.intent import Intent
from remit.gate.site import Site
from remit.gate.trusted_run import Proof, TrustedRun
from remit.gate.trusting import trusted

ALL_S = 570.0
"""All commands of one intent together: the hook of an agent's shell may be waiting, and no hook waits ten minutes."""


class Verifying:
    """The criteria of one intent, in one workspace."""

    def __init__(self, site: Site, intent: Intent) -> None:
        self.site = site
        self.intent = intent

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands, each once, in the order of the criteria."""
        return tuple(dict.fromkeys(c.verify for c in self.intent.acceptance_criteria if c.verify))

    def split(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The commands that a person trusted, and the others."""
        if not self.commands:
            return (), ()
        digests = trusted(self.site.recorder)
        may = tuple(c for c in self.commands if brought_verify(c, self.intent.id).digest in digests)
        return may, tuple(c for c in self.commands if c not in may)

    def failures(self, session_id: str | None) -> tuple[str, ...]:
        """Run what is trusted, one after another; what failed, in words. Other calls pass meanwhile.

        Raises what keeps an observation from being made, or a record from being written.
        """
        until = time.monotonic() + ALL_S
        proofs = [self.proved(command, until, session_id) for command in self.split()[0]]
        return tuple(proof.failure for proof in proofs if proof.failure)

    def proved(self, command: str, until: float, session_id: str | None) -> Proof:
        """Run one command, and record it with what it changed."""
        return TrustedRun(self.site, self.intent.id).proved(command, command, until, session_id)
