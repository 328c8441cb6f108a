"""Repositories beside the workspace's own, changed, made or removed by a command: submodules, and repositories nested
in the work tree.

A git folder is found from the work tree (`.git`, a folder or a file naming a folder), and a work tree from the git
folder (`core.worktree`, or the new file naming the folder): `.git/modules/NAME`, also below a module or a linked work
tree. Contents of a new git folder are a stranger's word: git runs programs named in settings and hooks, whenever a
person looks. Source: gitrepository-layout(5), gitsubmodules(7), git-config(1) of git 2.51, read 2026-11.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.workspace.git.command import list_settings
from remit.workspace.place.workspace import read_pointer
from remit.workspace.sandbox.git_folder_checks import OBJECT_NAME, SETTINGS_FILE, has_plain_url
from remit.workspace.sandbox.staged_changes import SPECIAL_KINDS, StagedChange

NESTED_GIT = re.compile(r"(?P<tree>.+?)/\.git(?:/(?P<rest>.+))?", re.DOTALL)
MODULES_FOLDER = "modules"
POINTER_MARK = "gitdir: "
EXTRA_FILES = frozenset({SETTINGS_FILE, "description", "info/exclude", "shallow"})
"""Files of a new git folder beside those that commits change."""

REGENERATED_INFO = frozenset({"info/refs"})
PLAIN_SETTINGS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|worktree)|extensions\.objectformat|remote\..+\.(url|fetch|tagopt|prune)|init\.defaultbranch"
    r"|branch\..+\.(remote|merge|rebase|description)|submodule\.(.+\.(url|active)|active)|user\.(name|email)"
    r"|(commit|tag)\.gpgsign|pull\.(rebase|ff)|push\.(default|autosetupremote)|advice\..+|lfs\.repositoryformatversion",
    re.DOTALL,
)
"""Settings of a new repository that start no program and lead git nowhere else."""

NEW_WORK_TREE = "new work tree"
"""Objection against a `.git` file that names no submodule's git folder."""

RepositoryState: TypeAlias = Literal["changed", "made", "removed"]


class NestedRepository(Struct, frozen=True):
    """A repository other than the workspace's own: `tree` is its work tree, from the workspace's root.

    `upper` took the writes to its git folder, `common` is the real one; `changes` are relative to it. `pointer` is the
    new `.git` file that names the folder, from the root. `objection` is a reason against the whole.
    """

    tree: str
    upper: Path
    common: Path
    state: RepositoryState
    changes: tuple[StagedChange, ...] = ()
    is_submodule: bool = False
    pointer: str = ""
    objection: str = ""


class GitLayer(Struct, frozen=True):
    """Changes to a git folder: `upper` took the writes, `common` is the real folder. `modules` is the folder of the git
    folders of its submodules.
    """

    upper: Path
    common: Path
    changes: Sequence[StagedChange]
    modules: str = MODULES_FOLDER


def has_nested_changes(changes: Iterable[StagedChange], layer: GitLayer | None) -> bool:
    found = any("/.git" in c.path and NESTED_GIT.fullmatch(c.path) for c in changes)
    return found or (layer is not None and any(c.path.startswith(f"{layer.modules}/") for c in layer.changes))


