"""Life of a session: messages at its start and at each prompt, and records at its start and end."""

from functools import partial

from remit.core.call import SessionKey
from remit.core.display_text import sanitise_line
from remit.core.events import SessionEnded, SessionStarted
from remit.core.intent import INTENT_ID
from remit.core.record import Body
from remit.gate.answer import Attempts, join_lines
from remit.gate.context import WorkspaceContext
from remit.gate.effects.between_calls import ChangesBetweenCalls, remove_session_with_commands
from remit.gate.effects.unfinished_calls import UnfinishedCalls
from remit.gate.intents.intents import IntentBinding, Intents, notice_rules
from remit.gate.intents.lessons import describe_open_items
from remit.gate.rules.load import Rules
from remit.gate.rules.trust import find_untrusted, untrusted_notice
from remit.gate.sessions.pending_messages import PendingMessages
from remit.gate.sessions.protocol import format_protocol
from remit.gate.snapshots.take import SnapshotTaker
from remit.gate.state.sessions import SessionState
from remit.gate.state.setbacks import Setbacks
from remit.workspace.git.refs import current_branch


class SessionLifecycle:
    """Sessions of one workspace."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context

    @property
    def intents(self) -> Intents:
        return Intents(self.context.workspace, self.context.state, self.context.recorder)

    def start_session(self, event: SessionStarted, agent: str) -> str:
        """Return the protocol and the intent's block for a session that began or lost its context."""
        context, session = self.context, event.session
        rules, tries = context.rules, Attempts()
        unfinished = UnfinishedCalls(context)
        with tries.step():
            unfinished.settle_calls("session start", partial(belongs_to_session, session), session)
        with tries.step():
            self.record_start(event, agent, rules)
        with tries.step():
            SnapshotTaker(context).take_at_session_start(session, agent, unfinished.observation)
        block = todo = notice = ""
        with tries.step():
            bound = self.intents.bind_unselected_session(session, agent, self.find_binding())
            block = bound or self.intents.deliver_block(session)
        if rules.mode != "observe":
            with tries.step():
                todo = describe_open_items(context.workspace, session)
            with tries.step():
                notice = untrusted_notice(find_untrusted(context.rules, context.recorder))
        protocol = format_protocol(rules.mode, rules.document)
        parts = (protocol, block, todo, notice, context.repair_notice, tries.failure_notice)
        return "\n\n".join(filter(None, parts))

    def record_start(self, event: SessionStarted, agent: str, rules: Rules) -> None:
        """Store the session and record its start."""
        notice_rules(self.context, rules)
        known = self.context.state.find_session(event.session)
        session = SessionState(
            agent=agent,
            model=event.model or (known.model if known else None),
            intent_id=known.intent_id if known else None,
            source=known.source if known else "",
            told=known.told if known else "",
        )
        self.context.state.put_session(event.session, session, self.context.environment.clock())
        detail = {"agent": agent, "model": session.model, "cwd": event.cwd, "source": event.source}
        body = Body(
            event="session_start",
            intent_id=session.intent_id,
            session_id=event.session.session_id,
            detail={key: value for key, value in detail.items() if value is not None},
        )
        self.context.recorder.append_or_spool([self.context.recorder.make_record(body, agent)])

    def find_binding(self) -> IntentBinding | None:
        if self.context.environment.bound_intent:
            return IntentBinding(self.context.environment.bound_intent, "environment")
        named = INTENT_ID.search(current_branch(self.context.workspace) or "")
        return IntentBinding(named[0], "branch") if named else None

    def handle_prompt(self, session: SessionKey, agent: str) -> str:
        """Return pending messages, and the intent's block if it changed, after a person's prompt."""
        context, tries = self.context, Attempts()
        with tries.step():
            notice_rules(context, context.rules)
        with tries.step():
            Setbacks(context.state, context.environment.clock()).reset(session)
        with tries.step():
            between = ChangesBetweenCalls(context)
            between.record_unattributed_changes("prompt", context.observe(fully=True), session)
        block = waiting = ""
        with tries.step():
            block = self.find_prompt_block(session, agent)
        with tries.step():
            waiting = PendingMessages(context.state).take_messages(session)
        return join_lines(waiting, block, context.repair_notice, tries.failure_notice)

    def find_prompt_block(self, session: SessionKey, agent: str) -> str:
        """Return the intent's block if the session did not receive the same block before."""
        if self.context.state.find_session(session) is None:
            self.context.state.put_session(session, SessionState(agent=agent), self.context.environment.clock())
        bound = self.intents.bind_unselected_session(session, agent, self.find_binding())
        return bound or self.intents.deliver_block(session, only_changed=True)

    def end_session(self, event: SessionEnded, agent: str) -> str:
        """Record the session's end and describe failures; the intent stays selected for a resume."""
        context, tries = self.context, Attempts()
        settled, session = "", SessionState()
        with tries.step():
            settled = self.settle_open_calls("session end", event.session, whole=True)
        with tries.step():
            remove_session_with_commands(context.state, event.session.session_id)
        with tries.step():
            session = context.state.active_session(event.session)
        body = Body(
            event="session_end",
            intent_id=session.intent_id,
            session_id=event.session.session_id,
            detail={"reason": sanitise_line(event.reason, 100)},
        )
        with tries.step():
            context.recorder.append_or_spool([context.recorder.make_record(body, agent)])
        return join_lines(settled, tries.failure_notice)

    def end_turn(self, session: SessionKey) -> str:
        """Settle open calls and fold contents into git; describe failures."""
        tries, settled = Attempts(), ""
        with tries.step():
            settled = self.settle_open_calls("turn end", session)
        if not self.context.serves_many_calls:  # the daemon folds later, while no call waits
            with tries.step():
                self.context.fold_contents()
        return join_lines(settled, tries.failure_notice)

    def settle_open_calls(self, when: str, session: SessionKey, *, whole: bool = False) -> str:
        """Settle the session's open calls; with `whole`, those of its sub-agents too."""
        selects = partial(belongs_to_session, session, whole=whole)
        return UnfinishedCalls(self.context).settle_calls(when, selects, session)


def belongs_to_session(session: SessionKey, key: SessionKey, *, whole: bool = False) -> bool:
    """Return True for the session itself, or with `whole` for one of its sub-agents."""
    return key.session_id == session.session_id and (whole or key == session)
