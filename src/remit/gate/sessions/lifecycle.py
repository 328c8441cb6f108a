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
from remit.gate.intents.intents import IntentBinding
from remit.gate.intents.lessons import describe_open_items
from remit.gate.rules.load import Rules
from remit.gate.rules.trust import untrusted_notice
from remit.gate.sessions.pending_messages import PendingMessages
from remit.gate.sessions.protocol import format_protocol
from remit.gate.snapshots.take import SnapshotTaker
from remit.gate.state.setbacks import Setbacks
from remit.gate.state.workspace_state import SessionState
from remit.workspace.git.refs import current_branch


class SessionLifecycle:
    """Sessions of one workspace."""

    def __init__(self, site: WorkspaceContext) -> None:
        self.site = site

    def start_session(self, event: SessionStarted, agent: str) -> str:
        """Return the protocol and the intent's block for a session that began or lost its context."""
        rules, tries = self.site.rules, Attempts()
        sweep = UnfinishedCalls(self.site)
        tries.attempt(
            lambda: sweep.settle_calls("session start", partial(belongs_to_session, event.session), event.session), ""
        )
        tries.attempt(lambda: self.record_start(event, agent, rules), None)
        tries.attempt(
            lambda: SnapshotTaker(self.site).take_at_session_start(event.session, agent, sweep.observation), None
        )
        block = tries.attempt(lambda: self.find_start_block(event.session, agent), "")
        commands = (
            tries.attempt(lambda: untrusted_notice(self.site.untrusted_commands), "") if rules.mode != "observe" else ""
        )
        todo = tries.attempt(lambda: self.describe_todo(event.session), "") if rules.mode != "observe" else ""
        parts = (
            format_protocol(rules.mode, rules.document),
            block,
            todo,
            commands,
            self.site.repair_notice,
            tries.failure_notice,
        )
        return "\n\n".join(filter(None, parts))

    def find_start_block(self, session: SessionKey, agent: str) -> str:
        return self.site.intents.bind_unselected_session(
            session, agent, self.find_binding()
        ) or self.site.intents.deliver_block(session)

    def describe_todo(self, session: SessionKey) -> str:
        return describe_open_items(self.site.workspace, session)

    def record_start(self, event: SessionStarted, agent: str, rules: Rules) -> None:
        """Store the session and record its start."""
        self.site.notice_rules(rules)
        known = self.site.state.find_session(event.session)
        session = SessionState(
            agent=agent,
            model=event.model or (known.model if known else None),
            intent_id=known.intent_id if known else None,
            source=known.source if known else "",
            told=known.told if known else "",
        )
        self.site.state.put_session(event.session, session, self.site.environment.clock())
        detail = {"agent": agent, "model": session.model, "cwd": event.cwd, "source": event.source}
        body = Body(
            event="session_start",
            intent_id=session.intent_id,
            session_id=event.session.session_id,
            detail={key: value for key, value in detail.items() if value is not None},
        )
        self.site.recorder.append_or_spool([self.site.recorder.make_record(body, agent)])

    def find_binding(self) -> IntentBinding | None:
        if self.site.environment.bound_intent:
            return IntentBinding(self.site.environment.bound_intent, "environment")
        named = INTENT_ID.search(current_branch(self.site.workspace) or "")
        return IntentBinding(named[0], "branch") if named else None

    def handle_prompt(self, session: SessionKey, agent: str) -> str:
        """Return pending messages, and the intent's block if it changed, after a person's prompt."""
        tries = Attempts()
        tries.attempt(lambda: self.site.notice_rules(self.site.rules), None)
        tries.attempt(lambda: Setbacks(self.site.state, self.site.environment.clock()).reset(session), None)
        tries.attempt(lambda: self.record_changes_between_turns(session), None)
        block = tries.attempt(lambda: self.find_prompt_block(session, agent), "")
        waiting = tries.attempt(lambda: PendingMessages(self.site.state).take_messages(session), "")
        return join_lines(waiting, block, self.site.repair_notice, tries.failure_notice)

    def record_changes_between_turns(self, session: SessionKey) -> None:
        ChangesBetweenCalls(self.site).record_unattributed_changes("prompt", self.site.observe(fully=True), session)

    def find_prompt_block(self, session: SessionKey, agent: str) -> str:
        """Return the intent's block if the session did not receive the same block before."""
        if self.site.state.find_session(session) is None:
            self.site.state.put_session(session, SessionState(agent=agent), self.site.environment.clock())
        bound = self.site.intents.bind_unselected_session(session, agent, self.find_binding())
        return bound or self.site.intents.deliver_block(session, only_changed=True)

    def end_session(self, event: SessionEnded, agent: str) -> str:
        """Record the session's end and describe failures; the intent stays selected for a resume."""
        tries = Attempts()
        settled = tries.attempt(lambda: self.settle_open_calls("session end", event.session, whole=True), "")
        tries.attempt(lambda: remove_session_with_commands(self.site.state, event.session.session_id), None)
        session = tries.attempt(lambda: self.site.state.active_session(event.session), SessionState())
        body = Body(
            event="session_end",
            intent_id=session.intent_id,
            session_id=event.session.session_id,
            detail={"reason": sanitise_line(event.reason, 100)},
        )
        tries.attempt(lambda: self.site.recorder.append_or_spool([self.site.recorder.make_record(body, agent)]), None)
        return join_lines(settled, tries.failure_notice)

    def end_turn(self, session: SessionKey) -> str:
        """Settle open calls and fold contents into git; describe failures."""
        tries = Attempts()
        settled = tries.attempt(lambda: self.settle_open_calls("turn end", session), "")
        if not self.site.serves_many_calls:  # a process that stays does so when nobody waits for it
            tries.attempt(self.site.fold_contents, None)
        return join_lines(settled, tries.failure_notice)

    def settle_open_calls(self, when: str, session: SessionKey, *, whole: bool = False) -> str:
        """Settle the session's open calls; with `whole`, those of its sub-agents too."""
        return UnfinishedCalls(self.site).settle_calls(when, partial(belongs_to_session, session, whole=whole), session)


def belongs_to_session(session: SessionKey, key: SessionKey, *, whole: bool = False) -> bool:
    """Return True for the session itself, or with `whole` for one of its sub-agents."""
    return key.session_id == session.session_id and (whole or key == session)
