"""The gate: the façade of a workspace that every door calls before a tool runs, and after.

| step | file |
|---|---|
| 4 gather | `gather.py` |
| 5 decide | `policy/decide.py` |
| 6 enforce | `enforce.py` |
| 8 remember | `remember.py` |
| all of them, where the gate's own process runs the tool | `perform.py` |

The other steps of a call (`docs/explanation/one-tool-call.md`) lie outside: knock, listen, translate and answer.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from remit.core.call import Outcome, SessionEnded, SessionKey, SessionStarted, ToolCall
from remit.core.config import TrustItem
from remit.core.decision import UNGOVERNED_DECISION
from remit.core.python_runtime import LazyProperty
from remit.gate.containment.rewrite_call import CommandRewriter, find_token
from remit.gate.context import RECORDING_ERRORS, Answer, WorkspaceContext
from remit.gate.enforce import answer_unrecordable, enforce
from remit.gate.hooks.registered_checks import AfterListener, RegisteredHooks, register_hook
from remit.gate.people.messages import PendingMessages
from remit.gate.people.trust import find_untrusted, untrusted_notice_once
from remit.gate.remember import remember
from remit.gate.undo.governing_files import AgentSettings, can_execute
from remit.policy.decide import Check
from remit.workspace.place.workspace import is_folder

if TYPE_CHECKING:
    import threading

    from remit.gate.intents.intents import IntentCompletion, Intents
    from remit.gate.people.questions import DialogQuestion, QuestionStore
    from remit.gate.perform import CarriedOut, Fate, Performed, ToolOutput
    from remit.gate.session_lifecycle import SessionLifecycle


class Gate(WorkspaceContext):
    """The gate of a workspace. Without governing, every call is allowed and no record is made."""

    def before(self, call: ToolCall, asked: "DialogQuestion | None" = None) -> Answer:
        """Steps 4 to 6: gather, decide, enforce. The decision is recorded before it is returned. `asked` is a question
        that the agent's own dialog puts to a person before this call of Remit's runs.
        """
        if not self.is_governed:
            return self.answer_ungoverned(call)
        try:
            answer = enforce(self, call, self.hooks, asked=asked)
            answer = answer.with_notice(self.untrusted_notice(call.session))
            answer = PendingMessages(self.state).deliver_with_answer(call, answer)
            if call.whole_workspace and can_execute(answer.decision):
                AgentSettings(self).keep_settings()
            return answer.with_notice(self.repair_notice)
        except RECORDING_ERRORS as error:
            return answer_unrecordable(self, call, error)

    def answer_ungoverned(self, call: ToolCall) -> Answer:
        """Let a call pass that nothing governs; unless the person wants none where carried rules do not hold."""
        workspace = self.found_workspace
        if workspace is None or not is_folder(workspace.folder):
            return Answer(UNGOVERNED_DECISION)
        # Imported here: only clones with rules that do not hold need it.
        from remit.gate.people.adoption import judge_ungoverned_call

        decision, reason = judge_ungoverned_call(self.environment.home, workspace, call)
        return Answer(decision, reason=reason)

    def after(self, call: ToolCall, outcome: Outcome) -> Answer:
        """Step 8: remember. A success never becomes a failure; what cannot be recorded waits, and the model is told."""
        if not self.is_governed:
            return Answer(UNGOVERNED_DECISION)
        token = ""
        if call.command:
            # A contained command comes back in the words of the launcher.
            token = find_token(call.command)
            call = CommandRewriter(self).unwrap_returned_call(call)
        return remember(self, call, outcome, self.hooks, token).with_notice(self.repair_notice)

    def perform(
        self,
        call: ToolCall,
        act: "CarriedOut",
        *,
        cancel: "threading.Event | None" = None,
        performed: "ToolOutput | None" = None,
    ) -> "Performed":
        """Take a call of this process through all steps: decide, contain or act, compare, record, once. `performed` is
        the output of a call that acted before a crash. Raises what `act` raises, and RECORDING_ERRORS before it acted.
        """
        # Imported here: no hook performs a call.
        from remit.gate.perform import perform

        return perform(self, self.hooks, call, act, cancel, performed)

    def fate(self, session: SessionKey, call_id: str) -> "Fate":
        """Return what became of a call. Raises RECORDING_ERRORS."""
        from remit.gate.perform import find_fate

        return find_fate(self, session, call_id)

    def revert_files(self, session: SessionKey, call_id: str) -> tuple[str, ...]:
        """Give the files of an open call that has acted in part their contents from before, so that it can run as if
        nothing had happened; return the paths that somebody else changed, and then revert none. Raises
        RECORDING_ERRORS.
        """
        from remit.gate.perform import revert_files

        return revert_files(self, session, call_id)

    # Hooks of a program that embeds the gate

    @LazyProperty
    def hooks(self) -> RegisteredHooks:
        return RegisteredHooks()

    def add_hook(self, name: str, check: Check) -> Callable[[], None]:
        """Register a check that objects to calls as Remit's own checks do; the returned function removes it. A check
        can only tighten: an objection is HOOK_BLOCKED, an exception denies. Raises ValueError for a taken name.
        """
        return register_hook(self.hooks.checks, name, check)

    def add_after_hook(self, name: str, listener: AfterListener) -> Callable[[], None]:
        """Register a listener to completed calls; the model gets its result. A listener that raises is recorded and
        reported, without further effect. Raises ValueError for a taken name.
        """
        return register_hook(self.hooks.listeners, name, listener)

    # Sessions; their modules and the ones below are imported here, as few hooks need them

    @property
    def lifecycle(self) -> "SessionLifecycle":
        from remit.gate.session_lifecycle import SessionLifecycle

        return SessionLifecycle(self)

    def begin_session(self, event: SessionStarted, agent: str) -> str:
        if self.is_governed:
            return self.lifecycle.start_session(event, agent)
        from remit.gate.people.adoption import announce_carried_rules

        return announce_carried_rules(self.environment.home, self.found_workspace)

    def receive_prompt(self, session: SessionKey, agent: str) -> str:
        return self.lifecycle.handle_prompt(session, agent) if self.is_governed else ""

    def end_turn(self, session: SessionKey) -> str:
        return self.lifecycle.end_turn(session) if self.is_governed else ""

    def describe_turn(self, session: SessionKey) -> str:
        if not self.is_governed:
            from remit.gate.people.adoption import announce_once

            return announce_once(self.environment.home, self.found_workspace, session.session_id)
        from remit.gate.session_lifecycle import summarize_turn

        return summarize_turn(self, session)

    def end_session(self, event: SessionEnded, agent: str) -> str:
        return self.lifecycle.end_session(event, agent) if self.is_governed else ""

    def narrow(self, session: SessionKey, *narrowings: Sequence[str], is_alone: bool = False) -> None:
        """Let a session of Remit's own agent change only paths that match the patterns of each narrowing, beside its
        scope; none, or one without patterns, take nothing away. A sub-agent's hold beside its parent's,
        unless they stand alone. Raises IntentError for an invalid pattern, StateError.
        """
        self.intents.narrow_session(session, *narrowings, is_alone=is_alone)

    # What commands, servers and pages ask for

    @property
    def intents(self) -> "Intents":
        from remit.gate.intents.intents import Intents

        return Intents(self)

    @property
    def completion(self) -> "IntentCompletion":
        from remit.gate.intents.intents import IntentCompletion

        return IntentCompletion(self)

    @property
    def questions(self) -> "QuestionStore":
        from remit.gate.people.questions import QuestionStore

        return QuestionStore(self.state, self.environment.clock, self.question_listener)

    @property
    def untrusted_commands(self) -> tuple[TrustItem, ...]:
        """Commands of the repository that no person on the machine trusts. Raises OSError, GitError."""
        return find_untrusted(self, self.rules)

    def untrusted_notice(self, session: SessionKey) -> str:
        rules = self.last_rules or self.rules
        if rules.mode == "observe" or not rules.repository_commands:
            return ""
        return untrusted_notice_once(find_untrusted(self, rules), self.state, session)
