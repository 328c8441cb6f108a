"""The rules of a workspace: mode, intents, ignore file, configuration and hooks, read again only when they change.
Copies of the governing files stay in force while `.orchestration/` is missing; markers tell Remit and the hook client
which workspaces are governed, and which enforce.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, json
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.config import Config, NamedHook, TrustItem, list_on_write_items, list_trust_items, make_grant_item
from remit.core.decision import Mode
from remit.core.diff.contents import sha256
from remit.core.intent import IntentsDocument, IntentSet, LintFinding
from remit.core.scope.path_patterns import InvalidPath
from remit.policy.decide import classify
from remit.workspace.intents_file.storage import IntentIgnore, read_intent_ignore, read_intents
from remit.workspace.place.config import (
    HOOKS_FOLDER,
    ConfigError,
    HookFolder,
    decode_toml,
    list_hook_files,
    number_hooks,
    read_config,
    read_config_text,
    read_hooks,
    set_value,
)
from remit.workspace.place.resolve_paths import resolve_real_paths
from remit.workspace.place.workspace import (
    ENFORCE_MARKER,
    GOVERNED_MARKER,
    ORCHESTRATION_FOLDER,
    Workspace,
    find_main_worktree,
    find_session_workspaces,
    is_folder,
    locate_by_real_path,
    locate_workspace,
    path_exists,
)
from remit.workspace.safe_files import read_tail, remove_below, write_below

if TYPE_CHECKING:
    from remit.core.strictness import RuleSet

COPIES_FOLDER = "governing"
VERSIONS_FOLDER = "versions"  # folder of all contents that the intents file ever had, by SHA-256: records name them so
INTENTS_CACHE = "intents-cache"
ACCEPTED_FILE, ACCEPTED_BYTES = "accepted", 1 << 15
"""File of the digests of accepted rules, beside the copies."""
GOVERNING_FILES = ("active_intents.yaml", "remit.toml", ".intentignore")

UNSETTLED_S = 0.05  # age up to which a changed file may change again without a new time
MAX_CACHED = 64


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
    digest: str = ""
    """SHA-256 of what judges calls, as the files have it."""
    is_accepted: bool = False
    """Whether exactly these rules were in force before."""
    loosened: tuple[tuple[str, str], ...] = ()
    """What git brought that would loosen the accepted rules, and does not hold: in fixed words, and in full."""


FileStates: TypeAlias = tuple[tuple[int, ...], ...]

RULES_CACHE: dict[Path, tuple[FileStates, Rules]] = {}
"""Rules by workspace, with the states of their files: a process that stays asks for them at every call."""


# Copies


def source_folder(workspace: Workspace) -> Path:
    """Return the `.orchestration/` in force: the workspace's own, else the main worktree's, else the newest copy. The
    workspace's own is missing at an old commit, after a stash, or in a fresh worktree. Where an attempt works, the main
    worktree's governs whatever the attempt has brought in.
    """
    if workspace.folder.is_dir() and not workspace.is_assigned:
        return workspace.folder
    main = find_main_worktree(workspace)
    if main is not None and (main / ORCHESTRATION_FOLDER).is_dir():
        return main / ORCHESTRATION_FOLDER
    return copies_folder(workspace)


def copies_folder(workspace: Workspace) -> Path:
    folder = workspace.state / COPIES_FOLDER
    return folder / sha256(os.fsencode(workspace.root))[:16] if workspace.is_nested else folder


def save_copies(workspace: Workspace) -> None:
    """Copy the governing files as they are now. Raises OSError."""
    copies, folder, root = copies_folder(workspace), source_folder(workspace), workspace.common_dir or workspace.root
    copies.mkdir(parents=True, exist_ok=True)
    if folder == copies:
        return
    contents = {name: (folder / name).read_bytes() for name in GOVERNING_FILES if (folder / name).is_file()}
    for name, content in contents.items():
        write_below(root, copies / name, content)
    intents = contents.get(GOVERNING_FILES[0], b"")
    version = copies / VERSIONS_FOLDER / sha256(intents)
    if intents and not version.exists():
        write_below(root, version, intents)

    hooks, copied_hooks = folder / HOOKS_FOLDER, copies / HOOKS_FOLDER
    wanted = {path.relative_to(hooks): path for path in list_governed_hooks(hooks) if path.is_file()}
    for path in list_governed_hooks(copied_hooks):
        if path.relative_to(copied_hooks) not in wanted:
            remove_below(root, path)
    for name, path in wanted.items():
        write_below(root, copied_hooks / name, path.read_bytes(), path.stat().st_mode & 0o777)


def copies_signature(workspace: Workspace) -> str:
    folder = source_folder(workspace)
    paths = (*(folder / name for name in GOVERNING_FILES), *list_governed_hooks(folder / HOOKS_FOLDER))
    return repr([read_file_state(path) for path in paths])


def list_governed_hooks(folder: Path) -> list[Path]:
    try:
        return list_hook_files(folder) if is_folder(folder) else []
    except ConfigError:
        return []


def read_file_state(path: Path | str) -> tuple[int, ...]:
    """Return device, inode, size and times of a file: any change of the file shows in them."""
    try:
        status = os.stat(path)  # noqa: PTH116  a Path would be made anew for each of ten files, for every call
    except OSError:
        return (0,)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


# Rules in force


def load_rules(workspace: Workspace) -> Rules:
    """Return the rules in force. A file that cannot be read becomes an error in the rules, never a guess. Where an
    attempt of a plan works they are enforced, whatever the mode: others were promised that it stays in its set.
    """
    rules = load_written_rules(workspace)
    return replace(rules, mode="enforce") if rules.mode != "enforce" and workspace.is_assigned else rules


def load_written_rules(workspace: Workspace) -> Rules:
    """Return the rules as the governing files have them, from memory where none has changed."""
    folder = source_folder(workspace)
    paths = (*governing_paths(workspace, folder), *list_governed_hooks(folder / HOOKS_FOLDER))
    states = tuple(read_file_state(path) for path in paths)
    newest = max((times[-1] for times in states), default=0)
    is_settled = time.time_ns() - newest > UNSETTLED_S * 1e9
    cached = RULES_CACHE.get(workspace.root)
    if is_settled and cached is not None and cached[0] == states:
        return cached[1]
    rules = hold_accepted_rules(workspace, folder, read_rules(workspace))
    if len(RULES_CACHE) >= MAX_CACHED:
        RULES_CACHE.clear()
    RULES_CACHE[workspace.root] = (states if is_settled else (), rules)
    return rules


@lru_cache(MAX_CACHED)
def governing_paths(workspace: Workspace, folder: Path) -> tuple[str, ...]:
    names = (copies_folder(workspace) / name for name in GOVERNING_FILES)
    paths = (folder, folder / HOOKS_FOLDER, *(folder / name for name in GOVERNING_FILES), *names)
    accepted = (copies_folder(workspace) / ACCEPTED_FILE, copies_folder(workspace) / "baseline")
    return tuple(map(str, (*paths, *accepted, workspace.root / ".intentignore", workspace.state / GOVERNED_MARKER)))


def read_rules(workspace: Workspace) -> Rules:
    """Read all governing files. Of several errors the first one counts, and each leads to enforcement."""
    folder, copies = source_folder(workspace), copies_folder(workspace)
    ignore, hook_folder = IntentIgnore(), HookFolder()
    config, config_error = load_config(workspace)
    config, errors = config or Config(), [config_error] if config_error else []
    try:
        ignore = read_intent_ignore(workspace)
    except OSError as failure:
        errors.append(f".intentignore cannot be read ({failure.strerror})")
    try:
        hook_folder = read_hooks(folder / HOOKS_FOLDER)
    except ConfigError as failure:
        errors.append(f"{ORCHESTRATION_FOLDER}/{failure}")

    if workspace.is_governed and not folder.is_dir():
        lost = f"{ORCHESTRATION_FOLDER}/ is missing, and no copy of it is left. Restore it, or run `remit uninstall`."
        document = IntentsDocument(findings=(LintFinding("YAML_PARSE_ERROR", "error", lost),))
    else:
        document = read_intents(folder / GOVERNING_FILES[0], workspace.state / INTENTS_CACHE)

    # Broken or deleted rules are no way out of enforcement.
    mode: Mode = "observe"
    if workspace.is_governed:
        was_there = document is not None or (copies / GOVERNING_FILES[0]).exists()
        mode = "enforce" if errors else config.mode or ("enforce" if was_there else "observe")
    hooks = (*number_hooks("remit.toml", config.hooks), *hook_folder.hooks)
    intents = document.intents if document else ()
    return Rules(
        mode=mode,
        config=config,
        config_error=errors[0] if errors else None,
        document=document,
        ignore=ignore,
        intents=IntentSet(intents),
        hooks=hooks,
        repository_commands=(
            *list_trust_items(hooks, hook_folder.files, intents),
            *list_on_write_items(config.verify.on_write),
            *config.containment.trust_items,
            *config.console.trust_items,
            *config.orchestrator.trust_items,
            *config.verify.landing_items,
            *map(make_grant_item, config.grants),
        ),
        invalid=document is not None and bool(document.errors),
    )


def hold_accepted_rules(workspace: Workspace, folder: Path, rules: Rules) -> Rules:
    """Return the rules in force: the files', or the stricter accepted ones where git has brought looser ones. Rules
    with an error are in enforce, and replace nothing.
    """
    copies = copies_folder(workspace)
    if not workspace.is_governed or rules.config_error is not None or folder == copies:
        return rules
    document = rules.document.sha256 if rules.document else ""
    parts = (rules.mode, json.encode(rules.config), document, sorted(rules.ignore.intents), rules.ignore.patterns)
    rules = replace(rules, digest=sha256(repr(parts).encode()))
    if rules.digest.encode() in read_tail(copies / ACCEPTED_FILE, ACCEPTED_BYTES).split():
        return replace(rules, is_accepted=True)
    # Imported here: few calls find rules that nobody has accepted yet.
    from remit.workspace.accepted_rules import AcceptedRules

    held, loosened = AcceptedRules(workspace, copies, folder.parent).hold(make_rule_set(rules))
    if not loosened:
        return rules
    intents = held.intents
    return replace(
        rules,
        mode=held.mode,
        config=held.config,
        document=replace(rules.document, intents=intents) if rules.document else None,
        intents=IntentSet(intents),
        ignore=IntentIgnore(frozenset(held.barred), held.patterns),
        loosened=tuple((one.what, one.change) for one in loosened),
    )


def make_rule_set(rules: Rules) -> "RuleSet":
    from remit.core.strictness import RuleSet

    intents = rules.document.intents if rules.document else ()
    ignore = rules.ignore
    return RuleSet(rules.mode, rules.config, intents, tuple(sorted(ignore.intents)), ignore.patterns)


def accept_rules(workspace: Workspace, rules: Rules, *, by_person: bool = False) -> None:
    """Keep the files' rules as accepted. Raises OSError."""
    from remit.workspace.accepted_rules import AcceptedRules

    accepted = AcceptedRules(workspace, copies_folder(workspace), source_folder(workspace).parent)
    accepted.accept(make_rule_set(rules), rules.digest, by_person=by_person)


