"""A canary in each secret place: no contained command reads one, by any way to say the place."""

import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec.structs import replace

from gate.containment.test_run_command import gate, how, run
from gate.hooks.trusted_hooks import trust_all
from redteam.secret_ways import WAYS
from remit.gate.containment.messages import describe_hidden_secrets
from remit.gate.facts.secret_targets import list_shown_places
from remit.gate.gate import Gate
from remit.workspace.sandbox.containment import Containment, ContainmentKind
from remit.workspace.sandbox.secret_places import SECRET_PLACES, SecretPlaces, SecretSearch

__all__ = ["gate", "how"]

CANARY = "canary-b1f4e2"  # lower case, as git spells a setting

NEED_A_JAIL = ("a mount of its own", "each mount")


def plant(home: Path) -> list[Path]:
    """Put a canary into each place: half of the places are folders."""
    planted: list[Path] = []
    for number, name in enumerate(SECRET_PLACES):
        place = home / name.replace("*", "x")
        path = place / "inner/secret" if number % 2 or name == ".ssh" else place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{CANARY}\n")
        planted.append(path)
    return planted


def read_all(gate: Gate, how: Containment, text: str) -> str:
    """Run a command contained, and return all that it said."""
    output = gate.workspace.root / "src/out"
    output.unlink(missing_ok=True)
    run(gate, how, f"exec > src/out 2>&1; {text}")
    return output.read_text(errors="replace")


@pytest.mark.parametrize("way", ["overlay", "bind"])
def test_no_contained_command_reads_a_secret_place(
    gate: Gate, how: Containment, home: Path, way: ContainmentKind
) -> None:
    how, planted = replace(how, way=way), plant(home)
    (home / "control").write_text(CANARY)
    said = read_all(gate, how, f"cat {' '.join(map(shlex.quote, map(str, planted)))}; grep -rl {CANARY} {home}")
    assert CANARY not in said
    assert [line for line in said.splitlines() if line.startswith(str(home))] == [f"{home}/control"]


def test_no_way_to_say_a_place_shows_it(gate: Gate, how: Containment, home: Path, tmp_path: Path) -> None:
    places = [home / ".netrc", home / ".ssh/inner/secret", home / ".config/git/credentials"]
    for path in places:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{CANARY}\n")
    (home / "places").write_text("".join(f"{path}\n" for path in places))
    loops = {
        way: f'while read -r P; do export P; {{ {text}; }} </dev/null; done < "{home}/places"'
        for way, text in WAYS.items()
    }
    bare = tmp_path / "bare/src"
    bare.mkdir(parents=True)
    for way, text in loops.items():
        assert CANARY not in read_all(gate, how, text), way
        if way not in NEED_A_JAIL:
            seen = subprocess.run(["bash", "-c", text], cwd=bare.parent, capture_output=True, check=False).stdout
            assert CANARY.encode() in seen, f"{way} reads nothing at all"


def test_what_is_not_secret_stays_in_sight(gate: Gate, how: Containment, home: Path) -> None:
    for name in (".npmrc", ".config/pip/pip.conf", ".gitconfig-more", ".ssh/config", ".ssh/id.pub", ".aws/config"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"plain {name}\n")
    (home / ".ssh/id").write_text(CANARY)
    said = read_all(
        gate,
        how,
        f"cd {home}; cat .npmrc .config/pip/pip.conf .gitconfig-more .ssh/config .ssh/id.pub .aws/config; ls .ssh",
    )
    assert said.count("plain ") == 6
    assert said.splitlines()[-2:] == ["config", "id.pub"]


def test_a_hidden_file_is_an_empty_one_of_its_own(gate: Gate, how: Containment, home: Path) -> None:
    (home / ".netrc").write_text(CANARY)
    (home / ".docker").mkdir()
    (home / ".docker/config.json").write_text(CANARY)
    text = f"stat -c %F:%a:%s {home}/.netrc; cat {home}/.netrc && echo read; echo x > {home}/.netrc; ls {home}/.docker"
    said = read_all(gate, how, text)
    assert said.startswith("regular empty file:600:0\nread\n")
    assert "Read-only file system" in said or "ermission denied" in said
    assert (home / ".netrc").read_text() == CANARY


def test_a_repository_shows_nothing_until_a_person_trusts_it(gate: Gate, how: Containment, home: Path) -> None:
    place = home / ".aws/credentials"
    place.parent.mkdir()
    place.write_text(CANARY)
    (home / ".netrc").write_text(CANARY)
    gate.workspace.config_path.write_text('mode = "enforce"\n[containment]\nshow = ["~/.aws/credentials"]\n')
    assert CANARY not in read_all(gate, how, f"cat {place}")
    assert not list_shown_places(gate)
    trust_all(gate.workspace.root, home)
    assert CANARY in read_all(gate, how, f"cat {place}")
    assert CANARY not in read_all(gate, how, f"cat {home}/.netrc")
    gate.workspace.config_path.write_text('mode = "enforce"\n[containment]\nshow = ["~/.netrc"]\n')
    assert CANARY not in read_all(gate, how, f"cat {home}/.netrc {place}"), "a wider list asks again"


