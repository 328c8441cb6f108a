"""The rules of a workspace: mode, intents, ignore file, configuration and hooks, read again only when they change.
Copies of the governing files stay in force while `.orchestration/` is missing; a marker tells the hook client which
workspaces enforce.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from remit.core.config import Config, NamedHook, TrustItem, list_on_write_items, list_trust_items, make_grant_item
from remit.core.decision import Mode
from remit.core.diff.contents import sha256
from remit.core.intent import (
    INTENTS_FOLDER,
    LIST_FILE,
    MAX_FILE_BYTES,
    SELECTABLE_STATUSES,
    Intent,
    IntentsDocument,
    IntentSet,
    LintFinding,
    identify,
    split_id,
)
from remit.core.intents.life import DerivedStatus, LifeRecord, Place, derive_status
from remit.core.untrusted_input import sanitise_line
from remit.gate.governing.lives import (
    MAX_CACHED,
    ORIGIN_SUFFIX,
    PENDING,
    apply_life,
    derive_life,
    life_path,
    pending_folder,
    read_life,
    read_origin,
    read_pending,
)
from remit.ledger.log_files import LedgerError
from remit.workspace.intents_file.storage import (
    CLOSED_FOLDER,
    VIEW_MARK,
    IntentFile,
    IntentIgnore,
    join_layouts,
    list_intent_files,
    read_file_state,
    read_intent_files,
    read_intent_ignore,
    read_intents,
)
from remit.workspace.place.config import (
    HOOKS_FOLDER,
    ConfigError,
    HookFolder,
    list_hook_files,
    number_hooks,
    read_config,
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
from remit.workspace.safe_files import read_regular_file, read_tail, remove_below, write_below

if TYPE_CHECKING:
    from remit.core.intents.strictness import RuleSet

COPIES_FOLDER = "governing"
VERSIONS_FOLDER = "versions"  # folder of all contents that the intents file ever had, by SHA-256: records name them so
INTENTS_CACHE, FILES_CACHE = "intents-cache", "intent-files-cache"
ACCEPTED_FILE, ACCEPTED_BYTES = "accepted", 1 << 15
"""File of the digests of accepted rules, beside the copies."""
GOVERNING_FILES = (LIST_FILE, "remit.toml", ".intentignore")

LINK_REFUSAL = "is a symbolic link, whose target agents may be able to write; put the file or folder itself there"

UNSETTLED_S = 0.05  # age up to which a changed file may change again without a new time


class ListedIntent(Intent, frozen=True):
    """An intent with where its status comes from, and whether `.intentignore` bars it: a command's `--json`, and what
    pages show.
    """

    status_from: str = ""
    status_said: str = ""
    barred: bool = False

    @property
    def state(self) -> str:
        """Return what a list should say beside a status; empty where the status says all."""
        barred = "barred by .intentignore" if self.barred else ""
        said = sanitise_line(self.status_said, 200) if self.status_from in ("record", "elsewhere") else ""
        return "; ".join(filter(None, (barred, said)))


class Rules(Struct, frozen=True):
    """The rules in force; `document` is None if there is no intents file, and never was. Its intents have the statuses
    that follow from the files and from `life`; `written` has them as the files do.
    """

    mode: Mode
    config: Config
    config_error: str | None
    document: IntentsDocument | None
    ignore: IntentIgnore
    intents: IntentSet
    written: IntentsDocument | None = None
    life: Mapping[str, DerivedStatus] = {}
    hooks: tuple[NamedHook, ...] = ()
    repository_commands: tuple[TrustItem, ...] = ()
    """Commands that the repository would have Remit run: first `hooks`, in their order, then those of criteria."""
    errors: tuple[LintFinding, ...] = ()
    """Errors of the files of intents; gathered once, as a thousand intents may have many findings."""
    open_files: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Files of open intents, each with what `stat` said: the only ones of their folder that each call looks at."""

    digest: str = ""
    """SHA-256 of what judges calls, as the files have it."""
    is_accepted: bool = False
    """Whether exactly these rules were in force before."""
    loosened: tuple[tuple[str, str], ...] = ()
    """What git brought that would loosen the accepted rules, and does not hold: in fixed words, and in full."""

    @property
    def offered(self) -> IntentsDocument | None:
        """Return the intents without those that `.intentignore` bars: nobody is offered one of them."""
        if self.document is None or not self.ignore.intents:
            return self.document
        kept = (intent for intent in self.document.intents if intent.id not in self.ignore.intents)
        return replace(self.document, intents=tuple(kept))

    def describe_life(self, intent: Intent) -> DerivedStatus:
        """Return where an intent's status comes from."""
        return self.life.get(intent.id) or derive_status(intent, None, Place())

    def describe_intent(self, intent: Intent) -> "ListedIntent":
        life, is_barred = self.describe_life(intent), intent.id in self.ignore.intents
        return ListedIntent(**asdict(intent), status_from=life.origin, status_said=life.said, barred=is_barred)

    @property
    def titles(self) -> dict[str, str]:
        """Return the title of each intent by its id."""
        return {intent.id: intent.title for intent in self.intents.intents}

    @property
    def open_intents(self) -> list[Intent]:
        """Return the intents that are offered and can be selected."""
        intents = self.offered.intents if self.offered else ()
        return [intent for intent in intents if intent.status in SELECTABLE_STATUSES]

    def find_fault(self, intent_id: str | None) -> LintFinding | None:
        """Return the error that closes an intent, or without one the list: a broken file closes its own intent."""
        files = self.written.files if self.written else {}
        for fault in self.errors:
            has_own = fault.file.startswith((f"{INTENTS_FOLDER}/", PENDING)) or fault.code == "DUPLICATE_ID"
            if fault.intent_id == intent_id is not None if has_own else intent_id not in files:
                return fault
        return None


