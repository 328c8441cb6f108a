"""Completion of an intent: constraints and criteria are verified first, as far as commands can verify them."""

from remit.core.call import SessionKey
from remit.core.display_text import sanitise_line
from remit.core.intent import Intent
from remit.core.intents.lifecycle import find_completion_obstacles
from remit.gate.context import WorkspaceContext
from remit.gate.intents.intents import Intents
from remit.gate.intents.refusals import IntentRefused, make_refusal, selectable_intent_ids
from remit.gate.team_hooks.verify_commands import run_trusted_criteria, split_by_trust

COMPLETE_TOOL = "complete_intent"


class IntentCompletion:
    """Completion of intents in one workspace."""

    def __init__(self, context: WorkspaceContext, intents: Intents) -> None:
        self.context = context
        self.intents = intents

    def complete(self, session: SessionKey, agent: str, intent_id: str, notes: str, *, vouched: bool = False) -> Intent:
        """Set an intent to DONE after its trusted criteria commands succeeded, and release the intent.

        `vouched`: a person confirmed the criteria whose commands may not run. Raises IntentRefused, and the errors in
        RECORDING_ERRORS.
        """
        intent = self.require_completable(session, intent_id, vouched=vouched)
        failures = run_trusted_criteria(self.context, intent, session.session_id)
        if failures:
            raise completion_refusal(intent_id, failures)
        if self.require_completable(session, intent_id, vouched=vouched) != intent:
            raise completion_refusal(intent_id, ("it was changed while its criteria were verified; complete it again",))
        done = self.intents.set_status(intent_id, "DONE", by=agent, notes=notes, session=session)
        self.intents.clear(session, agent)
        return done

    def require_completable(self, session: SessionKey, intent_id: str, *, vouched: bool) -> Intent:
        """Return the session's active intent if only its criteria remain to be verified. Raises IntentRefused."""
        active = self.context.state.active_session(session).intent_id
        if active != intent_id:
            raise make_refusal(
                "INTENT_MISMATCH",
                f"{sanitise_line(intent_id, 60)} is not the active intent of this session ({active or 'none is'}).",
                COMPLETE_TOOL,
                active,
                selectable_intent_ids(self.context.rules),
            )
        intent = self.intents.find_intent(intent_id)
        if intent is None:
            raise completion_refusal(intent_id, (f"{intent_id} is no longer in active_intents.yaml",))
        obstacles = self.find_obstacles(intent, vouched=vouched)
        if obstacles:
            raise completion_refusal(intent_id, obstacles)
        return intent

    def find_unrun_criteria(self, intent: Intent) -> list[str]:
        """Return the criteria with an untrusted command: commands from a repository never run untrusted."""
        _, untrusted = split_by_trust(self.context, intent)
        return [c.text for c in intent.acceptance_criteria if c.verify in untrusted]

    def find_obstacles(self, intent: Intent, *, vouched: bool = False) -> tuple[str, ...]:
        """Return the reasons against completion that are known before any criteria command has run."""
        obstacles = (
            *find_completion_obstacles(intent, self.intents.document.intents),
            *self.find_broken_constraints(intent),
        )
        unrun = [] if vouched else self.find_unrun_criteria(intent)
        if not unrun:
            return obstacles
        why = (
            "criteria with a `verify` command were not run, because no person has trusted them "
            f"({'; '.join(map(sanitise_line, unrun))}): ask the person to run `remit trust`, or to check them and run "
            f"`remit intent set-status {intent.id} DONE`"
        )
        return (*obstacles, why)

    def find_broken_constraints(self, intent: Intent) -> tuple[str, ...]:
        """Return the constraints broken by changes under the intent. Raises OSError, LedgerError."""
        if not intent.rules:
            return ()
        # Loaded only for intents with constraints: the module imports every kind.
        from remit.gate.team_hooks.constraints import describe_completion_breaches

        return describe_completion_breaches(self.context, intent)

    def verify_for_person(self, intent_id: str) -> tuple[str, ...]:
        """Check constraints and run trusted criteria for a person; return the commands that did not run.

        Raises IntentRefused.
        """
        intent = self.intents.get(intent_id)
        failures = (*self.find_broken_constraints(intent), *run_trusted_criteria(self.context, intent, None))
        if failures:
            raise completion_refusal(intent_id, failures)
        return split_by_trust(self.context, intent)[1]


def completion_refusal(intent_id: str, obstacles: tuple[str, ...]) -> IntentRefused:
    why = "; ".join(obstacle.rstrip("\n") for obstacle in obstacles)
    return make_refusal("USER_REJECTED", f"{intent_id} cannot be completed: {why}.", COMPLETE_TOOL, intent_id)