def test_a_place_that_the_agents_environment_moves_is_hidden(
    gate: Gate, how: Containment, home: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere/kube"
    moved.parent.mkdir()
    moved.write_text(CANARY)
    assert CANARY in read_all(gate, how, f"cat {moved}")
    gate.environment = replace(gate.environment, settings_variables=({"KUBECONFIG": str(moved)},))
    assert CANARY not in read_all(gate, how, f"cat {moved}")


@pytest.mark.parametrize(
    ("command", "place", "setting"),
    [
        ("git push https://127.0.0.1:1/x", ".git-credentials", '"~/.git-credentials"'),
        ("ssh -p 1 127.0.0.1", ".ssh/id_ed25519", '"~/.ssh/id_ed25519"'),
        ("aws s3 ls", ".aws/credentials", '"~/.aws/credentials"'),
        ("make && gcloud auth list", ".config/gcloud/credentials.db", '"~/.config/gcloud"'),
        ("kubectl get pods", ".kube/config", '"~/.kube"'),
        ("docker push x", ".docker/config.json", '"~/.docker/config.json"'),
        ("gh pr list", ".config/gh/hosts.yml", '"~/.config/gh"'),
        ("cargo publish", ".cargo/credentials.toml", '"~/.cargo/credentials.toml"'),
        ("twine upload dist/*", ".pypirc", '"~/.pypirc"'),
        ("grep x ~/.fly/config.yml", ".fly/config.yml", '"~/.fly"'),
    ],
)
def test_who_could_have_read_a_hidden_place_is_told_the_setting(
    home: Path, command: str, place: str, setting: str
) -> None:
    (home / place).parent.mkdir(parents=True, exist_ok=True)
    (home / place).write_text(CANARY)
    programs = {word for word in command.split() if word.isalpha()}
    told = describe_hidden_secrets(command, programs, home, SecretSearch(home).find())
    assert f"`show = [{setting}]`" in told
    assert not describe_hidden_secrets("make all", {"make"}, home, SecretSearch(home).find())
    assert not describe_hidden_secrets(command, programs, home, SecretPlaces())


def test_a_push_over_https_that_fails_is_told_what_is_hidden(gate: Gate, how: Containment, home: Path) -> None:
    (home / ".git-credentials").write_text(f"https://person:{CANARY}@127.0.0.1:1\n")
    said = run(gate, how, "git push https://127.0.0.1:1/x HEAD").said
    assert '`show = ["~/.git-credentials"]`' in said
    assert CANARY not in said


class Registry(BaseHTTPRequestHandler):
    """A server that asks git for a login, and notes by the first folder of a path who sent which."""

    seen: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        kind, login = self.path.split("/")[1], self.headers.get("Authorization", "")
        self.seen[kind] = self.seen.get(kind, "") or login
        self.send_response(404 if login or kind != "git" else 401)
        self.send_header("WWW-Authenticate", 'Basic realm="test"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def registry() -> Generator[str]:
    Registry.seen.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.live
@pytest.mark.parametrize("is_shown", [False, True])
def test_registries_are_asked_with_their_login_and_git_only_where_it_is_shown(
    gate: Gate, how: Containment, home: Path, registry: str, is_shown: bool
) -> None:
    """Files that hold settings and a login stay in sight: else npm and pip ask the public registry."""
    intents = gate.workspace.intents_path
    intents.write_text(intents.read_text().replace("network: none\n    ", "", 1))
    (home / ".git-credentials").write_text(f"http://person:{CANARY}@{registry}\n")
    (home / ".netrc").write_text(f"machine 127.0.0.1 login person password {CANARY}\n")
    (home / ".npmrc").write_text(f"registry=http://{registry}/npm/\n//{registry}/npm/:_authToken={CANARY}\n")
    (home / ".config/pip").mkdir(parents=True)
    (home / ".config/pip/pip.conf").write_text(f"[global]\nindex-url = http://person:{CANARY}@{registry}/pip/\n")
    if is_shown:
        show = 'mode = "enforce"\n[containment]\nshow = ["~/.git-credentials", "~/.netrc"]\n'
        gate.workspace.config_path.write_text(show)
        trust_all(gate.workspace.root, home)
    python = sys.executable
    text = (
        f"export GIT_TERMINAL_PROMPT=0; git -c credential.helper=store ls-remote http://{registry}/git/x.git; "
        f"curl -s -n http://{registry}/curl/x; npm view x --fetch-retries=0; {python} -m pip index versions x; true"
    )
    said = read_all(gate, how, text)
    seen = Registry.seen
    assert bool(seen["git"]) is bool(seen["curl"]) is is_shown
    assert ("could not read Username" in said) is not is_shown
    if shutil.which("npm"):
        assert seen["npm"] == f"Bearer {CANARY}"
    if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        assert seen["pip"].startswith("Basic ")