FileStates: TypeAlias = tuple[tuple[int, ...], ...]

RULES_CACHE: dict[Path, tuple[FileStates, Rules]] = {}
"""Rules by workspace, with the states of their files: a process that stays asks for them at every call."""


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


@lru_cache(MAX_CACHED)
def copies_folder(workspace: Workspace) -> Path:
    return workspace.find_own_state(COPIES_FOLDER)


def save_copies(workspace: Workspace) -> None:
    """Copy the governing files as they are now. Raises OSError."""
    copies, folder, root = copies_folder(workspace), source_folder(workspace), workspace.common_dir or workspace.root
    copies.mkdir(parents=True, exist_ok=True)
    if folder == copies:
        return
    contents = {name: (folder / name).read_bytes() for name in GOVERNING_FILES if (folder / name).is_file()}
    for name, content in contents.items():
        write_below(root, copies / name, content)
    if LIST_FILE in contents and not contents[LIST_FILE].startswith(VIEW_MARK):
        save_version(root, copies, contents[LIST_FILE])
    save_intent_files(root, copies, folder)

    hooks, copied_hooks = folder / HOOKS_FOLDER, copies / HOOKS_FOLDER
    wanted = {path.relative_to(hooks): path for path in list_governed_hooks(hooks) if path.is_file()}
    for path in list_governed_hooks(copied_hooks):
        if path.relative_to(copied_hooks) not in wanted:
            remove_below(root, path)
    for name, path in wanted.items():
        write_below(root, copied_hooks / name, path.read_bytes(), path.stat().st_mode & 0o777)


def save_intent_files(root: Path, copies: Path, folder: Path) -> None:
    here, kept = list_intent_files(folder), list_intent_files(copies)
    for name in set(kept).difference(here):
        remove_below(root, copies / name)
    for name in here:
        with suppress(OSError):  # what cannot be read is an error of the rules
            content = read_regular_file(folder / name, MAX_FILE_BYTES)
            if name not in kept or (copies / name).read_bytes() != content:
                write_below(root, copies / name, content)
            save_version(root, copies, content)


