"""A contained command: the call, its ticket, and the rules that its effects are judged by."""

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.config import ContainmentRules
from remit.core.facts import Facts, SessionFacts
from remit.gate.context import WorkspaceContext
from remit.gate.gather import gather_facts
from remit.gate.state.questions import QuestionStore
from remit.gate.state.tickets import Ticket, running_launchers
from remit.gate.undo.find_violations import as_file_tool
from remit.workspace.sandbox.bubblewrap import TEMPORARY_FOLDERS
from remit.workspace.sandbox.sockets import find_contained_sockets, find_sockets


class ContainedCommand(Struct, frozen=True):
    """Command that runs contained.

    `ticket` belongs to an agent's own shell call: its hook decided the call and records its end. `is_staged` is True
    with an overlay: the real tree is untouched until the effects are judged.
    """

    context: WorkspaceContext
    call: ToolCall
    ticket: Ticket | None = None
    is_staged: bool = True

    @property
    def settings(self) -> ContainmentRules:
        return self.context.rules.config.containment

    @property
    def intent_id(self) -> str:
        """Return the command's intent; "" for none. Raises StateError."""
        if self.ticket is not None:
            return self.ticket.intent_id or ""
        return self.context.state.active_session(self.call.session).intent_id or ""

    @property
    def has_network(self) -> bool:
        intent = self.context.rules.intents.get(self.intent_id)
        return intent is None or intent.network == "allow"

    def gather_facts(self) -> Facts:
        """Return the facts for judging effects: those of a file tool without named targets."""
        rules = self.context.rules
        facts = gather_facts(self.context, as_file_tool(self.call), rules).facts
        intent_id = self.ticket.intent_id if self.ticket is not None else facts.session.intent_id
        # Earlier denials and failures stop calls; they do not count against effects of an allowed call.
        session = SessionFacts(intent_id, facts.session.source)
        questions = QuestionStore(self.context.state, self.context.environment.clock)
        return replace(facts, session=session, grants=questions.active_grants(rules.config.grants))

    def find_hidden_sockets(self) -> tuple[Path, ...]:
        """Return the sockets closed to contained commands, except a folder above the workspace itself."""
        environment, root = self.context.environment, self.context.workspace.root
        temporary = (*map(Path, TEMPORARY_FOLDERS), environment.temporary)
        own = find_contained_sockets(running_launchers(self.context.state))
        found = find_sockets(environment.home, temporary, ssh_agent=self.settings.ssh_agent, excluded=own)
        return tuple(door for door in found if not root.is_relative_to(door))
