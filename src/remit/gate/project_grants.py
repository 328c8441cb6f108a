"""Yeses for the whole project: entries of `remit.toml`, which a person commits like any other change of the rules."""

from pathlib import Path

from msgspec.structs import replace

from remit.core.config import Config
from remit.core.contents import sha256
from remit.core.grant import Grant, ProjectGrant
from remit.gate.governing import Governing
from remit.gate.state import State
from remit.workspace.config import ConfigError, config_text, read_config
from remit.workspace.grants_file import with_grant, without_grant
from remit.workspace.intents_writing import IntentsFileChanged, write_intents
from remit.workspace.observe import glance
from remit.workspace.place import Workspace

LOCK = "config.lock"

CannotWrite = (ConfigError, IntentsFileChanged, OSError)
"""What can keep `remit.toml` from being changed."""


class ProjectGrants:
    """The grants in the file of one workspace."""

    def __init__(self, workspace: Workspace, state: State) -> None:
        self.workspace = workspace
        self.state = state

    def put(self, grant: Grant, rules: Governing) -> None:
        """Write a grant down. Raises what CannotWrite names; then the file is as it was."""
        if not self.path.exists() and rules.config != Config():
            raise ConfigError(f"{self.path} is missing, and a new one would hide the settings in force; restore it")
        entry = ProjectGrant(grant.id, grant.code, grant.pattern, grant.command, grant.tool, grant.by)
        text = self.text()
        self.write(text, with_grant(text or "", entry))

    def drop(self, grant_id: str) -> bool:
        """Take a grant out; False where the file has none of that id. Raises what CannotWrite names."""
        found = read_config(self.path)
        if found is None or all(entry.id != grant_id for entry in found.grants):
            return False
        text = self.text() or ""
        self.write(text, without_grant(text, grant_id))
        return True

    @property
    def path(self) -> Path:
        """The file."""
        return self.workspace.config_path

    def text(self) -> str | None:
        """The file as it is, line ends included; None where there is none. Raises ConfigError, OSError."""
        if not self.workspace.folder.is_dir():
            raise ConfigError(f"{self.workspace.folder} is missing; restore it, then say it again")
        return config_text(self.path)

    def write(self, before: str | None, after: str) -> None:
        """Replace the text. Commands of agents that run meanwhile find it so: it is a person's, and none of theirs."""
        expected = None if before is None else sha256(before.encode())
        write_intents(self.path, after, expected_sha256=expected, lock=self.workspace.state / LOCK)
        name, seen = self.path.relative_to(self.workspace.root).as_posix(), glance(self.path)
        now = {name: seen.version if seen else None}
        for call in self.state.open_calls():
            if call.pending is not None and call.pending.whole:
                self.state.put_pending(call.row, replace(call.pending, before={**call.pending.before, **now}))