def save_version(root: Path, copies: Path, content: bytes) -> None:
    version = copies / VERSIONS_FOLDER / sha256(content)
    if content and not version.exists():
        write_below(root, version, content)


def copies_signature(workspace: Workspace) -> str:
    folder = source_folder(workspace)
    files = (*GOVERNING_FILES, *list_intent_files(folder))
    paths = (*(folder / name for name in files), *list_governed_hooks(folder / HOOKS_FOLDER))
    return sha256(repr([files, *(read_file_state(path) for path in paths)]).encode("utf-8", "surrogateescape"))


def list_governed_hooks(folder: Path) -> list[Path]:
    try:
        return list_hook_files(folder) if is_folder(folder) else []
    except ConfigError:
        return []


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
    states = tuple([read_file_state(path) for path in paths])
    newest = max([times[-1] for times in states], default=0)
    is_settled = time.time_ns() - newest > UNSETTLED_S * 1e9
    cached = RULES_CACHE.get(workspace.root)
    if is_settled and cached is not None and cached[0] == states:
        open_files = cached[1].open_files
        if all(read_file_state(path) == state for path, state in open_files):
            return cached[1]
    rules = hold_accepted_rules(workspace, folder, read_rules(workspace))
    if len(RULES_CACHE) >= MAX_CACHED:
        RULES_CACHE.clear()
    is_settled &= all(time.time_ns() - state[-1] > UNSETTLED_S * 1e9 for _, state in rules.open_files)
    RULES_CACHE[workspace.root] = (states if is_settled else (), rules)
    return rules


def forget_rules(workspace: Workspace) -> None:
    """Let the next call read all files of intents, those of ended ones too."""
    cached = RULES_CACHE.get(workspace.root)
    if cached is not None and cached[1].written is not None and cached[1].written.files:
        del RULES_CACHE[workspace.root]


@lru_cache(MAX_CACHED)
def governing_paths(workspace: Workspace, folder: Path) -> tuple[str, ...]:
    names = (copies_folder(workspace) / name for name in GOVERNING_FILES)
    folders = (folder, *(folder / name for name in (HOOKS_FOLDER, INTENTS_FOLDER, CLOSED_FOLDER)))
    paths = (*folders, *(folder / name for name in GOVERNING_FILES), *names)
    accepted = (copies_folder(workspace) / ACCEPTED_FILE, copies_folder(workspace) / "baseline")
    head = [workspace.git_dir / "HEAD"] if workspace.git_dir else []
    places = (life_path(workspace), pending_folder(workspace), *head, *accepted)
    return tuple(map(str, (*paths, *places, workspace.root / ".intentignore", workspace.state / GOVERNED_MARKER)))


def read_rules(workspace: Workspace) -> Rules:
    """Read all governing files. Of several errors the first one counts, and each leads to enforcement."""
    folder, copies = source_folder(workspace), copies_folder(workspace)
    ignore, hook_folder, files = IntentIgnore(), HookFolder(), list[IntentFile]()
    config, config_error = load_config(workspace)
    config = config or Config()
    errors = [*list_linked_rules(workspace, folder), *([config_error] if config_error else [])]
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
        document, files = read_all_intents(folder, workspace)
    ignore = replace(ignore, intents=find_barred(ignore.intents, document.intents if document else ()))
    written, life, records = document, dict[str, DerivedStatus](), dict[str, LifeRecord]()
    try:
        records = read_life(workspace)
    except (OSError, LedgerError) as failure:
        errors.append(f"what became of the intents is not known ({failure}); see `remit ledger verify`")
    if document is not None and records:
        life = derive_life(workspace, document, records)
        document = replace(document, intents=tuple(apply_life(intent, life[intent.id]) for intent in document.intents))

    # Broken or deleted rules are no way out of enforcement.
    mode: Mode = "observe"
    if workspace.is_governed:
        was_there = document is not None or any(path_exists(copies / name) for name in (LIST_FILE, INTENTS_FOLDER))
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
        written=written,
        life=life,
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
        errors=document.errors if document else (),
        open_files=tuple(watch_file(workspace, folder, file) for file in files if file.is_open),
    )


