"""Grants for the whole project: entries of `remit.toml`, which people commit like any change of the rules."""

from collections.abc import Callable
from datetime import UTC, datetime

from remit.core.config import Config, make_grant_item
from remit.core.decision import Grant, ProjectGrant
from remit.core.diff.contents import sha256
from remit.core.record import format_utc
from remit.gate.context import WorkspaceContext
from remit.gate.governing.rules import Rules
from remit.workspace.intents_file.storage import IntentsFileChanged, write_intents
from remit.workspace.observe.observation import try_observe_file
from remit.workspace.place import config

GRANT_WRITE_ERRORS = (
    config.ConfigError,
    IntentsFileChanged,
    OSError,
)  # errors that can prevent a change of `remit.toml`


def add_project_grant(context: WorkspaceContext, grant: Grant, rules: Rules) -> None:
    path = context.workspace.config_path
    if not path.exists() and rules.config != Config():
        raise config.ConfigError(f"{path} is missing, and a new one would hide the settings in force; restore it")
    entry = ProjectGrant(grant.id, grant.code, grant.pattern, grant.command, grant.tool, grant.by)
    change_config(context, lambda text: config.add_grant(text, entry))
    trust_grant(context, entry)


def remove_project_grant(context: WorkspaceContext, grant_id: str) -> bool:
    found = config.read_config(context.workspace.config_path)
    if found is None or all(entry.id != grant_id for entry in found.grants):
        return False
    change_config(context, lambda text: config.remove_grant(text, grant_id))
    return True


def change_config(context: WorkspaceContext, change: Callable[[str], str]) -> None:
    workspace = context.workspace
    path = workspace.config_path
    if not workspace.folder.is_dir():
        raise config.ConfigError(f"{workspace.folder} is missing; restore it, then say it again")
    before = config.read_config_text(path)
    expected = None if before is None else sha256(before.encode())
    write_intents(path, change(before or ""), expected_sha256=expected, lock=workspace.state / "config.lock")
    seen = try_observe_file(path)
    name = path.relative_to(workspace.root).as_posix()
    context.state.update_running_calls({name: seen.version if seen else None})


def trust_grant(context: WorkspaceContext, grant: ProjectGrant) -> None:
    """Trust a grant that a person has just given here, beside what is trusted already. Raises OSError, GitError."""
    home, repository = context.environment.home, context.recorder.repository
    known = config.read_trust(home, repository)
    commands = (*(known.commands if known else ()), make_grant_item(grant))
    at = format_utc(datetime.fromtimestamp(context.environment.clock.now(), UTC), "seconds")
    config.write_trust(home, config.Trust(repository, str(context.workspace.root), at, commands))
