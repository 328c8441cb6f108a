"""The rules of a workspace: mode, intents, ignore file, configuration and hooks, read again only when they change."""

import time
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from remit.core.config import Config
from remit.core.decision import Mode
from remit.core.intent import IntentsDocument, LintFinding
from remit.core.intents.intent_set import IntentSet
from remit.core.team_hooks import NamedHook, TrustItem, list_on_write_items, list_trust_items
from remit.gate.rules.governing_copies import (
    GOVERNING_FILES,
    copies_folder,
    list_governed_hooks,
    read_file_state,
    source_folder,
)
from remit.workspace.intents_file.intent_ignore import IntentIgnore, read_intent_ignore
from remit.workspace.intents_file.storage import read_intents
from remit.workspace.place.config import HOOKS_FOLDER, ConfigError, HookFolder, number_hooks, read_config, read_hooks
from remit.workspace.place.workspace import GOVERNED_MARKER, ORCHESTRATION_FOLDER, Workspace

INTENTS_CACHE = "intents-cache"


class Rules(Struct, frozen=True):
    """The rules in force; `document` is None if there is no intents file, and never was."""

    mode: Mode
    config: Config
    config_error: str | None
    document: IntentsDocument | None
    ignore: IntentIgnore
    intents: IntentSet
    hooks: tuple[NamedHook, ...] = ()
    repository_commands: tuple[TrustItem, ...] = ()
    """Commands that the repository would have Remit run: first `hooks`, in their order, then those of criteria."""
    invalid: bool = False
    """Whether the intents file has errors; computed once, as a thousand intents may have many findings."""


FileStates: TypeAlias = tuple[tuple[int, ...], ...]

UNSETTLED_S = 0.05
"""Age up to which a changed file may change again without a new time."""

RULES_CACHE: dict[Path, tuple[FileStates, Rules]] = {}
"""Rules by workspace, with the states of their files: a process that stays asks for them at every call."""

MAX_CACHED = 64


def load_rules(workspace: Workspace) -> Rules:
    """Return the rules in force. A file that cannot be read becomes an error in the rules, never a guess."""
    states = read_file_states(workspace)
    cached = RULES_CACHE.get(workspace.root)
    if cached is not None and cached[0] == states and states:
        return cached[1]
    rules = read_rules(workspace)
    if len(RULES_CACHE) >= MAX_CACHED:
        RULES_CACHE.clear()
    RULES_CACHE[workspace.root] = (states, rules)
    return rules


def read_file_states(workspace: Workspace) -> FileStates:
    """Return the states of the governing files; empty if a file changed too lately for reliable times."""
    folder = source_folder(workspace)
    paths = (*governing_paths(workspace, folder), *list_governed_hooks(folder / HOOKS_FOLDER))
    states = tuple(read_file_state(path) for path in paths)
    newest = max((times[-1] for times in states), default=0)
    return states if time.time_ns() - newest > UNSETTLED_S * 1e9 else ()


@lru_cache(MAX_CACHED)
def governing_paths(workspace: Workspace, folder: Path) -> tuple[str, ...]:
    """Return the files whose state tells if any rule changed."""
    copies = copies_folder(workspace)
    paths = (
        *(folder, folder / HOOKS_FOLDER, *(folder / name for name in GOVERNING_FILES)),
        *(copies / name for name in GOVERNING_FILES),
        *(workspace.root / ".intentignore", workspace.state / GOVERNED_MARKER),
    )
    return tuple(map(str, paths))


def read_rules(workspace: Workspace) -> Rules:
    """Read all governing files."""
    config, error = load_config(workspace)
    document = load_intents(workspace)
    try:
        ignore = read_intent_ignore(workspace)
    except OSError as failure:
        ignore, error = IntentIgnore(), error or f".intentignore cannot be read ({failure.strerror})"
    folder, hooks_error = load_hooks(workspace)
    error = error or hooks_error
    config = config or Config()
    intents = document.intents if document else ()
    hooks = (*number_hooks("remit.toml", config.hooks), *folder.hooks)
    was_there = document is not None or (copies_folder(workspace) / "active_intents.yaml").exists()
    return Rules(
        mode=effective_mode(config, error, was_there) if workspace.is_governed else "observe",
        config=config,
        config_error=error,
        document=document,
        ignore=ignore,
        intents=IntentSet(intents),
        hooks=hooks,
        repository_commands=(
            *list_trust_items(hooks, folder.files, intents),
            *list_on_write_items(config.verify.on_write),
            *config.containment.trust_items,
        ),
        invalid=document is not None and bool(document.errors),
    )


def load_intents(workspace: Workspace) -> IntentsDocument | None:
    """Return the intents; None if there is no file. A missing folder without any copy is an error."""
    folder = source_folder(workspace)
    if workspace.is_governed and not folder.is_dir():
        lost = f"{ORCHESTRATION_FOLDER}/ is missing, and no copy of it is left. Restore it, or run `remit uninstall`."
        return IntentsDocument(findings=(LintFinding("YAML_PARSE_ERROR", "error", lost),))
    return read_intents(folder / "active_intents.yaml", workspace.state / INTENTS_CACHE)


def load_config(workspace: Workspace) -> tuple[Config | None, str | None]:
    """Return the configuration and its error. If the file was deleted, the newest copy stays in force."""
    try:
        own = read_config(source_folder(workspace) / "remit.toml")
        return own or read_config(copies_folder(workspace) / "remit.toml"), None
    except ConfigError as error:
        return None, f"{ORCHESTRATION_FOLDER}/remit.toml cannot be used: {error}"


def load_hooks(workspace: Workspace) -> tuple[HookFolder, str | None]:
    try:
        return read_hooks(source_folder(workspace) / HOOKS_FOLDER), None
    except ConfigError as error:
        return HookFolder(), f"{ORCHESTRATION_FOLDER}/{error}"


def effective_mode(config: Config | None, error: str | None, was_there: bool) -> Mode:
    """Return the mode where Remit governs. Broken or deleted rules are no way out of enforcement."""
    if error is not None:
        return "enforce"
    if config is not None and config.mode is not None:
        return config.mode
    return "enforce" if was_there else "observe"
