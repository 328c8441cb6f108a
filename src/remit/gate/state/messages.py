"""Messages to a model that wait until an answer can carry them, by session. Raises StateError."""

import json

from remit.core.call import SessionKey
from remit.gate.state.workspace_state import State

MAX_MESSAGE_CHARS = 8000
"""Characters of waiting messages that are kept, the newest ones."""

MESSAGES_FACT = "unsaid"


def load_messages(state: State, session: SessionKey) -> dict[str, str]:
    """Return the waiting messages by call id or ticket; general messages under the empty name."""
    return json.loads(state.read_fact(messages_fact(session)) or "{}")


def store_messages(state: State, session: SessionKey, messages: dict[str, str]) -> None:
    state.put_fact(messages_fact(session), json.dumps(messages))


def add_message(state: State, session: SessionKey, text: str) -> None:
    """Add a general message for a session."""
    if not text:
        return
    with state.group_changes():
        waiting = load_messages(state, session)
        general = "\n".join(filter(None, (waiting.get("", ""), text)))
        store_messages(state, session, {**waiting, "": general[-MAX_MESSAGE_CHARS:]})


def messages_fact(session: SessionKey) -> str:
    return f"{MESSAGES_FACT}:{session.session_id}:{session.agent_id}"