def list_linked_rules(workspace: Workspace, folder: Path) -> list[str]:
    names = ("remit.toml", ".intentignore", HOOKS_FOLDER, INTENTS_FOLDER, CLOSED_FOLDER)
    places = [f"{folder}", *[f"{folder}/{name}" for name in names], f"{workspace.root}/.intentignore"]
    linked = [place for place in places if os.path.islink(place)]  # noqa: PTH114  asked for every call
    return [f"{os.path.relpath(place, workspace.root)} {LINK_REFUSAL}" for place in linked]


def find_barred(names: frozenset[str], intents: Iterable[Intent]) -> frozenset[str]:
    uids = {uid for name in names if (uid := split_id(name)[1])}
    return names | {i.id for i in intents if names and (split_id(i.id)[0] in names or identify(i) in uids)}


def watch_file(workspace: Workspace, folder: Path, file: IntentFile) -> tuple[str, tuple[int, ...]]:
    if not file.name.startswith(PENDING):
        return f"{folder}/{file.name}", file.state
    copy = pending_folder(workspace) / file.name.removeprefix(PENDING)
    _, origin = read_origin(copy.with_suffix(ORIGIN_SUFFIX))
    return origin, read_file_state(origin)


def read_all_intents(folder: Path, workspace: Workspace) -> tuple[IntentsDocument | None, list[IntentFile]]:
    """Return the intents of both layouts, and the files of one each; None where nothing ever declared any."""
    files, faults, cache = list[IntentFile](), list[LintFinding](), workspace.state
    has_folder = is_folder(folder / INTENTS_FOLDER)
    try:
        files = read_intent_files(folder, cache / FILES_CACHE) if has_folder and list_intent_files(folder) else []
    except OSError as failure:
        why = f"{ORCHESTRATION_FOLDER}/{INTENTS_FOLDER}/ cannot be read: {failure.strerror}"
        faults.append(LintFinding("TOO_MANY_INTENTS", "error", why, file=INTENTS_FOLDER))
    files += read_pending(workspace, files)
    known = frozenset(file.intent_id for file in files if file.intent_id)
    listed = read_intents(folder / LIST_FILE, cache / INTENTS_CACHE, known)
    if not files and not faults:
        return listed or (IntentsDocument() if has_folder else None), []
    document = join_layouts(listed, files)
    return replace(document, findings=(*faults, *document.findings)), files


def hold_accepted_rules(workspace: Workspace, folder: Path, rules: Rules) -> Rules:
    copies = copies_folder(workspace)
    if not workspace.is_governed or rules.config_error is not None or folder == copies:
        return rules
    document = rules.document.sha256 if rules.document else ""
    parts = (
        rules.mode,
        msgspec.json.encode(rules.config),
        document,
        sorted(rules.ignore.intents),
        rules.ignore.patterns,
    )
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
        ignore=IntentIgnore(find_barred(frozenset(held.barred), intents), held.patterns),
        loosened=tuple((one.what, one.change) for one in loosened),
    )


def make_rule_set(rules: Rules) -> "RuleSet":
    from remit.core.intents.strictness import RuleSet

    ignore = rules.ignore
    return RuleSet(rules.mode, rules.config, rules.intents.intents, tuple(sorted(ignore.intents)), ignore.patterns)


def accept_rules(workspace: Workspace, rules: Rules, *, by_person: bool = False) -> None:
    """Keep the files' rules as accepted. Raises OSError."""
    from remit.workspace.accepted_rules import AcceptedRules

    accepted = AcceptedRules(workspace, copies_folder(workspace), source_folder(workspace).parent)
    accepted.accept(make_rule_set(rules), rules.digest, by_person=by_person)


def accept_present_rules(workspace: Workspace) -> None:
    """Accept the rules that are there where a person begins to govern. Raises OSError."""
    rules = load_rules(workspace)
    if rules.digest and not rules.loosened and not rules.errors:
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
