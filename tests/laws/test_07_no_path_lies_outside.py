"""Law 7: no RepoPath lies outside the workspace, for any string, link or case."""

import os
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from laws.enemies import paths
from remit.core.scope.path_patterns import InvalidPath, OutsideWorkspace, RepoPath, fold_case
from remit.workspace.place.resolve_paths import MachinePlaces, resolve_real_paths, resolve_target
from remit.workspace.place.workspace import Workspace


@given(paths, st.sampled_from(["/w", "/w/", "/", "/w/a b", "/W", "/w/../w", "/wx"]), st.none() | st.just("/w/src"))
@example("..", "/w", None)
@example("/wx/y", "/w", None)
@example("//", "/", None)
@example("//w/x", "/w", None)
@example("/w", "/w/", None)
def test_a_repo_path_is_relative_clean_and_inside(raw: str, root: str, cwd: str | None) -> None:
    try:
        found = RepoPath.parse(raw, root, cwd)
    except (InvalidPath, OutsideWorkspace):
        return
    parts = found.split("/")
    assert found == "." or not {"", ".", ".."} & set(parts)
    base = os.path.normpath(root)
    inside = os.path.normpath(f"{base}/{found}")
    assert inside == base or inside.startswith(base.rstrip("/") + "/")
    assert RepoPath.parse(found, root) == found, "making it twice changes nothing"


@given(paths)
def test_folding_is_idempotent_and_joins_both_unicode_forms(raw: str) -> None:
    try:
        found = RepoPath.parse(raw, "/w")
    except (InvalidPath, OutsideWorkspace):
        assume(False)
        return
    again = RepoPath.parse(fold_case(found) or ".", "/w") if fold_case(found) else found
    assert fold_case(again) == fold_case(found)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with links in, out, round and to nothing; beside it a folder whose name begins like its own."""
    top = tmp_path_factory.mktemp("tree").resolve()
    root = top / "w"
    (root / "src" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (top / "w-other").mkdir()
    for name, to in {
        "in": "src/deep",
        "out": "../w-other",
        "abs": str(top),
        "round": "round",
        "gone": "nowhere/at/all",
        "up": "..",
        "git": ".git",
        "src/deep/back": "../..",
        "src/deep/far": "../../../w-other",
    }.items():
        (root / name).symlink_to(to)
    return root


STEPS = ["src", "deep", "in", "out", "abs", "round", "gone", "up", "git", "back", "far", "..", ".", "", "w", "w-other"]
walks = st.lists(st.sampled_from([*STEPS, "new", "é", "x" * 300]), min_size=1, max_size=8)


@given(walks, st.booleans())
@example(["round", "..", "out"], False)
def test_what_a_path_names_is_where_a_write_would_land(tree: Path, steps: list[str], absolute: bool) -> None:
    raw = (str(tree) + "/" if absolute else "") + "/".join(steps)
    workspace = Workspace(tree, tree / ".git", tree / ".git")
    try:
        found = resolve_real_paths(raw, tree, tree.parent / "home")
    except InvalidPath:
        return
    around = MachinePlaces(tree.parent / "home", tree.parent / "tmp")
    for real in found:
        judged = resolve_target(workspace, real, raw, around)
        truly = os.path.realpath(real)
        within = truly == str(tree) or truly.startswith(f"{tree}/")
        assert (judged.path is not None) == within
        if judged.path is not None:
            assert os.path.realpath(tree / judged.path) == truly
        if f"{truly}/".startswith(f"{tree}/.git/"):
            assert judged.protected
    joined = raw if absolute or raw.startswith("/") else f"{tree}/{raw}"
    kernel, tidied = (os.path.realpath(os.path.realpath(path)) for path in (joined, os.path.normpath(joined)))
    assert {kernel, tidied} == set(found), "both ways an agent may read it are judged"
