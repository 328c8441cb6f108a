"""Sessions: what an agent is told when it begins, and what is recorded when it ends."""

from functools import partial

from remit.core.call import SessionKey
from remit.core.events import SessionEnded, SessionStarted
from remit.core.intent import INTENT_ID
from remit.core.record import Body
from remit.core.text import shown
from remit.gate.answer import Attempts, joined
from remit.gate.between import Between, forget_loose
from remit.gate.governing import Governing
from remit.gate.intents import Binding
from remit.gate.lessons import todo_notice
from remit.gate.pressure import Pressure
from remit.gate.protocol import protocol
from remit.gate.site import Site
from remit.gate.snapshots import Snapshots
from remit.gate.state import Session
from remit.gate.sweep import Sweep
from remit.gate.trusting import notice
from remit.gate.untold import Untold
from remit.workspace.head import branch_name


class Sessions:
    """The sessions of one workspace."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def started(self, event: SessionStarted, agent: str) -> str:
        """A session began, or lost its context: the protocol, and its intent where it has one."""
        rules, tries = self.site.governing, Attempts()
        sweep = Sweep(self.site)
        tries.made(lambda: sweep.swept("session start", partial(is_of, event.session), event.session), "")
        tries.made(lambda: self.begun(event, agent, rules), None)
        tries.made(lambda: Snapshots(self.site).at_start(event.session, agent, sweep.seen), None)
        block = tries.made(lambda: self.block_at_start(event.session, agent), "")
        commands = tries.made(lambda: notice(self.site.untrusted), "") if rules.mode != "observe" else ""
        todo = tries.made(lambda: self.todo(event.session), "") if rules.mode != "observe" else ""
        parts = (protocol(rules.mode, rules.document), block, todo, commands, self.site.news, tries.said)
        return "\n\n".join(filter(None, parts))

    def block_at_start(self, session: SessionKey, agent: str) -> str:
        """The block of the intent that the session works under, or is now bound to."""
        return self.site.intents.bind_unselected(session, agent, self.binding()) or self.site.intents.block_to_tell(
            session
        )

    def todo(self, session: SessionKey) -> str:
        """What waits in `TODO.md`."""
        return todo_notice(self.site.workspace, session)

    def begun(self, event: SessionStarted, agent: str, rules: Governing) -> None:
        """Remember the session, and record that it began."""
        self.site.notice(rules)
        known = self.site.state.session(event.session)
        session = Session(
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
        self.site.recorder.append_or_spool([self.site.recorder.record(body, agent)])

    def binding(self) -> Binding | None:
        """What a session works under where nothing was selected: `REMIT_INTENT`, else the branch's name."""
        if self.site.environment.bound_intent:
            return Binding(self.site.environment.bound_intent, "environment")
        named = INTENT_ID.search(branch_name(self.site.workspace) or "")
        return Binding(named[0], "branch") if named else None

    def prompted(self, session: SessionKey, agent: str) -> str:
        """A person wrote: the intent's block where it changed since the session was told."""
        tries = Attempts()
        tries.made(lambda: self.site.notice(self.site.governing), None)
        tries.made(lambda: Pressure(self.site.state, self.site.environment.clock()).reset(session), None)
        tries.made(lambda: self.noticed(session), None)
        block = tries.made(lambda: self.block_at_prompt(session, agent), "")
        waiting = tries.made(lambda: Untold(self.site.state).taken(session), "")
        return joined(waiting, block, self.site.news, tries.said)

    def noticed(self, session: SessionKey) -> None:
        """Record what people did between the turns."""
        Between(self.site).noticed_everywhere("prompt", self.site.observe(fully=True), session)

    def block_at_prompt(self, session: SessionKey, agent: str) -> str:
        """The block of the session's intent, where it was not told exactly this."""
        if self.site.state.session(session) is None:
            self.site.state.put_session(session, Session(agent=agent), self.site.environment.clock())
        bound = self.site.intents.bind_unselected(session, agent, self.binding())
        return bound or self.site.intents.block_to_tell(session, only_changed=True)

    def ended(self, event: SessionEnded, agent: str) -> str:
        """The conversation is over; the intent stays, for a resume. What could not be done, in words."""
        tries = Attempts()
        settled = tries.made(lambda: self.sweep("session end", event.session, whole=True), "")
        tries.made(lambda: forget_loose(self.site.state, event.session.session_id), None)
        session = tries.made(lambda: self.site.state.active(event.session), Session())
        body = Body(
            event="session_end",
            intent_id=session.intent_id,
            session_id=event.session.session_id,
            detail={"reason": shown(event.reason, 100)},
        )
        tries.made(lambda: self.site.recorder.append_or_spool([self.site.recorder.record(body, agent)]), None)
        return joined(settled, tries.said)

    def turn_ended(self, session: SessionKey) -> str:
        """The agent stopped, for now: settle what is open, and take contents into git. What failed, in words."""
        tries = Attempts()
        settled = tries.made(lambda: self.sweep("turn end", session), "")
        if not self.site.kept_open:  # a process that stays does so when nobody waits for it
            tries.made(self.site.fold, None)
        return joined(settled, tries.said)

    def sweep(self, when: str, session: SessionKey, *, whole: bool = False) -> str:
        """Settle what this session left open; with `whole`, its sub-agents' calls too."""
        return Sweep(self.site).swept(when, partial(is_of, session, whole=whole), session)


def is_of(session: SessionKey, key: SessionKey, *, whole: bool = False) -> bool:
    """Whether a call's session is this one, or with `whole` one of its sub-agents."""
    return key.session_id == session.session_id and (whole or key == session)
