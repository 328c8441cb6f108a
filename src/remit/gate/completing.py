"""Closing an intent: its criteria are proved first, as far as commands can prove them."""

from remit.core.call import SessionKey
from remit.core.intent import Intent
from remit.core.lifecycle import completion_obstacles
from remit.core.text import shown
from remit.gate.intent_refusals import Refused, refusal, selectable_ids
from remit.gate.site import Site
from remit.gate.verifying import Verifying

TOOL = "complete_intent"


class Completing:
    """Completes intents of one workspace."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def complete(self, session: SessionKey, agent: str, intent_id: str, notes: str, *, vouched: bool = False) -> Intent:
        """Close an intent as DONE on an agent's word, once its commands agree, and release it.

        `vouched`: a person said that the criteria are met whose commands may not run. Raises Refused; also what keeps
        a record from being written.
        """
        intents = self.site.intents
        intent = self.completable(session, intent_id, vouched=vouched)
        failures = Verifying(self.site, intent).failures(session.session_id)
        if failures:
            raise refused(intent_id, failures)
        if self.completable(session, intent_id, vouched=vouched) != intent:
            raise refused(intent_id, ("it was changed while its criteria were verified; complete it again",))
        done = intents.set_status(intent_id, "DONE", by=agent, notes=notes, session=session)
        intents.clear(session, agent)
        return done

    def completable(self, session: SessionKey, intent_id: str, *, vouched: bool) -> Intent:
        """The session's active intent, where nothing but its criteria stands in the way. Raises Refused."""
        intents = self.site.intents
        active = self.site.state.active(session).intent_id
        if active != intent_id:
            raise refusal(
                "INTENT_MISMATCH",
                f"{shown(intent_id, 60)} is not the active intent of this session ({active or 'none is'}).",
                TOOL,
                active,
                selectable_ids(self.site.governing),
            )
        intent = intents.known(intent_id)
        if intent is None:
            raise refused(intent_id, (f"{intent_id} is no longer in active_intents.yaml",))
        obstacles = self.obstacles(intent, vouched=vouched)
        if obstacles:
            raise refused(intent_id, obstacles)
        return intent

    def unrun(self, intent: Intent) -> list[str]:
        """The criteria whose commands are not run: what a repository brings is not run untrusted."""
        _, untrusted = Verifying(self.site, intent).split()
        return [c.text for c in intent.acceptance_criteria if c.verify in untrusted]

    def obstacles(self, intent: Intent, *, vouched: bool = False) -> tuple[str, ...]:
        """Why an agent cannot complete the intent, before any of its commands was run."""
        waiting = completion_obstacles(intent, self.site.intents.document.intents)
        waiting = (*waiting, *self.unkept(intent))
        unrun = [] if vouched else self.unrun(intent)
        if not unrun:
            return waiting
        why = (
            "criteria with a `verify` command were not run, because no person has trusted them "
            f"({'; '.join(map(shown, unrun))}): ask the person to run `remit trust`, or to check them and run "
            f"`remit intent set-status {intent.id} DONE`"
        )
        return (*waiting, why)

    def unkept(self, intent: Intent) -> tuple[str, ...]:
        """The constraints that what was changed under the intent does not keep to. Raises OSError, LedgerError."""
        if not intent.rules:
            return ()
        from remit.gate.keeping_to import KeepingTo  # all kinds of constraints, for those who have one

        return KeepingTo(self.site).obstacles(intent)

    def proved_for_person(self, intent_id: str) -> tuple[str, ...]:
        """Hold the constraints and run what proves the criteria, for a person who completes; the commands that were
        not run. Raises Refused.
        """
        intent = self.site.intents.get(intent_id)
        verifying = Verifying(self.site, intent)
        failures = (*self.unkept(intent), *verifying.failures(None))
        if failures:
            raise refused(intent_id, failures)
        return verifying.split()[1]


def refused(intent_id: str, obstacles: tuple[str, ...]) -> Refused:
    """The refusal to complete."""
    why = "; ".join(obstacle.rstrip("\n") for obstacle in obstacles)
    return refusal("USER_REJECTED", f"{intent_id} cannot be completed: {why}.", TOOL, intent_id)
