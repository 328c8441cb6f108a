"""Grants for the whole project: entries of `remit.toml`, which people commit like any change of the rules."""

from pathlib import Path

from msgspec.structs import replace

from remit.core.config import Config
from remit.core.diff.contents import sha256
from remit.core.grant import Grant, ProjectGrant
from remit.gate.rules.load import Rules
from remit.gate.state.workspace_state import State
from remit.workspace.intents_file.storage import IntentsFileChanged, write_intents
from remit.workspace.observe.observation import try_observe_file
from remit.workspace.place.config import ConfigError, add_grant, read_config, read_config_text, remove_grant
from remit.workspace.place.workspace import Workspace

LOCK_NAME = "config.lock"

GRANT_WRITE_ERRORS = (ConfigError, IntentsFileChanged, OSError)
"""Errors that can prevent a change of `remit.toml`."""


class ProjectGrants:
    """Grants in the `remit.toml` of one workspace."""

    def __init__(self, workspace: Workspace, state: State) -> None:
        self.workspace = workspace
        self.state = state

    def add_grant(self, grant: Grant, rules: Rules) -> None:
        """Write a grant into the file. Raises GRANT_WRITE_ERRORS and leaves the file unchanged."""
        if not self.path.exists() and rules.config != Config():
            raise ConfigError(f"{self.path} is missing, and a new one would hide the settings in force; restore it")
        entry = ProjectGrant(grant.id, grant.code, grant.pattern, grant.command, grant.tool, grant.by)
        text = self.read_text()
        self.write_text(text, add_grant(text or "", entry))

    def remove_grant(self, grant_id: str) -> bool:
        """Remove a grant; return False if the file has none with this id. Raises GRANT_WRITE_ERRORS."""
        found = read_config(self.path)
        if found is None or all(entry.id != grant_id for entry in found.grants):
            return False
        text = self.read_text() or ""
        self.write_text(text, remove_grant(text, grant_id))
        return True

    @property
    def path(self) -> Path:
        return self.workspace.config_path

    def read_text(self) -> str | None:
        """Return the file's text with its line ends; None if missing. Raises ConfigError, OSError."""
        if not self.workspace.folder.is_dir():
            raise ConfigError(f"{self.workspace.folder} is missing; restore it, then say it again")
        return read_config_text(self.path)

    def write_text(self, before: str | None, after: str) -> None:
        """Replace the text and update the baseline of running commands: the change is a person's, not an agent's."""
        expected = None if before is None else sha256(before.encode())
        write_intents(self.path, after, expected_sha256=expected, lock=self.workspace.state / LOCK_NAME)
        name, seen = self.path.relative_to(self.workspace.root).as_posix(), try_observe_file(self.path)
        now = {name: seen.version if seen else None}
        for call in self.state.list_open_calls():
            if call.pending is not None and call.pending.whole:
                self.state.replace_pending_call(call.row, replace(call.pending, before={**call.pending.before, **now}))