def accept_present_rules(workspace: Workspace) -> None:
    """Accept the rules that are there where a person begins to govern. Raises OSError."""
    rules = load_rules(workspace)
    if rules.digest and not rules.loosened and not rules.invalid:
        accept_rules(workspace, rules)


def accept_change(workspace: Workspace, change: "Callable[[RuleSet, RuleSet], RuleSet]") -> None:
    """Accept one change that a person made through Remit: `change` takes it from the files' rules into those that were
    accepted. Raises OSError.
    """
    from remit.workspace.accepted_rules import AcceptedRules

    found = make_rule_set(read_rules(workspace))
    accepted = AcceptedRules(workspace, copies_folder(workspace), source_folder(workspace).parent)
    accepted.change_baseline(lambda rules: change(rules, found), found)


def load_config(workspace: Workspace) -> tuple[Config | None, str | None]:
    try:
        own = read_config(source_folder(workspace) / "remit.toml")
        return own or read_config(copies_folder(workspace) / "remit.toml"), None
    except ConfigError as error:
        return None, f"{ORCHESTRATION_FOLDER}/remit.toml cannot be used: {error}"


# Markers

IGNORED_FILES = b"agent_trace.jsonl\nintent_map.md\nTODO.md\n.state/\n"  # content of `.orchestration/.gitignore`
TABLE_START = re.compile(r"^[ \t]*\[", re.MULTILINE)
MODE_LINE = re.compile(r"""^[ \t]*mode[ \t]*=[ \t]*(?:"[^"\r\n]*"|'[^'\r\n]*'|[^\s#]*)""", re.MULTILINE)
"""The mode's line up to the end of its value: a comment behind it stays."""