def find_nested_repositories(
    root: Path, upper: Path, changes: Sequence[StagedChange], layer: GitLayer | None
) -> tuple[list[NestedRepository], list[StagedChange]]:
    """Return the repositories, outer ones first, and the changes of `layer` that belong to none of them.

    `changes` are those of the work tree, `layer` those of the workspace's git folder. Raises OSError.
    """
    found: list[NestedRepository] = []
    layers = [layer] if layer is not None else []
    pointers: dict[Path, str] = {}
    by_tree: dict[str, list[StagedChange]] = {}
    for change in changes:
        match = NESTED_GIT.fullmatch(change.path)
        if match is not None:
            by_tree.setdefault(match["tree"], []).append(replace(change, path=match["rest"] or ""))

    # 1 The folders and files named `.git` in the work tree.
    for tree, own in by_tree.items():
        place, kinds = root / tree / ".git", {c.kind for c in own if not c.path}
        had_file = place.is_file() and not place.is_symlink()
        had = had_file or (place / "HEAD").is_file()
        one = NestedRepository(tree, upper / tree / ".git", place, "changed" if had else "made", is_submodule=had_file)
        if place.is_symlink() or not kinds.isdisjoint({*SPECIAL_KINDS, "link"}) or (had_file and "folder" in kinds):
            found.append(replace(one, objection="its `.git` became something else"))
        elif "file" in kinds:
            named = read_pointer(upper / tree / ".git")
            target = Path(os.path.normpath(root / tree / named.removeprefix(POINTER_MARK)))
            pointers[target] = tree
            if had and not had_file:
                found.append(replace(one, objection="its `.git` became something else"))
        elif had and kinds == {"gone"}:
            why = "" if is_tree_empty(root, tree, changes) else "its `.git` alone was taken away"
            found.append(replace(one, state="removed", objection=why))
        else:
            inner = GitLayer(one.upper, place, [c for c in own if c.path])
            layers.append(inner)
            found.append(replace(one, changes=tuple(c for c in inner.changes if not is_module_path(inner, c.path))))

    # 2 The git folders of submodules, each with its work tree.
    left: list[StagedChange] = []
    for each in layers:
        folders = group_by_module(each)
        for folder, own in folders.items():
            if not folder:
                left += own if each is layer else ()
                continue
            common = each.common / folder
            was_there = (common / "HEAD").is_file()
            tree = pointers.get(common) or (find_work_tree(common, root) if was_there else None)
            if tree is None:
                left += (replace(c, path=f"{folder}/{c.path}".rstrip("/")) for c in own)
                continue
            is_new = pointers.pop(common, None) is not None
            pointer = f"{tree}/.git" if is_new else ""
            state: RepositoryState = "changed" if was_there else "made"
            found.append(NestedRepository(tree, each.upper / folder, common, state, tuple(own), True, pointer))

    # 3 Files that name a git folder: of a submodule that was there, or of a work tree that no command makes.
    for target, tree in pointers.items():
        one = NestedRepository(tree, target, target, "changed", (), True, f"{tree}/.git")
        is_known = (
            layer is not None and target.is_relative_to(layer.common / layer.modules) and (target / "HEAD").is_file()
        )
        found.append(one if is_known else replace(one, state="made", objection=NEW_WORK_TREE))
    return sorted(found, key=lambda one: one.tree.count("/")), left


def is_module_path(layer: GitLayer, path: str) -> bool:
    return path.startswith(f"{layer.modules}/")


def group_by_module(layer: GitLayer) -> dict[str, list[StagedChange]]:
    """Return the changes by the git folder of the submodule they belong to, relative to it; "" for none."""
    found: dict[str, list[StagedChange]] = {}
    known: dict[str, bool] = {}

    def is_git_folder(folder: str) -> bool:
        if folder not in known:
            known[folder] = any((place / folder / "HEAD").is_file() for place in (layer.upper, layer.common))
        return known[folder]

    for change in layer.changes:
        owner, parts = "", change.path.split("/")
        at = len(layer.modules.split("/")) if is_module_path(layer, change.path) else len(parts)
        start = at
        while at < len(parts):
            at += 1
            folder = "/".join(parts[:at])
            if at > start and is_git_folder(folder):
                owner = folder
                # A submodule's own submodules are in its folder.
                if parts[at : at + 1] != [MODULES_FOLDER]:
                    break
                at += 1
                start = at
        found.setdefault(owner, []).append(replace(change, path=change.path[len(owner) :].lstrip("/")))
    return found


def find_work_tree(common: Path, root: Path) -> str | None:
    """Return the work tree that a submodule's git folder names, from the root; None for none inside. Raises OSError."""
    named = list_settings(common / SETTINGS_FILE).get("core.worktree", "")
    place = Path(os.path.normpath(common / named))
    return str(place.relative_to(root)) if named and place != root and place.is_relative_to(root) else None


