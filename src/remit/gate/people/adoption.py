"""Rules that a clone carries in its commits and that do not hold in it: they are announced, and a person adopts them,
once by hand or for all clones of a remote or below a path. Adoption can only add refusals.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct, json, toml

from remit.core.adoption import AdoptSettings, describe_carried, normalise_remote
from remit.core.call import ToolCall
from remit.core.config import Config
from remit.core.decision import UNGOVERNED_DECISION, Decision, Mode
from remit.core.machine_paths import CONFIG_PATH, STATE_FOLDER
from remit.core.python_runtime import prepare_type
from remit.gate.governing.rules import GOVERNING_FILES, accept_present_rules, copies_folder, make_rule_set, read_rules
from remit.gate.governing.settings import resume_governing
from remit.policy.decide import classify
from remit.workspace.accepted_rules import AcceptedRules, Baseline
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import head_commit
from remit.workspace.place.config import MAX_CONFIG_BYTES, ConfigError, decode_toml, set_value
from remit.workspace.place.workspace import (
    GOVERNED_MARKER,
    ORCHESTRATION_FOLDER,
    Workspace,
    is_folder,
    locate_workspace,
    path_exists,
    put_session_home,
    read_session_homes,
    register_repository,
    registry_file_path,
    repository_mark,
)
from remit.workspace.safe_files import write_atomically, write_below

CONFIG_NAME, LIST_NAME, FOLDER_NAME = "remit.toml", "active_intents.yaml", "intents"
GOVERNING_ENDINGS = (".yaml", "remit.toml", ".intentignore")
ADOPTED_FILE = "adopted"
"""File in the state folder: the pattern by which a clone was adopted, or nothing where a person did it by hand."""
DECLINED_FOLDER = f"{STATE_FOLDER}/declined"
OPEN_TO_OTHERS = 0o022


class CarriedRules(Struct, frozen=True):
    """Rules in the commit that is checked out: their mode, and where `origin` says that the repository lies."""

    mode: Mode
    remote: str = ""


def find_carried_rules(workspace: Workspace | None, commit: str = "HEAD") -> CarriedRules | None:
    """Return the rules that an ungoverned clone carries; None without. Costs two looks at files where there are none.

    What git cannot tell, such as in a repository of another user, counts as carried if the files are there.
    """
    if workspace is None or workspace.common_dir is None:
        return None
    is_sparse = path_exists(f"{workspace.git_dir}/info/sparse-checkout")
    if commit == "HEAD" and not is_sparse and not is_folder(workspace.folder):
        return None
    git, names = Git(workspace.root), (CONFIG_NAME, LIST_NAME, FOLDER_NAME)
    paths = [f"{ORCHESTRATION_FOLDER}/{name}" for name in names]
    try:
        if head_commit(workspace) is None:
            return None
        listed = git.run("ls-tree", "-z", commit, "--", *paths).split(b"\0")
        found = {line.rpartition(b"/")[2].decode() for line in listed if line}
        content = git.run("show", f"{commit}:./{paths[0]}") if CONFIG_NAME in found else b""
        remote = find_remote(workspace)
    except (GitError, OSError):
        has_files = any(path_exists(workspace.root / path) for path in paths)
        return CarriedRules("enforce") if has_files else None
    if not found:
        return None
    try:
        written = decode_toml(content[:MAX_CONFIG_BYTES], Config).mode
    except ConfigError:
        return CarriedRules("enforce", remote)
    return CarriedRules(written or ("enforce" if found - {CONFIG_NAME} else "observe"), remote)


def find_remote(workspace: Workspace) -> str:
    """Return where `origin` lies, as host/path; empty without one."""
    with suppress(GitError, UnicodeDecodeError):
        if workspace.common_dir is not None:
            address = Git(workspace.root).text("remote", "get-url", "origin").strip()
            return normalise_remote(address, str(workspace.root))
    return ""


# The person's settings


class AdoptSettingsError(ValueError):
    """The person's own settings cannot be used: whether they would adopt a clone is unknown."""


class AdoptFile(Struct, frozen=True):
    """The part of a person's own settings that is about adoption."""

    adopt: AdoptSettings = AdoptSettings()


