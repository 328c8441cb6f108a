"""Settings of remote access: what opens the console to other machines, and what never does."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from console.console_world import machine, serving
from console.remote_world import find_free_port, make_certificate, write_settings
from forked_commands import run_command
from gate.driving import Agent, governed
from remit.console.remote.settings import RemoteSettings, RemoteSetupRefused, read_remote_settings
from remit.console.server import ConsoleServer
from remit.core.extras import describe_installation
from remit.core.machine_paths import CONFIG_PATH
from remit.workspace.place.workspace import register_repository, workspace_at

WHOLE = """\
[console]
origin = "https://remit.example.org"
cert = "cert.pem"
key = "key.pem"
issuer = "https://login.example.org"
client_id = "remit"
"""


@pytest.fixture
def files(home: Path) -> Path:
    make_certificate(home / ".config/remit")
    return home


def read(home: Path, text: str) -> RemoteSettings:
    write_settings(home, text)
    found = read_remote_settings(home)
    assert found is not None
    return found


def test_without_settings_only_this_machine_reaches_the_console(home: Path) -> None:
    assert read_remote_settings(home) is None
    write_settings(home, "")
    assert read_remote_settings(home) is None
    with serving(home) as server:
        assert server.socket.getsockname()[0] == "127.0.0.1"
        assert not server.is_in_use


def test_with_tls_it_listens_everywhere_and_behind_a_proxy_here_alone(files: Path) -> None:
    assert read(files, WHOLE).address == ("0.0.0.0", 443)
    assert read(files, WHOLE.replace(".org", ".org:8443", 1)).address == ("0.0.0.0", 8443)
    assert read(files, f'{WHOLE}listen = "[::1]:9000"\n').address == ("::1", 9000)
    proxied = WHOLE.replace('cert = "cert.pem"\nkey = "key.pem"', 'proxies = ["10.0.0.0/8", "::1"]')
    found = read(files, proxied)
    assert found.address == ("127.0.0.1", 7718)
    proxies = ("10.2.3.4", "::1", "::ffff:10.0.0.1", "127.0.0.1", "11.0.0.1", "proxy", "")
    assert [found.is_proxy(each) for each in proxies] == [True, True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('cert = "cert.pem"\nkey = "key.pem"\n', "", "without TLS"),
        ('cert = "cert.pem"\nkey = "key.pem"\n', 'listen = "0.0.0.0:80"\n', "without TLS"),
        ('key = "key.pem"\n', "", "cert and key come together"),
        ('"key.pem"', '"nowhere.pem"', "nowhere.pem cannot be read"),
        ("https://remit", "http://remit", "origin is"),
        ("example.org", "example.org/console", "origin is"),
        ("remit.example", "anna@remit.example", "origin is"),
        ("remit.example", "Remit.example", "origin is"),
        ("example.org", "example.org:443", "origin is"),
        ('origin = "https://remit.example.org"', "", "origin is"),
        ('issuer = "https://login.example.org"\n', "", "nobody can log in"),
        ("https://login", "http://login", "nobody can log in"),
        ('client_id = "remit"\n', "", "nobody can log in"),
        ('client_id = "remit"', 'client_id = "remit"\nproxies = ["my-proxy"]', "no IP address"),
        ('client_id = "remit"', 'client_id = "remit"\nproxies = ["0.0.0.0/0"]', "is everybody"),
        ('client_id = "remit"', 'client_id = "remit"\nlisten = "8443"', "listen is"),
        ('client_id = "remit"', 'client_id = "remit"\nlisten = "0.0.0.0:999999"', "listen is"),
        ('client_id = "remit"', 'client_id = "remit"\nsession_hours = 0', "session_hours is"),
        ('client_id = "remit"', 'client_id = "remit"\nscopes = ["email"]', "no identity"),
        ('client_id = "remit"', 'client_id = "remit"\n[console.roles]\nroot = ["anna"]', "root"),
        ('client_id = "remit"', 'client_id = "remit"\nopen = true', "open"),
        ("[console]", "[console", "remit.toml"),
        ('client_id = "remit"', 'client_id = "remit"\nclient_secret_file = "~/none"', "none cannot be read"),
    ],
)
def test_the_console_does_not_start_half_open(files: Path, before: str, after: str, why: str) -> None:
    assert before in WHOLE
    write_settings(files, WHOLE.replace(before, after, 1))
    with pytest.raises(RemoteSetupRefused) as refused:
        ConsoleServer(lambda: machine(files), 0)
    assert why in str(refused.value)
    assert refused.value.fix


def test_settings_that_others_could_have_written_open_nothing(files: Path) -> None:
    write_settings(files, WHOLE)
    (files / CONFIG_PATH).chmod(0o664)
    with pytest.raises(RemoteSetupRefused, match="can be written by others"):
        read_remote_settings(files)


def test_a_certificate_or_an_address_that_cannot_be_used_is_named(files: Path) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    write_settings(files, f'{WHOLE}listen = "127.0.0.1:{taken.getsockname()[1]}"\n')
    with pytest.raises(RemoteSetupRefused, match="cannot be listened at"):
        ConsoleServer(lambda: machine(files), 0)
    taken.close()
    (files / ".config/remit/cert.pem").write_text("no certificate")
    write_settings(files, f'{WHOLE}listen = "127.0.0.1:{find_free_port()}"\n')
    with pytest.raises(RemoteSetupRefused, match="cannot be used"):
        ConsoleServer(lambda: machine(files), 0)


def test_a_repository_opens_nothing(repository: Path, files: Path) -> None:
    governed(repository)
    register_repository(files, workspace_at(repository, repository))
    config = repository / ".orchestration/remit.toml"
    config.write_text(config.read_text() + WHOLE)
    with serving(files) as server:
        assert server.remote_settings is None
        assert not server.is_in_use


def test_an_agent_does_not_write_the_settings(repository: Path, home: Path) -> None:
    governed(repository)
    agent = Agent(repository, home)
    agent.select()
    (home / ".config/remit").mkdir(parents=True)
    refused = agent.ask("Write", file_path=str(home / CONFIG_PATH), content=WHOLE)
    assert refused["permissionDecision"] == "deny"
    assert "it is Remit's own" in refused["permissionDecisionReason"]


def remit(home: Path, cwd: Path, *words: str, hidden: str = "") -> subprocess.CompletedProcess[str]:
    if not hidden:
        return run_command(words, cwd)
    run = f"import sys; sys.modules[{hidden!r}] = None; from remit.cli import main; main()"
    return subprocess.run([sys.executable, "-c", run, *words], cwd=cwd, capture_output=True, text=True, check=False)


def test_doctor_says_who_can_reach_the_console(repository: Path, files: Path) -> None:
    def check(hidden: str = "") -> tuple[str, str, str]:
        found = json.loads(remit(files, repository, "doctor", "--json", hidden=hidden).stdout)["data"]["checks"]
        line = next(each for each in found if each["name"] == "console")
        return line["level"], line["message"], line.get("fix", "")

    assert check() == ("ok", "for this machine only", "")
    write_settings(files, WHOLE)
    key = files / ".config/remit/key.pem"
    key.chmod(0o644)
    assert check() == ("warn", "~/.config/remit/key.pem can be read by others", "chmod 600 ~/.config/remit/key.pem")
    key.chmod(0o600)
    assert check()[:2] == (
        "ok",
        "open to people who log in, at https://remit.example.org; login by https://login.example.org",
    )
    level, message, fix = check("authlib")
    assert (level, fix) == ("fail", describe_installation("remote"))
    assert "authlib is not installed" in message
    write_settings(files, WHOLE.replace("issuer", "# issuer"))
    assert check()[0] == "fail"
