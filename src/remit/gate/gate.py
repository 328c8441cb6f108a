"""The gate: what every door calls before a tool runs, and after.

The eight steps of a call, as `docs/explanation/one-tool-call.md` tells them, pass through here: gather, decide and
enforce in `judging`, remember in `remembering`.
"""

from collections.abc import Callable

from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.decision import UNGOVERNED, Decision
from remit.core.events import SessionEnded, SessionStarted
from remit.core.once import Once
from remit.gate.answer import Answer, Attempts, CannotRecord, joined
from remit.gate.checking import checked
from remit.gate.completing import Completing
from remit.gate.contained_calls import ContainedCalls, token_in
from remit.gate.contained_refusals import record_refused_writes
from remit.gate.hearing import Hearing
from remit.gate.judging import Judging
from remit.gate.remembering import Remembering
from remit.gate.sessions import Sessions
from remit.gate.site import Site
from remit.gate.steering import Steering, goes_on
from remit.gate.turns import Turns
from remit.gate.twice import KeptAnswers, SharedAnswers, Twice
from remit.gate.untold import Untold
from remit.gate.user_hooks import Listener
from remit.policy.classify import classify
from remit.policy.engine import Check


class Gate(Site):
    """The gate of one workspace. Where nothing is governed, it allows all and records nothing."""

    @Once
    def twice(self) -> Twice:
        """The answers of the last seconds, for events that two hooks tell."""
        try:
            shared = SharedAnswers(self.state, self.environment.unlocked)
        except CannotRecord:
            return KeptAnswers(None)
        return KeptAnswers(shared) if self.kept_open else shared

    @property
    def completing(self) -> Completing:
        """Who closes intents."""
        return Completing(self)

    def add_hook(self, name: str, check: Check) -> Callable[[], None]:
        """Let `check` object to every call from here on, as Remit's own do; what is returned takes it out again.

        It can only tighten: its objection is HOOK_BLOCKED, one that raises denies. Raises ValueError for a name
        that is taken.
        """
        return self.hooks.add(name, check)

    def add_after_hook(self, name: str, listener: Listener) -> Callable[[], None]:
        """Let `listener` hear of every call that came back; what it returns is told to the model.

        One that raises is recorded and told, and changes nothing else. Raises ValueError for a name that is taken.
        """
        return self.hooks.add_after(name, listener)

    def before(self, call: ToolCall) -> Answer:
        """Steps 4 to 6. The decision is recorded before it is returned."""
        if not self.governed:
            return Answer(UNGOVERNED)
        now = self.environment.clock()
        try:
            earlier = self.twice.earlier("before", call, now)
            if earlier is not None:
                return earlier
            answer = Judging(self).judged(call)
            answer = Untold(self.state).before(call, answer.saying(self.untrusted_notice(call.session)))
            if call.whole_workspace and goes_on(answer.decision):
                Steering(self).keep()
            return self.twice.tell("before", call, now, answer.saying(self.news))
        except CannotRecord as error:
            return Judging(self).unrecordable(call, error)

    def after(self, call: ToolCall, outcome: Outcome) -> Answer:
        """Step 8. Never turns a success into a failure; what could not be recorded waits, and is said."""
        if not self.governed:
            return Answer(UNGOVERNED)
        token, now = token_in(call.command) if call.command else "", self.environment.clock()
        call = ContainedCalls(self).returned(call) if call.command else call
        earlier = self.twice.earlier("after", call, now)
        if earlier is not None:
            return earlier
        passed = Decision("allow", "allow", classify(call), "observe")
        remembering = Remembering(self)
        known = remembering.remembered(call, outcome)
        if remembering.news:
            Attempts().made(lambda: Untold(self.state).after(call, outcome, remembering.news), None)
        found = checked(self, call, remembering.own)
        heard = Hearing(self).heard(call, outcome, remembering.changed)
        more = self.after_command(call, outcome, token) if call.whole_workspace else ""
        late = Attempts().made(lambda: Untold(self.state).beside(call, outcome), "")
        told = Answer(passed, context=joined(known, found, heard, more, late)).saying(self.news)
        return self.twice.tell("after", call, now, told)

    def after_command(self, call: ToolCall, outcome: Outcome, token: str) -> str:
        """What is to be said of a call that may have reached anything: it ran bare, it took hooks out."""
        tries = Attempts()
        missed = tries.made(lambda: ContainedCalls(self).missed(call), "")
        tries.made(lambda: Untold(self.state).arrived(call, token), None)
        kept_out = ""
        if token and outcome.read_only and not missed:
            kept_out = tries.made(lambda: record_refused_writes(self, call), "")
            tries.made(lambda: Untold(self.state).after(call, outcome, kept_out), None)
        return joined(missed, kept_out, tries.made(lambda: Steering(self).put_back(call), ""), tries.said)

    def started(self, event: SessionStarted, agent: str) -> str:
        """A session began, or lost its context: the protocol, and its intent where it has one."""
        return Sessions(self).started(event, agent) if self.governed else ""

    def prompted(self, session: SessionKey, agent: str) -> str:
        """A person wrote: the intent's block where it changed since the session was told."""
        return Sessions(self).prompted(session, agent) if self.governed else ""

    def turn_ended(self, session: SessionKey) -> str:
        """The agent stopped, for now. Never refuses; what could not be done, in words."""
        return Sessions(self).turn_ended(session) if self.governed else ""

    def turn_line(self, session: SessionKey) -> str:
        """What the person is told of a turn that just ended; empty where nothing changed."""
        return Turns(self).line(session) if self.governed else ""

    def ended(self, event: SessionEnded, agent: str) -> str:
        """The conversation is over; the intent stays, for a resume. What could not be done, in words."""
        return Sessions(self).ended(event, agent) if self.governed else ""