def read_adopt_settings(home: Path) -> AdoptSettings:
    """Return the person's settings of adoption. Raises AdoptSettingsError."""
    path = home / CONFIG_PATH
    try:
        status = path.stat()
        content = path.read_bytes() if status.st_size <= MAX_CONFIG_BYTES else b"[too.large]"
        if status.st_uid != os.getuid() or status.st_mode & OPEN_TO_OTHERS:
            raise AdoptSettingsError(f"~/{CONFIG_PATH} can be written by others: chmod go-w ~/{CONFIG_PATH}")
        return toml.decode(content, type=prepare_type(AdoptFile)).adopt
    except FileNotFoundError:
        return AdoptSettings()
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, AdoptSettingsError):
            raise
        raise AdoptSettingsError(f"~/{CONFIG_PATH} cannot be used: {error}") from None


def add_adopted_remote(home: Path, pattern: str) -> bool:
    """Add a pattern to the remotes whose clones are adopted; return whether it is new. Raises AdoptSettingsError,
    ConfigError, OSError.
    """
    settings, path = read_adopt_settings(home), home / CONFIG_PATH
    if pattern in settings.remotes:
        return False
    text = path.read_text("utf-8") if path.exists() else ""
    after = set_value(text, "adopt.remotes", [*settings.remotes, pattern])
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, after.encode(), 0o600)
    return True


def find_adopting_pattern(home: Path, workspace: Workspace) -> str:
    """Return the person's pattern that covers a clone; empty for none, or where the settings cannot be used."""
    with suppress(AdoptSettingsError):
        return read_adopt_settings(home).find_pattern(find_remote(workspace), str(workspace.root), str(home))
    return ""


# Adopting and declining


BASE_BRANCHES = (
    *("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "BITBUCKET_PR_DESTINATION_BRANCH"),
    *("SYSTEM_PULLREQUEST_TARGETBRANCH", "CHANGE_TARGET", "BUILDKITE_PULL_REQUEST_BASE_BRANCH"),
)
"""Variables of runners with the branch that a pull request is to go into: GitHub, GitLab, Bitbucket, Azure, Jenkins,
Buildkite.
"""


class NoBaseCommit(LookupError):
    """The commit whose rules a runner should hold to is not in its clone."""


def find_base_commit(workspace: Workspace, variables: Mapping[str, str]) -> str:
    """Return the commit that a pull request started from; empty where the runner names none. Raises NoBaseCommit."""
    named = next((variables[name] for name in BASE_BRANCHES if variables.get(name)), "")
    if not named:
        return ""
    git, branch = Git(workspace.root), f"refs/remotes/origin/{named.removeprefix('refs/heads/')}"
    try:
        return git.text("merge-base", "HEAD", branch).strip()
    except GitError:
        raise NoBaseCommit(f"{branch} has no commit in common with HEAD here") from None


def keep_rules_of(workspace: Workspace, commit: str) -> None:
    """Make a commit's rules the accepted ones, whatever the tree has. Raises OSError, GitError."""
    git, names = Git(workspace.root), [".intentignore", ORCHESTRATION_FOLDER]
    listed = git.run("ls-tree", "-r", "-z", commit, "--", *names).decode("utf-8", "surrogateescape")
    with TemporaryDirectory(prefix="remit-rules-") as folder:
        files: dict[str, str] = {}
        for line in filter(None, listed.split("\0")):
            about, _, path = line.partition("\t")
            kind, blob = about.split()[1:3]
            if kind == "blob" and path.endswith(GOVERNING_ENDINGS) and not about.startswith("120000"):
                write_below(Path(folder), Path(folder, path), git.run("cat-file", "blob", blob))
                files[path] = blob
        place = Workspace(Path(folder), None, None)
        place.state.mkdir(parents=True)
        (place.state / GOVERNED_MARKER).touch()
        rules = make_rule_set(read_rules(place))
    AcceptedRules(workspace, copies_folder(workspace), workspace.root).write_baseline(
        Baseline(rules, files, is_fixed=True)
    )


def adopt_workspace(home: Path, workspace: Workspace, pattern: str = "", base: str = "") -> None:
    """Govern a clone by the carried rules, without a change of the tree; with a commit `base`, by rules no looser than
    the commit's. Raises OSError, GitError.
    """
    for name in GOVERNING_FILES:
        copy, own = copies_folder(workspace) / name, workspace.folder / name
        if workspace.common_dir is None or copy.exists() or own.exists():
            continue
        # A sparse checkout leaves the files out: the commit's hold as the copies of a deleted folder do.
        with suppress(GitError):
            content = Git(workspace.root).run("show", f"{base or 'HEAD'}:./{ORCHESTRATION_FOLDER}/{name}")
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_below(workspace.common_dir, copy, content)
    if base:
        keep_rules_of(workspace, base)
    resume_governing(workspace)
    accept_present_rules(workspace)
    write_atomically(workspace.state / ADOPTED_FILE, json.encode({"pattern": pattern}))
    register_repository(home, workspace)
    declined_path(home, workspace).unlink(missing_ok=True)


def read_adoption(workspace: Workspace) -> str | None:
    """Return the pattern by which a clone was adopted, empty for by hand; None where it was not adopted."""
    try:
        return json.decode((workspace.state / ADOPTED_FILE).read_bytes(), type=dict[str, str]).get("pattern", "")
    except (OSError, ValueError):
        return None


def declined_path(home: Path, workspace: Workspace) -> Path:
    return home / DECLINED_FOLDER / registry_file_path(home, workspace).name


def decline_rules(home: Path, workspace: Workspace) -> None:
    """Note that a person does not want a clone's rules here. Raises OSError."""
    path = declined_path(home, workspace)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, repository_mark(workspace) + os.fsencode(workspace.root) + b"\n")


