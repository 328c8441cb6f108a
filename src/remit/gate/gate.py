"""The gate: the façade of a workspace that every door calls before a tool runs, and after.

| step | file |
|---|---|
| 4 gather | `gather.py` |
| 5 decide | `policy/decide.py` |
| 6 enforce | `enforce.py` |
| 8 remember | `remember.py` |

The other steps of a call (`docs/explanation/one-tool-call.md`) lie outside: knock, listen, translate and answer.
"""

from collections.abc import Callable

from remit.adapters import ROWS
from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.decision import UNGOVERNED_DECISION
from remit.core.events import SessionEnded, SessionStarted
from remit.core.lazy_property import LazyProperty
from remit.core.team_hooks import TrustItem
from remit.gate.answer import RECORDING_ERRORS, Answer
from remit.gate.containment.rewrite_call import CommandRewriter, find_token
from remit.gate.context import WorkspaceContext
from remit.gate.double_firing import DoubleFiring
from remit.gate.enforce import answer_unrecordable, enforce
from remit.gate.intents.complete import IntentCompletion
from remit.gate.intents.intents import Intents, notice_rules
from remit.gate.remember import remember
from remit.gate.rules.load import Rules
from remit.gate.rules.trust import find_untrusted, untrusted_notice_once
from remit.gate.sessions.lifecycle import SessionLifecycle
from remit.gate.sessions.pending_messages import PendingMessages
from remit.gate.sessions.turn_summary import summarize_turn
from remit.gate.state.questions import QuestionStore
from remit.gate.team_hooks.registered_checks import AfterListener, RegisteredHooks
from remit.gate.undo.agent_settings import AgentSettings, can_execute
from remit.policy.decide import Check


class Gate(WorkspaceContext):
    """The gate of a workspace. Without governing, every call is allowed and no record is made."""

    def before(self, call: ToolCall) -> Answer:
        """Steps 4 to 6: gather, decide, enforce. The decision is recorded before it is returned."""
        if not self.is_governed:
            return Answer(UNGOVERNED_DECISION)
        try:
            event = self.find_double_firing("before", call)
            earlier = event.find_answer() if event else None
            if earlier is not None:
                return earlier
            answer = enforce(self, call, self.hooks)
            answer = answer.with_notice(self.untrusted_notice(call.session))
            answer = PendingMessages(self.state).deliver_with_answer(call, answer)
            if call.whole_workspace and can_execute(answer.decision):
                AgentSettings(self).keep_settings()
            answer = answer.with_notice(self.repair_notice)
            if event is not None:
                event.store_answer(answer)
            return answer
        except RECORDING_ERRORS as error:
            return answer_unrecordable(self, call, error)

    def after(self, call: ToolCall, outcome: Outcome) -> Answer:
        """Step 8: remember. A success never becomes a failure; what cannot be recorded waits, and the model is told."""
        if not self.is_governed:
            return Answer(UNGOVERNED_DECISION)
        token = ""
        if call.command:
            # A contained command comes back in the words of the launcher.
            token = find_token(call.command)
            call = CommandRewriter(self).unwrap_returned_call(call)
        event = self.find_double_firing("after", call)
        earlier = event.find_answer() if event else None
        if earlier is not None:
            return earlier
        answer = remember(self, call, outcome, self.hooks, token).with_notice(self.repair_notice)
        if event is not None:
            event.store_answer(answer)
        return answer

    def find_double_firing(self, phase: str, call: ToolCall) -> DoubleFiring | None:
        """Return the event of a call, if a second agent's hook may report the same event."""
        if not any(row.fires_twice for row in ROWS.values()):
            return None
        try:
            return DoubleFiring(self.state, phase, call, self.environment.clock(), self.environment.release_lock)
        except RECORDING_ERRORS:
            return None

    # Hooks of a program that embeds the gate

    @LazyProperty
    def hooks(self) -> RegisteredHooks:
        return RegisteredHooks()

    def add_hook(self, name: str, check: Check) -> Callable[[], None]:
        """Register a check that objects to calls as Remit's own checks do; the returned function removes it.

        A check can only tighten: an objection is HOOK_BLOCKED, an exception denies. Raises ValueError for a taken name.
        """
        return self.hooks.add_check(name, check)

    def add_after_hook(self, name: str, listener: AfterListener) -> Callable[[], None]:
        """Register a listener to completed calls; the model gets its result.

        A listener that raises is recorded and reported, without further effect. Raises ValueError for a taken name.
        """
        return self.hooks.add_listener(name, listener)

    # Sessions

    def begin_session(self, event: SessionStarted, agent: str) -> str:
        return SessionLifecycle(self).start_session(event, agent) if self.is_governed else ""

    def receive_prompt(self, session: SessionKey, agent: str) -> str:
        return SessionLifecycle(self).handle_prompt(session, agent) if self.is_governed else ""

    def end_turn(self, session: SessionKey) -> str:
        return SessionLifecycle(self).end_turn(session) if self.is_governed else ""

    def describe_turn(self, session: SessionKey) -> str:
        """Return the summary of a turn for the person; empty if nothing changed."""
        return summarize_turn(self, session) if self.is_governed else ""

    def end_session(self, event: SessionEnded, agent: str) -> str:
        return SessionLifecycle(self).end_session(event, agent) if self.is_governed else ""

    # What commands, servers and pages ask for

    @property
    def intents(self) -> Intents:
        return Intents(self.workspace, self.state, self.recorder)

    @property
    def completion(self) -> IntentCompletion:
        return IntentCompletion(self, self.intents)

    @LazyProperty
    def questions(self) -> QuestionStore:
        return QuestionStore(self.state, self.environment.clock)

    def notice_rules(self, rules: Rules) -> None:
        notice_rules(self, rules)

    @property
    def untrusted_commands(self) -> tuple[TrustItem, ...]:
        """Commands of the repository that no person on the machine trusts. Raises OSError, GitError."""
        return find_untrusted(self.rules, self.recorder)

    def untrusted_notice(self, session: SessionKey) -> str:
        rules = self.last_rules or self.rules
        if rules.mode == "observe" or not rules.repository_commands:
            return ""
        return untrusted_notice_once(find_untrusted(rules, self.recorder), self.state, session)
