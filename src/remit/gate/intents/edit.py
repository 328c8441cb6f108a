"""Edits of the intents file's text: one writer at a time, and never a file with errors."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from remit.core.diff.contents import sha256
from remit.core.intent import Intent, IntentsDocument
from remit.gate.intents.refusals import IntentError
from remit.workspace.intents_file.edit import add_intent, next_id, remove_intent, set_fields
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.intents_file.storage import write_intents
from remit.workspace.place.workspace import Workspace


class IntentsFileEditor:
    """Editor of one workspace's intents file; `now` is the time written into changed intents.

    Every method raises IntentError and EditRefused.
    """

    def __init__(self, workspace: Workspace, now: str) -> None:
        self.workspace = workspace
        self.now = now

    def append_intent(self, intent: Intent, document: IntentsDocument) -> str:
        """Append an intent and return its id: the given id, or the next free one."""
        named = intent if intent.id else replace(intent, id=next_id(document))
        self.edit_text(lambda text: add_intent(text, named, now=self.now))
        return named.id

    def change_fields(self, intent_id: str, changes: Mapping[str, Any]) -> None:
        self.edit_text(lambda text: set_fields(text, intent_id, changes, now=self.now))

    def delete_intent(self, intent_id: str) -> None:
        self.edit_text(lambda text: remove_intent(text, intent_id))

    def edit_text(self, change: Callable[[str], str]) -> None:
        """Apply `change` to the file's text. A file with errors is refused: a person has to mend it first."""
        path = self.workspace.intents_path
        old = path.read_bytes() if path.is_file() else None
        if old is not None and parse_intents(old).errors:
            raise IntentError("active_intents.yaml has errors; mend them first (`remit intent lint` shows them).")
        try:
            text = (old or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise IntentError("active_intents.yaml is not UTF-8; save it as UTF-8 first.") from error
        write_intents(
            path,
            change(text),
            expected_sha256=None if old is None else sha256(old),
            lock=self.workspace.state / "intents.lock",
        )