def govern_workspace(workspace: Workspace) -> None:
    """Begin to govern: make the state folder, its marker, and the files that git should ignore. Raises OSError."""
    workspace.folder.mkdir(exist_ok=True)
    ignored = workspace.folder / ".gitignore"
    if not ignored.exists():
        write_below(workspace.root, ignored, IGNORED_FILES)
    resume_governing(workspace)


def resume_governing(workspace: Workspace) -> None:
    """Set the marker, with the root of a nested workspace; also after a deletion of Remit's state. Raises OSError."""
    workspace.state.mkdir(parents=True, exist_ok=True)
    marker = workspace.state / GOVERNED_MARKER
    marker.touch()
    if workspace.is_nested and os.fsencode(workspace.root) not in workspace.governed_nested_roots:
        with marker.open("ab") as file:
            file.write(os.fsencode(workspace.root) + b"\0")
    update_marker(workspace, load_rules(workspace).mode)


def update_marker(workspace: Workspace, mode: Mode) -> None:
    """Keep the marker true that tells a failing hook client whether to deny. Raises OSError. The marker names the
    enforcing workspaces of a repository, and is deleted with the last of them.
    """
    marker, own = workspace.state / ENFORCE_MARKER, os.fsencode(workspace.root)
    before = set(marker.read_bytes().split(b"\0")) - {b""} if marker.exists() else None
    others = ((root, Path(os.fsdecode(root))) for root in (before or set()) - {own})
    enforcing = {root for root, path in others if is_folder(path / ORCHESTRATION_FOLDER) or path_exists(path / ".git")}
    enforcing |= {own} if mode == "enforce" else set()
    if enforcing and enforcing != before:
        write_below(workspace.common_dir or workspace.root, marker, b"\0".join(sorted(enforcing)))
    elif not enforcing and before is not None:
        marker.unlink(missing_ok=True)


