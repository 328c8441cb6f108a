"""What governs a workspace now: its mode, its intents, its ignore file, its hooks."""

import os
import re
import time
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from remit.core.config import Config
from remit.core.decision import Mode
from remit.core.diff.contents import sha256
from remit.core.intent import IntentsDocument, LintFinding
from remit.core.intents.intent_set import IntentSet
from remit.core.team_hooks import NamedHook, TrustItem, list_on_write_items, list_trust_items
from remit.workspace.files.atomic import remove_below, write_below
from remit.workspace.intents_file.intent_ignore import IntentIgnore, read_intent_ignore
from remit.workspace.intents_file.storage import read_intents
from remit.workspace.place.config import (
    HOOKS_FOLDER,
    ConfigError,
    HookFolder,
    list_hook_files,
    number_hooks,
    read_config,
    read_config_text,
    read_hooks,
)
from remit.workspace.place.workspace import (
    ENFORCE_MARKER,
    GOVERNED_MARKER,
    ORCHESTRATION_FOLDER,
    Workspace,
    find_main_worktree,
    is_folder,
    path_exists,
)

INTENTS_CACHE = "intents-cache"
COPIES_FOLDER = "governing"
VERSIONS_FOLDER = "versions"
GOVERNING_FILES = ("active_intents.yaml", "remit.toml", ".intentignore")

TABLE_START = re.compile(r"^[ \t]*\[", re.MULTILINE)
MODE_LINE = re.compile(r"""^[ \t]*mode[ \t]*=[ \t]*(?:"[^"\r\n]*"|'[^'\r\n]*'|[^\s#]*)""", re.MULTILINE)
"""Up to the value's end: a comment behind it stays."""


class Rules(Struct, frozen=True):
    """The rules in force. `document` is None where there is no intents file, and never was."""

    mode: Mode
    config: Config
    config_error: str | None
    document: IntentsDocument | None
    ignore: IntentIgnore
    intents: IntentSet
    hooks: tuple[NamedHook, ...] = ()
    repository_commands: tuple[TrustItem, ...] = ()
    """What the repository would have Remit run: first `hooks`, in their order, then the commands of criteria."""
    invalid: bool = False
    """Whether the intents file has errors; told once, as a thousand intents may have many findings."""


FileStates: TypeAlias = tuple[tuple[int, ...], ...]

UNSETTLED_S = 0.05
"""A file changed this lately may change again without its times telling."""

RULES_CACHE: dict[Path, tuple[FileStates, Rules]] = {}
"""What was read last, by workspace, with the state that its files had then. A cache: it may be emptied at any time."""

MAX_CACHED = 64


def load_rules(workspace: Workspace) -> Rules:
    """What governs. What cannot be read is told as an error, never guessed."""
    now = read_file_states(workspace)
    known = RULES_CACHE.get(workspace.root)
    if known is not None and known[0] == now and now:
        return known[1]
    found = read_rules(workspace)
    if len(RULES_CACHE) >= MAX_CACHED:
        RULES_CACHE.clear()
    RULES_CACHE[workspace.root] = (now, found)
    return found


def read_file_states(workspace: Workspace) -> FileStates:
    """The state of the files that govern; empty where one changed so lately that its times prove nothing."""
    folder = source_folder(workspace)
    found = tuple(
        read_file_state(path)
        for path in (*governing_paths(workspace, folder), *list_governed_hooks(folder / HOOKS_FOLDER))
    )
    newest = max((times[-1] for times in found), default=0)
    return found if time.time_ns() - newest > UNSETTLED_S * 1e9 else ()


@lru_cache(MAX_CACHED)
def governing_paths(workspace: Workspace, folder: Path) -> tuple[str, ...]:
    """The files whose state tells whether anything changed; put together once, as this is asked for every call."""
    copies = copies_folder(workspace)
    paths = (
        *(
            folder,
            folder / HOOKS_FOLDER,
            *(folder / name for name in GOVERNING_FILES),
            *(copies / name for name in GOVERNING_FILES),
        ),
        *(workspace.root / ".intentignore", workspace.state / GOVERNED_MARKER),
    )
    return tuple(map(str, paths))


def list_governed_hooks(folder: Path) -> list[Path]:
    """The files of the hooks folder; none where there are too many, which is an error of its own."""
    try:
        return list_hook_files(folder) if is_folder(folder) else []
    except ConfigError:
        return []


