"""The table of places that no jail shows, over folders of the test: which exist, which stay in sight."""

import os
import re
from pathlib import Path

import pytest

from remit.workspace.sandbox.secret_places import (
    FILE_VARIABLES,
    MOVED_FOLDERS,
    SECRET_PLACES,
    VISIBLE_NAMES,
    SecretSearch,
    make_empty_file,
)
from remit_hook.__main__ import FORWARDED_VARIABLES


def write(path: Path, text: str = "CANARY") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", SECRET_PLACES)
def test_each_place_is_found_as_a_file_and_as_a_folder(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    place = home / name.replace("*", "x")
    write(place)
    assert SecretSearch(home).find().files == (place,)
    place.unlink()
    write(place / "inside")
    assert SecretSearch(home).find().folders == (place,)


def test_the_names_that_stay_in_sight_belong_to_the_table(tmp_path: Path) -> None:
    assert VISIBLE_NAMES.keys() <= set(SECRET_PLACES)
    for name in ("config", "known_hosts", "known_hosts.old", "id_a.pub", "allowed_signers", "id_a", "work"):
        write(tmp_path / "home/.ssh" / name)
    found = SecretSearch(tmp_path / "home").find()
    assert found.folders == (tmp_path / "home/.ssh",)
    expected = {"config", "known_hosts", "known_hosts.old", "id_a.pub", "allowed_signers"}
    assert {path.name for path in found.visible} == expected


def test_a_link_with_a_public_name_shows_no_private_key(tmp_path: Path) -> None:
    key = write(tmp_path / "home/.ssh/id_a")
    (key.parent / "id_b.pub").symlink_to("id_a")
    assert SecretSearch(tmp_path / "home").find().visible == ()


def test_a_place_that_is_a_link_is_hidden_where_it_leads(tmp_path: Path) -> None:
    home = tmp_path / "home"
    real, folder = write(tmp_path / "dotfiles/netrc"), write(tmp_path / "dotfiles/ssh/id_a").parent
    home.mkdir()
    (home / ".netrc").symlink_to(real)
    (home / ".ssh").symlink_to(folder)
    found = SecretSearch(home).find()
    assert found.files == (real,)
    assert found.folders == (folder,)


@pytest.mark.parametrize(("variable", "prefix"), MOVED_FOLDERS.items())
def test_a_variable_that_moves_a_folder_is_a_door_too(tmp_path: Path, variable: str, prefix: str) -> None:
    home, moved = tmp_path / "home", tmp_path / "moved/to"
    home.mkdir()
    inside = (name for name in SECRET_PLACES if not prefix or f"{name}/".startswith(f"{prefix}/"))
    rest = next(inside)[len(prefix) :].lstrip("/").replace("*", "x")
    write(moved / rest / "secret")
    found = SecretSearch(home, ({}, {variable: str(moved)})).find()
    assert (moved / rest) in found.folders


@pytest.mark.parametrize("variable", FILE_VARIABLES)
def test_a_variable_with_several_files_names_each(tmp_path: Path, variable: str) -> None:
    one, other = write(tmp_path / "a/one"), write(tmp_path / "b/other")
    found = SecretSearch(tmp_path / "home", ({variable: f"{one}{os.pathsep}{other}"},)).find()
    assert found.files == (one, other)


@pytest.mark.parametrize(
    "value", ["/", "/usr", "/usr/lib/..", "//", "HOME", "HOME/.", "HOME/x/..", "ABOVE", "relative", ""]
)
def test_an_odd_value_hides_neither_the_home_folder_nor_the_system(tmp_path: Path, value: str) -> None:
    home = tmp_path / "home"
    write(home / "x/notes")
    value = value.replace("HOME", str(home)).replace("ABOVE", str(tmp_path))
    assert SecretSearch(home, ({"DOCKER_CONFIG": value, "GNUPGHOME": value, "KUBECONFIG": value},)).find().paths == ()


def test_clients_send_each_variable_of_the_table() -> None:
    known = {"REMIT_INTENT", "TMPDIR", *MOVED_FOLDERS, *FILE_VARIABLES}
    assert {name.decode() for name in FORWARDED_VARIABLES} == known
    source = (Path(__file__).parents[2] / "src/remit_hook/client.c").read_text()
    listed = source.partition("const char *names[] = {")[2].partition("};")[0]
    assert set(re.findall(r'"(\w+)"', listed)) == known


def test_a_workspace_in_a_secret_place_stays_and_its_neighbours_do_not(tmp_path: Path) -> None:
    home = tmp_path / "home"
    root = write(home / ".config/gh/extensions/mine/main.py").parent
    hosts, other = write(home / ".config/gh/hosts.yml"), write(home / ".config/gh/extensions/other/key").parent
    found = SecretSearch(home, root=root, kept=(root,)).find()
    assert found.files == (hosts,)
    assert found.folders == (other,)


def test_a_workspace_that_is_a_secret_place_is_in_sight(tmp_path: Path) -> None:
    root = write(tmp_path / "home/.password-store/bank.gpg").parent
    assert SecretSearch(tmp_path / "home", root=root, kept=(root,)).find().paths == ()


def test_a_home_that_is_the_workspace_hides_what_git_does_not_track(tmp_path: Path) -> None:
    home = tmp_path / "home"
    netrc, key = write(home / ".netrc"), write(home / ".kube/config")
    write(home / ".kube/notes.md")
    write(home / ".pypirc")
    tracked = frozenset({".kube/notes.md", ".pypirc"})
    assert SecretSearch(home, root=home, kept=(home,), tracked=tracked).find().files == (key, netrc)


def test_what_a_person_shows_is_in_sight_and_nothing_beside_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shown, hidden = write(home / ".aws/credentials"), write(home / ".aws/sso/token")
    write(home / ".netrc")
    found = SecretSearch(home, shown=(shown, home / ".netrc")).find()
    assert found.files == ()
    assert found.folders == (hidden.parent.parent,)
    assert found.visible == (shown,)
    assert SecretSearch(home, shown=(home,)).find().paths == ()


def test_the_empty_file_is_made_again_where_it_is_not_empty(tmp_path: Path) -> None:
    path = make_empty_file(tmp_path)
    assert (path.stat().st_mode & 0o7777, path.read_bytes()) == (0o600, b"")
    path.write_text("planted")
    assert make_empty_file(tmp_path).read_bytes() == b""
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert not make_empty_file(tmp_path).is_symlink()
    assert path.read_bytes() == b""