def set_mode(workspace: Workspace, mode: Mode) -> None:
    """Write the mode into `remit.toml`, and leave the rest byte for byte. Raises ConfigError, OSError."""
    path = workspace.config_path
    old = read_config_text(path) or ""
    ending = "\r\n" if "\r\n" in old else "\n"
    table = TABLE_START.search(old)
    top, tables = (old[: table.start()], old[table.start() :]) if table else (old, "")
    line = f'mode = "{mode}"'
    top = MODE_LINE.sub(line, top, count=1) if MODE_LINE.search(top) else f"{line}{ending}{top}"
    workspace.folder.mkdir(exist_ok=True)
    write_below(workspace.root, path, (top + tables).encode())
    written: Mode | None = None
    with suppress(ConfigError):
        written = (read_config(path) or Config()).mode
    if written != mode:
        write_below(workspace.root, path, old.encode())
        raise ConfigError(f"{path} could not be changed safely; set `{line}` at its top by hand")
    save_copies(workspace)
    accept_change(workspace, lambda rules, _: replace(rules, mode=mode))
    update_marker(workspace, mode)


def write_setting(
    workspace: Workspace, name: str, value: bool | float | str | list[str] | None, known_sha256: str
) -> None:
    """Write a setting into `remit.toml`, and leave the rest byte for byte; None takes it out. Raises ConfigError, also
    for a file that is not the one with the known SHA-256, OSError.
    """
    path = workspace.config_path
    old = read_config_text(path) or ""
    if sha256(old.encode()) != known_sha256:
        raise ConfigError(f"{path.name} was changed meanwhile: load the page again")
    new = set_value(old, name, value).encode()
    decode_toml(new, Config)
    workspace.folder.mkdir(exist_ok=True)
    write_below(workspace.root, path, new)
    save_copies(workspace)
    accept_change(workspace, lambda rules, found: rules.take_setting(found, name))


# Workspaces of a call

WORD_PATTERN = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^\s'\"|;&<>()`]+)")
HOME_PREFIX = re.compile(r"\A(?:~|\$HOME|\$\{HOME\})(?=/|\Z)")
MAX_PLACES = 200  # of one command that are looked up
MAX_PLACE_CHARS = 4096


