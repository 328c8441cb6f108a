"""The text of the intents file, changed in place: one writer at a time, and never a file that has errors."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from remit.core.contents import sha256
from remit.core.intent import Intent, IntentsDocument
from remit.gate.intent_refusals import IntentError
from remit.workspace.intents_edit import add_intent, next_id, remove_intent, set_fields
from remit.workspace.intents_file import parse_intents
from remit.workspace.intents_writing import write_intents
from remit.workspace.place import Workspace


class Rewriting:
    """The intents file of one workspace; `now` is the time that it is to say. All raise IntentError, EditRefused."""

    def __init__(self, workspace: Workspace, now: str) -> None:
        self.workspace = workspace
        self.now = now

    def add(self, intent: Intent, known: IntentsDocument) -> str:
        """Write an intent down as the last one; its id, the next free one where it has none."""
        named = intent if intent.id else replace(intent, id=next_id(known))
        self.rewrite(lambda text: add_intent(text, named, now=self.now))
        return named.id

    def set_fields(self, intent_id: str, changes: Mapping[str, Any]) -> None:
        """Change these fields of an intent."""
        self.rewrite(lambda text: set_fields(text, intent_id, changes, now=self.now))

    def remove(self, intent_id: str) -> None:
        """Take an intent out."""
        self.rewrite(lambda text: remove_intent(text, intent_id))

    def rewrite(self, change: Callable[[str], str]) -> None:
        """Change the file's text; a file with errors is left for a person to mend. Raises IntentError, EditRefused."""
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