def read_file_state(path: Path | str) -> tuple[int, ...]:
    """What changes whenever the file at `path` does."""
    try:
        status = os.stat(path)  # noqa: PTH116  a Path would be made anew for each of ten files, for every call
    except OSError:
        return (0,)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def read_rules(workspace: Workspace) -> Rules:
    """Read what governs."""
    config, error = load_config(workspace)
    document = load_intents(workspace)
    try:
        ignore = read_intent_ignore(workspace)
    except OSError as failure:
        ignore, error = IntentIgnore(), error or f".intentignore cannot be read ({failure.strerror})"
    folder, broken = load_hooks(workspace)
    error = error or broken
    config = config or Config()
    intents_now = document.intents if document else ()
    hooks = (*number_hooks("remit.toml", config.hooks), *folder.hooks)
    was_there = document is not None or (copies_folder(workspace) / "active_intents.yaml").exists()
    return Rules(
        mode=effective_mode(config, error, was_there) if workspace.is_governed else "observe",
        config=config,
        config_error=error,
        document=document,
        ignore=ignore,
        intents=IntentSet(intents_now),
        hooks=hooks,
        repository_commands=(
            *list_trust_items(hooks, folder.files, intents_now),
            *list_on_write_items(config.verify.on_write),
            *config.containment.trust_items,
        ),
        invalid=document is not None and bool(document.errors),
    )


def load_intents(workspace: Workspace) -> IntentsDocument | None:
    """The intents; None where there is no file. Where even the folder is gone, and every copy, that is an error."""
    folder = source_folder(workspace)
    if workspace.is_governed and not folder.is_dir():
        lost = f"{ORCHESTRATION_FOLDER}/ is missing, and no copy of it is left. Restore it, or run `remit uninstall`."
        return IntentsDocument(findings=(LintFinding("YAML_PARSE_ERROR", "error", lost),))
    return read_intents(folder / "active_intents.yaml", workspace.state / INTENTS_CACHE)


def load_config(workspace: Workspace) -> tuple[Config | None, str | None]:
    """The configuration and what is wrong with it. Where the file was deleted, the newest copy goes on to hold."""
    try:
        own = read_config(source_folder(workspace) / "remit.toml")
        return own or read_config(copies_folder(workspace) / "remit.toml"), None
    except ConfigError as error:
        return None, f"{ORCHESTRATION_FOLDER}/remit.toml cannot be used: {error}"


def load_hooks(workspace: Workspace) -> tuple[HookFolder, str | None]:
    """The hooks of the folder and what is wrong with them. One broken file is enough for none of them to run."""
    try:
        return read_hooks(source_folder(workspace) / HOOKS_FOLDER), None
    except ConfigError as error:
        return HookFolder(), f"{ORCHESTRATION_FOLDER}/{error}"


def source_folder(workspace: Workspace) -> Path:
    """The `.orchestration/` that governs: the workspace's own; where it is missing (an old commit, a stash, a fresh
    worktree), the main worktree's; else the newest copy that Remit kept.
    """
    if workspace.folder.is_dir():
        return workspace.folder
    main = find_main_worktree(workspace)
    if main is not None and (main / ORCHESTRATION_FOLDER).is_dir():
        return main / ORCHESTRATION_FOLDER
    return copies_folder(workspace)


def copies_folder(workspace: Workspace) -> Path:
    """Where copies of what governs are kept: one place for all worktrees, and one for each nested workspace."""
    folder = workspace.state / COPIES_FOLDER
    return folder / sha256(os.fsencode(workspace.root))[:16] if workspace.is_nested else folder


def state_root(workspace: Workspace) -> Path:
    """The folder that Remit's state cannot lie outside of: git's, or the workspace itself."""
    return workspace.common_dir or workspace.root


def effective_mode(config: Config | None, error: str | None, was_there: bool) -> Mode:
    """The mode in force where Remit governs. Broken or deleted rules are no way out of enforcement."""
    if error is not None:
        return "enforce"
    if config is not None and config.mode is not None:
        return config.mode
    return "enforce" if was_there else "observe"


def copies_signature(workspace: Workspace) -> str:
    """What changes whenever one of the files that are kept does."""
    folder = source_folder(workspace)
    return repr(
        [
            read_file_state(path)
            for path in (*(folder / name for name in GOVERNING_FILES), *list_governed_hooks(folder / HOOKS_FOLDER))
        ]
    )


def save_copies(workspace: Workspace) -> None:
    """Keep what governs now, for the day its folder is missing. Raises OSError."""
    copies, top = copies_folder(workspace), state_root(workspace)
    copies.mkdir(parents=True, exist_ok=True)
    folder = source_folder(workspace)
    if folder == copies:
        return
    for name in GOVERNING_FILES:
        source = folder / name
        if source.is_file():
            write_below(top, copies / name, source.read_bytes())
    save_intents_version(top, copies / VERSIONS_FOLDER, folder / GOVERNING_FILES[0])
    save_hooks(top, folder / HOOKS_FOLDER, copies / HOOKS_FOLDER)


