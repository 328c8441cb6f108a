"""The gate: what every door calls before a tool runs, and after.

The eight steps of a call, as `docs/explanation/one-tool-call.md` tells them, pass through here: gather, decide and
enforce in `judging`, remember in `remembering`.
"""

from collections.abc import Callable

from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.decision import UNGOVERNED_DECISION, Decision
from remit.core.events import SessionEnded, SessionStarted
from remit.core.lazy_property import LazyProperty
from remit.gate.answer import RECORDING_ERRORS, Answer, Attempts, join_lines
from remit.gate.containment.refused_writes import record_refused_writes
from remit.gate.containment.rewrite_call import CommandRewriter, find_token
from remit.gate.context import WorkspaceContext
from remit.gate.double_firing import KeptAnswers, RecentAnswers, SharedAnswers
from remit.gate.enforce import Enforcement
from remit.gate.intents.complete import IntentCompletion
from remit.gate.remember import Remembrance, check_changes
from remit.gate.sessions.lifecycle import SessionLifecycle
from remit.gate.sessions.pending_messages import PendingMessages
from remit.gate.sessions.turn_summary import summarize_turn
from remit.gate.team_hooks.after_call import run_after_hooks
from remit.gate.team_hooks.registry import AfterListener
from remit.gate.undo.agent_settings import AgentSettings, can_execute
from remit.policy.classify import classify
from remit.policy.decide import Check


class Gate(WorkspaceContext):
    """The gate of one workspace. Where nothing is governed, it allows all and records nothing."""

    @LazyProperty
    def double_firing(self) -> RecentAnswers:
        """The answers of the last seconds, for events that two hooks tell."""
        try:
            shared = SharedAnswers(self.state, self.environment.release_lock)
        except RECORDING_ERRORS:
            return KeptAnswers(None)
        return KeptAnswers(shared) if self.serves_many_calls else shared

    @property
    def completion(self) -> IntentCompletion:
        """Who closes intents."""
        return IntentCompletion(self, self.intents)

    def add_hook(self, name: str, check: Check) -> Callable[[], None]:
        """Let `check` object to every call from here on, as Remit's own do; what is returned takes it out again.

        It can only tighten: its objection is HOOK_BLOCKED, one that raises denies. Raises ValueError for a name
        that is taken.
        """
        return self.hooks.add_check(name, check)

    def add_after_hook(self, name: str, listener: AfterListener) -> Callable[[], None]:
        """Let `listener` hear of every call that came back; what it returns is told to the model.

        One that raises is recorded and told, and changes nothing else. Raises ValueError for a name that is taken.
        """
        return self.hooks.add_listener(name, listener)

    def before(self, call: ToolCall) -> Answer:
        """Steps 4 to 6. The decision is recorded before it is returned."""
        if not self.is_governed:
            return Answer(UNGOVERNED_DECISION)
        now = self.environment.clock()
        try:
            earlier = self.double_firing.find_earlier("before", call, now)
            if earlier is not None:
                return earlier
            answer = Enforcement(self).enforce(call)
            answer = PendingMessages(self.state).deliver_with_answer(
                call, answer.with_notice(self.untrusted_notice(call.session))
            )
            if call.whole_workspace and can_execute(answer.decision):
                AgentSettings(self).keep_settings()
            return self.double_firing.remember_answer("before", call, now, answer.with_notice(self.repair_notice))
        except RECORDING_ERRORS as error:
            return Enforcement(self).answer_unrecordable(call, error)

    def after(self, call: ToolCall, outcome: Outcome) -> Answer:
        """Step 8. Never turns a success into a failure; what could not be recorded waits, and is said."""
        if not self.is_governed:
            return Answer(UNGOVERNED_DECISION)
        token, now = find_token(call.command) if call.command else "", self.environment.clock()
        call = CommandRewriter(self).unwrap_returned_call(call) if call.command else call
        earlier = self.double_firing.find_earlier("after", call, now)
        if earlier is not None:
            return earlier
        passed = Decision("allow", "allow", classify(call), "observe")
        remembering = Remembrance(self)
        known = remembering.remember(call, outcome)
        if remembering.undo_notice:
            Attempts().attempt(
                lambda: PendingMessages(self.state).add_unheard_message(call, outcome, remembering.undo_notice), None
            )
        found = check_changes(self, call, remembering.own_paths)
        heard = run_after_hooks(self, self.hooks, call, outcome, remembering.changed_paths)
        more = self.finish_command(call, outcome, token) if call.whole_workspace else ""
        late = Attempts().attempt(lambda: PendingMessages(self.state).take_for_result(call, outcome), "")
        told = Answer(passed, context=join_lines(known, found, heard, more, late)).with_notice(self.repair_notice)
        return self.double_firing.remember_answer("after", call, now, told)

    def finish_command(self, call: ToolCall, outcome: Outcome, token: str) -> str:
        """What is to be said of a call that may have reached anything: it ran bare, it took hooks out."""
        tries = Attempts()
        missed = tries.attempt(lambda: CommandRewriter(self).report_missed_launcher(call), "")
        tries.attempt(lambda: PendingMessages(self.state).drop_contained_result(call, token), None)
        kept_out = ""
        if token and outcome.read_only and not missed:
            kept_out = tries.attempt(lambda: record_refused_writes(self, call), "")
            tries.attempt(lambda: PendingMessages(self.state).add_unheard_message(call, outcome, kept_out), None)
        return join_lines(
            missed, kept_out, tries.attempt(lambda: AgentSettings(self).restore_hooks(call), ""), tries.failure_notice
        )

    def begin_session(self, event: SessionStarted, agent: str) -> str:
        """A session began, or lost its context: the protocol, and its intent where it has one."""
        return SessionLifecycle(self).start_session(event, agent) if self.is_governed else ""

    def receive_prompt(self, session: SessionKey, agent: str) -> str:
        """A person wrote: the intent's block where it changed since the session was told."""
        return SessionLifecycle(self).handle_prompt(session, agent) if self.is_governed else ""

    def end_turn(self, session: SessionKey) -> str:
        """The agent stopped, for now. Never refuses; what could not be done, in words."""
        return SessionLifecycle(self).end_turn(session) if self.is_governed else ""

    def describe_turn(self, session: SessionKey) -> str:
        """What the person is told of a turn that just ended; empty where nothing changed."""
        return summarize_turn(self, session) if self.is_governed else ""

    def end_session(self, event: SessionEnded, agent: str) -> str:
        """The conversation is over; the intent stays, for a resume. What could not be done, in words."""
        return SessionLifecycle(self).end_session(event, agent) if self.is_governed else ""