def find_workspace_of_call(call: ToolCall, home: Path) -> Workspace | None:
    """Return the workspace governing a call: the target path's nearest, else the one of the agent's folder.

    Among several workspaces of a call's paths, the first enforcing one judges the call: paths of the rest are outside.
    """
    governed: dict[Path, Workspace] = {}
    for raw in call.paths:
        with suppress(InvalidPath):
            for real in resolve_real_paths(raw, Path(call.cwd), home):
                near = locate_by_real_path(real.rpartition("/")[0] or "/")
                if near is not None and near.is_governed:
                    governed.setdefault(near.root, near)
    found = list(governed.values())
    if found and (own := find_assigned_workspace(call.cwd, found)) is not None:
        return own
    if len(found) > 1:
        return max(found, key=lambda workspace: load_rules(workspace).mode == "enforce")
    return found[0] if found else find_workspace_of_session(call, home)


def find_workspace_of_session(call: ToolCall, home: Path) -> Workspace | None:
    """Return the workspace of the call's folder if the session has an intent there, else the newest one in which it has
    an intent: a folder elsewhere changes where a command stands, not who governs it. A session without an intent, and
    Remit's own commands, belong to their folder.
    """
    own = locate_workspace(Path(call.cwd))
    bound = find_session_workspaces(home, call.session.session_id)
    if not bound or own in bound or (own is not None and own.is_assigned):
        return own
    return own if classify(call) == "meta" and own is not None and own.is_governed else bound[0]


def find_assigned_workspace(cwd: str, found: Iterable[Workspace]) -> Workspace | None:
    """Return the worktree of the agent's folder if a plan has assigned it: it judges also what is written elsewhere."""
    if all(is_inside_folder(cwd, str(workspace.root)) for workspace in found):
        return None
    own = locate_workspace(Path(cwd))
    return own if own is not None and own.is_assigned else None


def is_inside_folder(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def find_named_workspaces(call: ToolCall, governing: Workspace | None, home: Path) -> list[Workspace]:
    """Return further governed workspaces with a place named in the call's command.

    Variables except HOME and the effect of a program's input are unknown: such changes are found by the next comparison
    of the reached workspace.
    """
    if call.command is None:
        return []
    own = str(governing.root) if governing is not None and governing.is_governed else None
    places = dict.fromkeys(find_named_places(call.command, call.cwd, str(home), named_only=own is not None))
    known: dict[str, str | None] = {}
    folders = (call.cwd, call.given_folder or call.cwd) if own is not None else ()
    places |= dict.fromkeys(os.path.realpath(folder) for folder in folders if not is_inside_folder(folder, str(own)))
    roots = dict.fromkeys(find_marked_folder(place, known) for place in islice(places, MAX_PLACES))
    near = [locate_workspace(Path(root)) for root in roots if root is not None and root != own]
    return list({w.root: w for w in near if w is not None and w.is_governed and str(w.root) != own}.values())


def find_marked_folder(place: str, known: dict[str, str | None]) -> str | None:
    """Return the nearest folder at or above `place` that may begin a workspace; `known` caches the answers."""
    below: list[str] = []
    while place not in known:
        below.append(place)
        above = os.path.dirname(place)  # noqa: PTH120
        here = any(os.path.lexists(f"{place}/{name}") for name in (".git", ORCHESTRATION_FOLDER))
        if here or above == place:
            known[place] = place if here else None
        else:
            place = above
    known.update(dict.fromkeys(below, known[place]))
    return known[place]


def find_named_places(command: str, cwd: str, home: str, *, named_only: bool) -> Iterator[str]:
    """Yield the places named by the command's words, links followed; `named_only` skips words without a `/`."""
    for word in split_words(command):
        for text in dict.fromkeys((word, word.rpartition("=")[2])):
            expanded = HOME_PREFIX.sub(lambda _: home, text)
            if (named_only and "/" not in expanded and expanded != "..") or not 0 < len(expanded) <= MAX_PLACE_CHARS:
                continue
            if "\0" not in expanded:
                with suppress(OSError):  # /proc/PID/root of another user's process
                    yield os.path.realpath(os.path.join(cwd, expanded))  # noqa: PTH118  a Path would tidy `..` away


def split_words(command: str) -> Iterator[str]:
    """Yield the command's words, and the words inside quotes: a script for another shell may stand there."""
    for single, double, plain in WORD_PATTERN.findall(command):
        quoted = single or double
        yield plain or quoted
        if " " in quoted:
            yield from (part for _, _, part in WORD_PATTERN.findall(quoted.replace("'", " ").replace('"', " ")) if part)