def are_rules_declined(home: Path, workspace: Workspace) -> bool:
    try:
        return declined_path(home, workspace).read_bytes().startswith(repository_mark(workspace))
    except OSError:
        return False


# At an agent's events


def adopt_by_pattern(places: Iterable[str], home: Path) -> list[str]:
    """Adopt the ungoverned clones around these places that a person's patterns cover; return what to tell of each."""
    try:
        settings = read_adopt_settings(home)
    except AdoptSettingsError:
        return []  # told where the clone is worked in: nothing passes there
    told: list[str] = []
    for place in dict.fromkeys(places) if settings.remotes or settings.paths else ():
        workspace = locate_workspace(Path(place)) if "\0" not in place else None
        if workspace is None or workspace.is_governed or are_rules_declined(home, workspace):
            continue
        carried = find_carried_rules(workspace)
        pattern = settings.find_pattern(carried.remote, str(workspace.root), str(home)) if carried else ""
        if pattern:
            adopt_workspace(home, workspace, pattern)
            told.append(f"Remit adopted this clone ({pattern}): its rules hold here from now on.")
    return told


def announce_carried_rules(home: Path, workspace: Workspace | None) -> str:
    """Return what to tell the model of rules that do not hold here; "" where there are none, or a person declined."""
    carried = find_carried_rules(workspace)
    if carried is None or workspace is None or are_rules_declined(home, workspace):
        return ""
    return describe_carried(carried.mode)


def announce_once(home: Path, workspace: Workspace | None, session_id: str) -> str:
    """Return what to tell the person at the end of a session's first turn here. Raises OSError."""
    text = announce_carried_rules(home, workspace)
    if not text or workspace is None:
        return ""
    if any(entry.root == str(workspace.root) for entry in read_session_homes(home, session_id)):
        return ""
    put_session_home(home, session_id, workspace.root, is_bound=False)
    return text


def judge_ungoverned_call(home: Path, workspace: Workspace | None, call: ToolCall) -> tuple[Decision, str]:
    """Return the decision about a call where rules are carried and do not hold, by the person's `otherwise`."""
    if classify(call) != "destructive":
        return UNGOVERNED_DECISION, ""
    why = ""
    try:
        otherwise = read_adopt_settings(home).otherwise
    except AdoptSettingsError as error:
        otherwise, why = "refuse", f" {error}."
    text = announce_carried_rules(home, workspace) if otherwise != "tell" else ""
    if not text:
        return UNGOVERNED_DECISION, ""
    effect: Any = "ask" if otherwise == "ask" else "deny"
    what = "A yes lets this change pass without them." if otherwise == "ask" else "Until then nothing is changed here."
    return Decision(effect, effect, "destructive", "enforce"), f"{text} {what}{why}"
