"""Who works under which intent. Each change of that is a record."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.contents import sha256
from remit.core.context_block import RecentChange, context_block
from remit.core.intent import Intent
from remit.core.text import shown
from remit.gate.intent_refusals import Refused, dependency_warnings, scope_warnings, selectable
from remit.gate.intents_file import IntentsFile, body_of, said
from remit.gate.lessons import touching
from remit.gate.state import Session
from remit.ledger.index import Index
from remit.ledger.segments import LedgerError


class Binding(Struct, frozen=True):
    """An intent that a session's surroundings name: `REMIT_INTENT` (`environment`) or its `branch`."""

    intent_id: str
    source: str


class Selection(Struct, frozen=True):
    """A selected intent and what the agent is told about it."""

    intent: Intent
    block: str
    warnings: tuple[str, ...] = ()


class Intents(IntentsFile):
    """The intents of one workspace, and the sessions that work under them."""

    def select(
        self,
        session: SessionKey,
        agent: str,
        intent_id: str,
        *,
        reasoning: str = "",
        expected: Sequence[str] = (),
        tool: str = "select_active_intent",
        source: str = "selected",
    ) -> Selection:
        """Work under an intent from now on. Raises Refused; also what keeps a record from being written."""
        rules = self.rules
        active = self.state.active(session)
        intent = selectable(intent_id, active, rules, tool)
        intents = self.document.intents
        warnings = [*dependency_warnings(intent, intents), *scope_warnings(intent, expected, intents)]
        if intent.status == "DRAFT":
            intent = self.set_status(intent.id, "IN_PROGRESS", by=agent, session=session)
        by = agent if source == "selected" else source
        detail: dict[str, Any] = {"reasoning": said(reasoning), "by": by}
        if expected:
            detail["expected_mutations"] = [shown(path) for path in expected[:100]]
        self.recorder.append([self.record("intent_selected", intent.id, session, detail, agent)])
        block = self.block(intent)
        self.bind(session, agent, intent.id, source, block)
        return Selection(intent, block, tuple(warnings))

    def bind(self, session: SessionKey, agent: str, intent_id: str | None, source: str, block: str) -> None:
        """This session now works under that intent, and has been told `block`. A session stays its first agent's.

        A person who selects for it is in the record; what the session's processes do is the agent's all the same.
        """
        known = self.state.session(session) or Session()
        fresh = Session(
            agent=known.agent or agent,
            model=known.model,
            intent_id=intent_id,
            source=source,
            told=sha256(block.encode("utf-8", "replace")) if block else "",
        )
        self.state.put_session(session, fresh, self.recorder.environment.clock())

    def clear(self, session: SessionKey, agent: str) -> str | None:
        """Work under no intent any more; the id that was released. Raises what keeps a record from being written."""
        active = self.state.active(session).intent_id
        if active is None:
            return None
        self.recorder.append([self.record("intent_cleared", active, session, {"by": agent}, agent)])
        self.bind(session, agent, None, "cleared", "")
        return active

    def bind_unselected(self, session: SessionKey, agent: str, binding: Binding | None) -> str:
        """Bind a session that has selected nothing to what its surroundings name; the block it must be told.

        Nothing where there is no such binding, or where the intent cannot be selected: then nothing is bound.
        """
        active = self.state.active(session)
        if binding is None or active.intent_id is not None or active.source == "cleared":
            return ""
        try:
            return self.select(session, agent, binding.intent_id, source=binding.source).block
        except Refused:
            return ""

    def block_to_tell(self, session: SessionKey, *, only_changed: bool = False) -> str:
        """The active intent's block; with `only_changed`, nothing where the session was told exactly this."""
        active = self.state.active(session)
        intent = self.known(active.intent_id)
        if intent is None:
            return ""
        block = self.block(intent)
        digest = sha256(block.encode("utf-8", "replace"))
        if only_changed and digest == active.told:
            return ""
        self.bind(session, active.agent, active.intent_id, active.source, block)
        return block

    def block(self, intent: Intent) -> str:
        """The context block of an intent: the smallest that constrains the next step."""
        document = self.document
        others = [i for i in document.intents if i.status == "IN_PROGRESS" and i.id != intent.id]
        return context_block(
            intent,
            intents=document.intents,
            recent_changes=self.recent_changes(intent.id),
            lessons=touching(self.workspace, intent),
            others=others,
        )

    def recent_changes(self, intent_id: str, most: int = 10) -> list[RecentChange]:
        """The newest changes under an intent, from the ledger; none where its index cannot be used."""
        try:
            with Index.open(self.workspace.state / "index.db", self.workspace.log_folder) as index:
                found = index.find(event="mutation", intent_id=intent_id, limit=most)
        except (sqlite3.Error, OSError, LedgerError):
            return []
        return [change for document in found for change in changes_in(document)][:most]


def changes_in(document: dict[str, Any]) -> list[RecentChange]:
    """The files of a mutation record, as the context block tells them."""
    body = body_of(document)
    computed: str | None = body.get("mutation_class", {}).get("computed")
    files: list[dict[str, Any]] = body.get("files", [])
    return [
        RecentChange(str(f.get("path")), str(document.get("timestamp")), computed, str(body.get("session_id") or ""))
        for f in files
    ]