def save_intents_version(top: Path, folder: Path, intents: Path) -> None:
    """Keep each content that the intents file had, by its hash: records name it so. Raises OSError."""
    content = intents.read_bytes() if intents.is_file() else b""
    path = folder / sha256(content)
    if content and not path.exists():
        write_below(top, path, content)


def save_hooks(top: Path, source: Path, copies: Path) -> None:
    """Make the copy of the hooks folder what the folder is now. Raises OSError."""
    wanted = {path.relative_to(source): path for path in list_governed_hooks(source) if path.is_file()}
    for path in list_governed_hooks(copies):
        if path.relative_to(copies) not in wanted:
            remove_below(top, path)
    for name, path in wanted.items():
        write_below(top, copies / name, path.read_bytes(), path.stat().st_mode & 0o777)


def govern_workspace(workspace: Workspace) -> None:
    """Start governing here: the state folder, its marker, and what git should ignore. Raises OSError."""
    workspace.state.mkdir(parents=True, exist_ok=True)
    workspace.folder.mkdir(exist_ok=True)
    ignored = workspace.folder / ".gitignore"
    if not ignored.exists():
        write_below(workspace.root, ignored, b"agent_trace.jsonl\nintent_map.md\nTODO.md\n.state/\n")
    set_governed_marker(workspace)
    update_marker(workspace, load_rules(workspace).mode)


def resume_governing(workspace: Workspace) -> None:
    """Govern again where Remit's state was deleted. Nothing else is made: what is missing is told. Raises OSError."""
    workspace.state.mkdir(parents=True, exist_ok=True)
    set_governed_marker(workspace)
    update_marker(workspace, load_rules(workspace).mode)


def set_governed_marker(workspace: Workspace) -> None:
    """Set the marker; a nested workspace is named in it. Raises OSError."""
    marker = workspace.state / GOVERNED_MARKER
    marker.touch()
    if workspace.is_nested and os.fsencode(workspace.root) not in workspace.governed_nested_roots:
        with marker.open("ab") as file:
            file.write(os.fsencode(workspace.root) + b"\0")


def update_marker(workspace: Workspace, mode: Mode) -> None:
    """Keep the marker true that tells a failing hook client whether to deny. Raises OSError.

    Several workspaces may share a repository: the marker names those that enforce, and goes with the last.
    """
    marker, own = workspace.state / ENFORCE_MARKER, os.fsencode(workspace.root)
    if MARKER_CACHE.get(marker) == (own, mode, read_file_state(marker)):
        return
    there = marker.exists()
    before = set(marker.read_bytes().split(b"\0")) - {b""} if there else set[bytes]()
    others = {root for root in before - {own} if is_workspace(Path(os.fsdecode(root)))}
    now = others | {own} if mode == "enforce" else others
    if now and (now != before or not there):
        write_below(state_root(workspace), marker, b"\0".join(sorted(now)))
    elif not now:
        marker.unlink(missing_ok=True)
    if others or len(MARKER_CACHE) >= MAX_CACHED:
        MARKER_CACHE.clear()
    if not others:
        MARKER_CACHE[marker] = (own, mode, read_file_state(marker))


MARKER_CACHE: dict[Path, tuple[bytes, Mode, tuple[int, ...]]] = {}
"""The markers that were found true, with the state that they had then. A cache: it may be emptied at any time."""


def is_workspace(root: Path) -> bool:
    """Whether that folder is a workspace yet."""
    return is_folder(root / ORCHESTRATION_FOLDER) or path_exists(root / ".git")


def read_mode(path: Path) -> Mode | None:
    """The mode that the file says; None where it cannot be read."""
    try:
        return (read_config(path) or Config()).mode
    except ConfigError:
        return None


def set_mode(workspace: Workspace, mode: Mode) -> None:
    """Write the mode into `remit.toml`, all else in it byte for byte as it was. Raises ConfigError, OSError."""
    path = workspace.config_path
    old = read_config_text(path) or ""
    ending = "\r\n" if "\r\n" in old else "\n"
    top = TABLE_START.search(old)
    known, tail = (old[: top.start()], old[top.start() :]) if top else (old, "")
    line = f'mode = "{mode}"'
    head = MODE_LINE.sub(line, known, count=1) if MODE_LINE.search(known) else f"{line}{ending}{known}"
    workspace.folder.mkdir(exist_ok=True)
    write_below(workspace.root, path, (head + tail).encode())
    if read_mode(path) != mode:
        write_below(workspace.root, path, old.encode())
        raise ConfigError(f"{path} could not be changed safely; set `{line}` at its top by hand")
    save_copies(workspace)
    update_marker(workspace, mode)