def is_tree_empty(root: Path, tree: str, changes: Iterable[StagedChange]) -> bool:
    gone = {c.path for c in changes if c.kind == "gone"}
    stays = any(c.kind != "gone" and c.path.startswith(f"{tree}/") for c in changes)
    return not stays and all(f"{tree}/{name}" in gone for name in os.listdir(root / tree))  # noqa: PTH208


# -- new git folders -----------------------------------------------------------------------------------------


class NewGitFolder(Struct, frozen=True):
    """What of a new git folder may come over: `checked` are judged like a commit's files, `extra` are placed as they
    are, after `folders`. `hooks` are left out.
    """

    checked: tuple[StagedChange, ...]
    extra: tuple[StagedChange, ...]
    folders: tuple[StagedChange, ...]
    hooks: tuple[str, ...]
    objection: str = ""


def inspect_new_folder(one: NestedRepository, tree: Path) -> NewGitFolder:
    """Sort the files of a new git folder; `tree` is its real work tree. Raises OSError."""
    inside = [c for c in one.changes if c.path and not c.path.startswith("hooks/") and c.path != "hooks"]
    hooks = tuple(c.path for c in one.changes if c.path.startswith("hooks/") and not c.path.endswith(".sample"))
    extra = tuple(c for c in inside if c.path in EXTRA_FILES)
    checked = tuple(
        c for c in inside if c.kind != "folder" and c.path not in EXTRA_FILES and c.path not in REGENERATED_INFO
    )
    found = NewGitFolder(checked, extra, tuple(c for c in inside if c.kind == "folder"), hooks)
    odd = next((c for c in inside if c.kind in SPECIAL_KINDS or c.kind == "link"), None)
    if odd is not None:
        return replace(found, objection=f"{odd.path} in its git folder is a {odd.kind}")
    for path in ("HEAD", SETTINGS_FILE):
        if (one.upper / path).is_symlink() or not (one.upper / path).is_file():
            return replace(found, objection=f"its git folder has no {path}")
    if any(c.path == "objects/info/alternates" for c in inside):
        return replace(found, objection="it reads the objects of another repository; clone without `--shared`")
    settings = list_settings(one.upper / SETTINGS_FILE)
    if why := explain_odd_setting(settings, one, tree):
        return replace(found, objection=why)
    shallow = one.upper / "shallow"
    if shallow.exists() and not all(map(OBJECT_NAME.fullmatch, shallow.read_text("ascii", "replace").split())):
        return replace(found, objection="its list of shallow commits names none")
    return found


def explain_odd_setting(settings: Mapping[str, str], one: NestedRepository, tree: Path) -> str:
    for key, value in settings.items():
        is_plain = PLAIN_SETTINGS.fullmatch(key) is not None and "\n" not in value
        if key == "core.worktree":
            is_plain = one.is_submodule and os.path.normpath(one.common / value) == str(tree)
        elif key in ("core.bare", "commit.gpgsign", "tag.gpgsign"):
            is_plain = value == "false"
        elif key.endswith(".url"):
            is_plain = is_plain and has_plain_url(value)
        if not is_plain:
            return f"the setting {key} in its git folder is a person's to make"
    return ""


def make_skeleton(place: Path, settings: Mapping[str, str]) -> Path:
    """Make an empty git folder to compare a new one with. Raises OSError."""
    for name in ("objects", "refs"):
        (place / name).mkdir(parents=True, exist_ok=True)
    (place / "HEAD").write_text("ref: refs/heads/.none\n")
    kind = settings.get("extensions.objectformat", "sha1")
    lines = ["[core]", "repositoryformatversion = 1", "bare = true", "[extensions]", f"objectformat = {kind}"]
    (place / SETTINGS_FILE).write_text("\n".join(lines if kind == "sha256" else ["[core]", "bare = true"]) + "\n")
    return place
