"""The console for other machines over real TLS, with a real provider of identities: who comes in, and who may what."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.console_world import Answered, Browser, wait_until_answerable
from console.remote_world import (
    ProviderProcess,
    RemoteVisitor,
    serving_remote,
    settings_of,
    write_settings,
)
from console.test_console import Asked, body_for, wait_for_card
from console.test_remote_settings import remit
from gate.driving import Agent, governed, records
from remit.console.pairing import LOGINS_FILE, ROLES, Role
from remit.console.routes import WRITES
from remit.console.server import ConsoleServer
from remit.workspace.place.workspace import register_repository, workspace_at
from waiting import wait_until


@pytest.fixture(scope="module")
def running_provider() -> Iterator[ProviderProcess]:
    found = ProviderProcess()
    yield found
    found.end()


@pytest.fixture
def provider(running_provider: ProviderProcess) -> ProviderProcess:
    running_provider.set_mischief()
    return running_provider


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    found = Agent(repository, home)
    found.select()
    return found


@pytest.fixture
def server(agent: Agent, provider: ProviderProcess) -> Iterator[ConsoleServer]:
    write_settings(agent.home, settings_of(provider, agent.home))
    with serving_remote(agent.home) as found:
        yield found


@pytest.fixture
def visitor(server: ConsoleServer, agent: Agent) -> RemoteVisitor:
    return RemoteVisitor(server, agent.home)


def test_a_person_logs_in_and_reads(visitor: RemoteVisitor) -> None:
    assert visitor.get("/").status == 401
    assert visitor.log_in("anna").status == 200
    page = visitor.get("/")
    assert page.status == 200
    assert "anna@example.org" in page.text
    api = json.loads(visitor.get("/openapi.json").body)
    assert "KeyBody" in json.dumps(api["paths"]["/login/key"])
    assert "/pair" not in api["paths"]
    assert visitor.server.pushes.get_origin() == visitor.origin
    assert page.headers["strict-transport-security"].startswith("max-age=")


def tell_time(server: ConsoleServer, later_s: float) -> Callable[[], float]:
    """Return a clock that stands still at a time to come."""
    later = server.clock.now() + later_s
    return lambda: later


@pytest.fixture
def asked(agent: Agent, server: ConsoleServer, visitor: RemoteVisitor) -> Iterator[Asked]:
    """An agent that waits for a person, while a page of somebody who may answer is open."""
    watching = RemoteVisitor(server, agent.home)
    watching.log_in("ben")
    with watching.client.stream("GET", f"{watching.origin}/live") as stream:
        blocks = stream.iter_raw()
        next(blocks)  # the connection is closed once nobody holds them
        wait_until_answerable(server)
        yield Asked(agent)


def test_who_answered_is_in_the_record(
    agent: Agent, asked: Asked, visitor: RemoteVisitor, provider: ProviderProcess
) -> None:
    visitor.log_in("ben")
    card = wait_for_card(visitor)
    path = f"/approvals/{card['question']['id']}/answer"
    assert visitor.post(path, body_for(card)).status == 200
    assert asked.decision == "allow"
    who = {"issuer": provider.issuer, "subject": "user-2", "name": "ben@example.org"}
    record = records(agent.cwd, "approval_answered")[0]
    answered = record["metadata"]["dev.remit"]["approval"]
    assert (answered["by"], answered["through"], answered["who"]) == ("person", "console", who)
    paired = [record["metadata"]["dev.remit"] for record in records(agent.cwd, "console_paired")]
    assert [(one["who"]["name"], one["role"], one["address"]) for one in paired] == [
        ("ben@example.org", "approve", "127.0.0.1"),
        ("ben@example.org", "approve", "127.0.0.1"),
    ]
    shown = remit(agent.home, agent.cwd, "show", str(record["id"])).stdout
    assert f"ben@example.org (user-2 at {provider.issuer})" in " ".join(shown.split())
    assert "<dd>ben@example.org</dd>" in visitor.get(f"/r/{agent.cwd.name}/records/{record['id']}").text
    again = visitor.post(path, body_for(card))
    assert (again.status, "by ben@example.org in the console" in again.text) == (409, True)


# Who comes in


def test_what_is_kept_of_a_login_is_a_hash_in_the_database_and_a_cookie_of_this_host_alone(
    server: ConsoleServer, visitor: RemoteVisitor, agent: Agent
) -> None:
    begun = visitor.get("/login")
    assert re.fullmatch(r"__Host-remit-login=\S+; HttpOnly; .*SameSite=lax; Secure", begun.headers["set-cookie"])
    visitor.log_in("anna")
    cookie = next(each for each in visitor.client.cookies.jar if each.name == "__Host-remit")
    assert (cookie.secure, cookie.domain_specified, cookie.path) == (True, False, "/")
    sent = visitor.bring(visitor.choose_person(visitor.begin_login(), "anna")).headers["set-cookie"]
    assert re.search(r"__Host-remit=\S+; HttpOnly; Max-Age=43200; Path=/; SameSite=strict; Secure", sent)
    assert cookie.value is not None
    assert cookie.value.encode() not in (agent.home / LOGINS_FILE).read_bytes()
    assert not [file for file in agent.home.rglob("*.json") if cookie.value in file.read_text("utf-8", "replace")]


def test_a_login_ends_by_logout_by_its_time_and_by_an_admin(
    server: ConsoleServer, visitor: RemoteVisitor, agent: Agent
) -> None:
    visitor.log_in("vera")
    with visitor.client.stream("GET", f"{visitor.origin}/live") as stream:
        blocks = stream.iter_raw()
        next(blocks)
        assert visitor.ask("POST", "/logout").status == 403  # no page of the console asks
        assert visitor.ask("POST", "/logout", Origin=visitor.origin).data == {"next": "/logged-out"}
        assert "still here" not in b"".join(blocks).decode()  # the stream ends
    assert visitor.get("/").status == 401
    assert "You are logged out" in visitor.get("/logged-out").text

    visitor.log_in("vera")
    admin = RemoteVisitor(server, agent.home)
    admin.log_in("anna")
    page = admin.get("/settings").text
    login = re.search(r'data-unpair="(\w+)" aria-label="End the login of vera@', page)
    assert login is not None
    assert visitor.post(f"/unpair/{admin.id}", {}).status == 403
    assert admin.post(f"/unpair/{login[1]}", {}).status == 200
    assert visitor.get("/").status == 401
    assert admin.get("/").status == 200
    assert server.logins is not None
    server.logins.clock = tell_time(server, 12 * 3600 + 1)
    assert admin.get("/").status == 401


def test_a_login_survives_a_restart(agent: Agent, provider: ProviderProcess) -> None:
    write_settings(agent.home, settings_of(provider, agent.home))
    with serving_remote(agent.home) as first:
        visitor = RemoteVisitor(first, agent.home)
        visitor.log_in("anna")
    with serving_remote(agent.home) as second:
        again = RemoteVisitor(second, agent.home)
        again.client.cookies, again.key, again.id = visitor.client.cookies, visitor.key, visitor.id
        assert again.get("/").status == 200
        assert again.post("/settings/redaction", {"repository": agent.cwd.name, "text": "x"}).status == 200


def test_an_answer_of_the_provider_serves_one_login_of_one_browser(
    server: ConsoleServer, visitor: RemoteVisitor, agent: Agent, provider: ProviderProcess
) -> None:
    asked = len(provider.list_asked())
    answer = visitor.choose_person(visitor.begin_login(), "anna")
    stranger = RemoteVisitor(server, agent.home)
    stranger.begin_login()
    for wrong in (answer, re.sub("state=[^&]+", "state=x", answer), re.sub("&?state=[^&]+", "", answer)):
        assert stranger.bring(wrong).status == 403, wrong
    assert visitor.bring(re.sub("state=[^&]+", "state=x", answer)).status == 403
    assert len(provider.list_asked()) == asked  # no code went anywhere
    assert visitor.bring(answer).status == 200
    assert visitor.bring(answer).status == 403
    # A used code, and one of another browser's login, in an attempt of this one: PKCE and the provider refuse.
    code = re.search("code=[^&]+", answer)
    other = re.search("code=[^&]+", stranger.choose_person(stranger.begin_login(), "ben"))
    assert code is not None
    assert other is not None
    for brought in (code[0], other[0]):
        mine = re.sub("code=[^&]+", brought, visitor.choose_person(visitor.begin_login(), "anna"))
        refused = visitor.bring(mine)
        assert (refused.status, "the provider refused the login" in refused.text) == (403, True)


def test_an_attempt_is_over_after_ten_minutes(server: ConsoleServer, visitor: RemoteVisitor) -> None:
    answer = visitor.choose_person(visitor.begin_login(), "anna")
    assert server.logins is not None
    server.logins.clock = tell_time(server, 601)
    assert visitor.bring(answer).status == 403


LONG_AGO, FAR_AWAY = 1_000_000_000, 4_102_444_800
LIES: dict[str, dict[str, Any]] = {
    "no signature": {"sign": "none"},
    "the public key as a secret": {"sign": "public key as a secret"},
    "another key": {"sign": "stranger"},
    "another nonce": {"claims": {"nonce": "of another login"}},
    "no nonce": {"claims": {"nonce": None}},
    "another issuer": {"claims": {"iss": "https://elsewhere.example"}},
    "another audience": {"claims": {"aud": "another-client"}},
    "others besides": {"claims": {"aud": ["remit", "another-client"]}},
    "another party": {"claims": {"azp": "another-client"}},
    "expired": {"claims": {"exp": LONG_AGO}},
    "for ever": {"claims": {"exp": None}},
    "from the future": {"claims": {"iat": FAR_AWAY}},
    "nobody": {"claims": {"sub": None}},
    "not for this access token": {"claims": {"at_hash": "x"}},
    "an answer of another provider": {"answer": {"iss": "https://elsewhere.example"}},
    "an answer of no provider": {"answer": {"iss": None}},
    "an error": {"answer": {"error": "access_denied", "error_description": "<b>no</b>"}},
}


@pytest.mark.parametrize("lie", LIES)
def test_an_identity_that_does_not_hold_lets_nobody_in(
    lie: str, visitor: RemoteVisitor, provider: ProviderProcess
) -> None:
    provider.set_mischief(**LIES[lie])
    refused = visitor.log_in("anna")
    assert (refused.status, "log in again" in refused.text, "<b>" in refused.text) == (403, True, False)
    assert visitor.get("/").status == 401
    provider.set_mischief()
    assert visitor.log_in("anna").status == 200


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://elsewhere.example"},
        {"token_endpoint": "http://elsewhere.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": None},
    ],
)
def test_a_provider_that_calls_itself_otherwise_is_not_asked(
    metadata: dict[str, Any], visitor: RemoteVisitor, provider: ProviderProcess
) -> None:
    provider.set_mischief(metadata=metadata)
    assert visitor.get("/login").status == 502


def test_nobody_comes_in_without_a_role(visitor: RemoteVisitor) -> None:
    for person in ("nemo", "hanna"):
        refused = visitor.log_in(person)
        assert (refused.status, "has no role here" in refused.text) == (403, True)
        assert "ask the person who runs this console" in refused.text
        assert visitor.get("/").status == 401


def test_a_role_may_stand_in_what_the_provider_tells_besides(visitor: RemoteVisitor, provider: ProviderProcess) -> None:
    assert visitor.log_in("ina").status == 200
    provider.set_mischief(userinfo={"sub": "user-1"})  # of somebody else
    assert visitor.log_in("ina").status == 403


@pytest.mark.parametrize(
    ("more", "person", "status"),
    [
        ('roles_claim = "email"\n[console.roles]\nadmin = ["anna@example.org"]\n', "anna", 200),
        ('roles_claim = "email"\n[console.roles]\nadmin = ["anna@example.org"]\n', "hanna", 403),  # not verified
        ('roles_claim = "email"\n[console.roles]\nadmin = ["anna@example.org"]\n', "ben", 403),
        ('roles_claim = "realm_access.roles"\n', "ina", 200),
        ('[console.roles]\nview = ["approve"]\n', "ben", 200),
        ('[console.roles]\nview = ["approve"]\n', "anna", 403),
    ],
)
def test_the_person_who_runs_the_console_says_what_gives_a_role(
    more: str, person: str, status: int, agent: Agent, provider: ProviderProcess
) -> None:
    write_settings(agent.home, settings_of(provider, agent.home, more=more))
    with serving_remote(agent.home) as server:
        visitor = RemoteVisitor(server, agent.home)
        assert visitor.log_in(person).status == status
        if "view" in more:
            assert ("view</span>" in visitor.get("/").text) == (status == 200)


# Who may what


@pytest.mark.parametrize(("person", "role"), [("vera", "view"), ("ben", "approve"), ("anna", "admin")])
def test_each_write_needs_its_role(person: str, role: Role, visitor: RemoteVisitor, agent: Agent) -> None:
    visitor.log_in(person)
    assert {write.role for write in WRITES} == set(ROLES)
    for write in WRITES:
        address = re.sub(r"\{repository\}", agent.cwd.name, write.url)
        found = visitor.post(re.sub(r"\{\w+(?::path)?\}", "none", address), {})
        is_allowed = ROLES.index(role) >= ROLES.index(write.role)
        assert (found.status == 403) != is_allowed, (write.url, found.text)
        assert ("your role here is" in found.text) != is_allowed, write.url


def test_nobody_is_asked_while_only_people_who_read_look_on(
    agent: Agent, server: ConsoleServer, visitor: RemoteVisitor
) -> None:
    visitor.log_in("vera")
    with visitor.client.stream("GET", f"{visitor.origin}/live") as stream:
        blocks = stream.iter_raw()
        next(blocks)  # the connection is closed once nobody holds them
        wait_until(lambda: server.console.watcher.has_looked)
        assert Asked(agent).decision == "deny"
        assert not records(agent.cwd, "approval_requested")


def test_a_record_of_every_write_names_the_person(visitor: RemoteVisitor, agent: Agent) -> None:
    """In the daemon, and in a worker process."""
    visitor.log_in("anna")
    answer = visitor.post(f"/r/{agent.cwd.name}/intents/INT-001/fork", {"name": "Another"})
    assert answer.status == 200, answer.text
    changed = [record["metadata"]["dev.remit"] for record in records(agent.cwd, "intent_changed")]
    assert changed[-1]["who"]["subject"] == "user-1"


def test_a_write_needs_the_key_of_this_login(server: ConsoleServer, visitor: RemoteVisitor, agent: Agent) -> None:
    body = {"repository": agent.cwd.name, "text": "x"}
    visitor.bring(visitor.choose_person(visitor.begin_login(), "anna"))
    assert visitor.get("/").status == 200
    assert visitor.post("/settings/redaction", body).status == 401  # no key yet
    assert visitor.register_key().status == 200
    assert visitor.register_key().status == 403  # once
    assert visitor.post("/settings/redaction", body).status == 200
    proof = visitor.proof("POST", "/settings/redaction", json.dumps(body).encode())
    assert visitor.post("/settings/redaction", body, proof=proof).status == 200
    assert visitor.post("/settings/redaction", body, proof=proof).status == 409  # sent again
    assert visitor.post("/settings/redaction", body, Origin="https://evil.example").status == 403
    other = RemoteVisitor(server, agent.home)
    other.log_in("anna")
    other.key = visitor.key
    assert other.post("/settings/redaction", body).status == 401
    late = RemoteVisitor(server, agent.home)
    late.bring(late.choose_person(late.begin_login(), "anna"))
    assert server.logins is not None
    server.logins.clock = tell_time(server, 121)
    assert late.register_key().status == 403


# Where from


def test_each_address_knows_its_own_name_and_its_own_cookie(
    server: ConsoleServer, visitor: RemoteVisitor, agent: Agent
) -> None:
    visitor.log_in("anna")
    local = Browser(server)
    local.pair()
    remote_cookie = next(each.value for each in visitor.client.cookies.jar if each.name == "__Host-remit")
    for host in (local.host, "localhost", f"127.0.0.1:{server.port}", "evil.com", f"{visitor.host}.evil.com"):
        assert visitor.get("/", Host=host).status == 421, host
    assert visitor.get("/", X_Forwarded_Host=visitor.host, Host="evil.com").status == 421
    assert local.get("/", Host=visitor.host).status == 421
    stranger = Browser(server)
    assert stranger.get("/", Cookie=f"__Host-remit={remote_cookie}").status == 401
    assert stranger.get("/", Cookie=f"remit_read={remote_cookie}").status == 401
    away = RemoteVisitor(server, agent.home)
    assert away.get("/", Cookie=f"remit_read={local.cookie}; __Host-remit={local.cookie}").status == 401
    assert away.get("/pair").status == 404
    assert local.get("/login").status == 404


def test_another_site_leads_only_to_the_end_of_a_login(visitor: RemoteVisitor) -> None:
    visitor.log_in("anna")
    led = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    for address in ("/", "/login", "/settings", "/live", "/approvals.json"):
        assert visitor.get(address, **led).status == 403, address
    answer = visitor.choose_person(visitor.begin_login(), "anna")
    for other in ({"Sec_Fetch_Mode": "no-cors"}, {"Sec_Fetch_Dest": "iframe"}, {"Sec_Fetch_Dest": "image"}):
        assert visitor.get(answer, **(led | other)).status == 403
    assert visitor.bring(answer).status == 200


ATTEMPT = """
import ssl, sys, http.client
from urllib.parse import urlsplit
origin, path, body, cookie, proof, cafile = sys.argv[1:]
parts = urlsplit(origin)
connection = http.client.HTTPSConnection(parts.hostname, parts.port, context=ssl.create_default_context(cafile=cafile))
headers = {"Origin": origin, "Cookie": cookie, "Remit-Proof": proof}
connection.request("POST", path, body, headers)
print(connection.getresponse().status)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the agent's process is found there")
def test_an_agent_on_this_machine_decides_nothing_by_the_way_round(
    agent: Agent, asked: Asked, visitor: RemoteVisitor, tmp_path: Path
) -> None:
    """Even with a person's own login and key: a program named `claude` started the one that asks."""
    visitor.log_in("anna")
    card = wait_for_card(visitor)
    path, body = f"/approvals/{card['question']['id']}/answer", json.dumps(body_for(card))
    cookie = "; ".join(f"{each.name}={each.value}" for each in visitor.client.cookies.jar)
    claude = tmp_path / "claude"
    claude.write_text(
        f"import subprocess, sys\nsys.exit(subprocess.run([{sys.executable!r}, *sys.argv[1:]]).returncode)\n"
    )
    words = [visitor.origin, path, body, cookie, visitor.proof("POST", path, body.encode())]
    words.append(str(agent.home / ".config/remit/cert.pem"))
    done = subprocess.run([sys.executable, str(claude), "-c", ATTEMPT, *words], capture_output=True, text=True)
    assert done.stdout.strip() == "403", done.stderr
    assert "started this" in records(agent.cwd, "denied")[-1]["metadata"]["dev.remit"]["violation"]["error"]
    assert visitor.post(path, body_for(card, allow=False)).status == 200
    assert asked.decision == "deny"


def test_connections_that_begin_no_encryption_are_closed_and_keep_nobody_out(visitor: RemoteVisitor) -> None:
    port = int(visitor.origin.rpartition(":")[2])
    idle = [socket.create_connection(("127.0.0.1", port), timeout=120) for _ in range(300)]
    assert visitor.log_in("vera").status == 200
    assert [connection.recv(1) for connection in idle] == [b""] * 300
    for connection in idle:
        connection.close()


# Behind a proxy


@pytest.fixture
def proxied(agent: Agent, provider: ProviderProcess) -> Iterator["ProxiedVisitor"]:
    """A visitor whose requests stand for those of a proxy on this machine, which has the TLS."""
    text = settings_of(provider, agent.home).replace('cert = "cert.pem"\n', 'proxies = ["127.0.0.1", "10.0.0.0/8"]\n')
    write_settings(agent.home, "".join(line for line in text.splitlines(True) if not line.startswith("key =")))
    with serving_remote(agent.home) as server:
        yield ProxiedVisitor(server, agent.home)


class ProxiedVisitor(RemoteVisitor):
    """A visitor who comes through a proxy with TLS; the proxy says by which address, and that it was https."""

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answered:
        sent = {name.replace("_", "-"): value for name, value in (headers | self.said).items()}
        sent = {"Host": self.host, "X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"} | sent
        cookies = "; ".join(f"{name}={value}" for name, value in self.kept.items())
        assert self.server.remote_settings is not None
        address = f"http://127.0.0.1:{self.server.remote_settings.address.port}{path}"
        response = self.client.request(method, address, content=body or None, headers=sent | {"Cookie": cookies})
        for line in response.headers.get_list("set-cookie"):
            name, _, rest = line.partition("=")
            self.kept[name] = rest.partition(";")[0]
        self.client.cookies.clear()
        return Answered(response.status_code, dict(response.headers), response.content)

    def __init__(self, server: ConsoleServer, home: Path) -> None:
        super().__init__(server, home)
        self.kept: dict[str, str] = {}
        self.said: dict[str, str] = {}


def test_a_proxy_s_word_tells_the_client(agent: Agent, proxied: ProxiedVisitor) -> None:
    addresses: list[tuple[dict[str, str], str]] = [
        ({}, "203.0.113.9"),
        ({"X_Forwarded_For": "192.0.2.1, 198.51.100.7, 10.1.2.3"}, "198.51.100.7"),  # the last but the proxies
        ({"X_Forwarded_For": "<script>, 10.1.2.3"}, "10.1.2.3"),
        ({"X_Forwarded_For": "nonsense"}, "127.0.0.1"),
        ({"X_Forwarded_For": "fe80::1%<script>"}, "127.0.0.1"),
    ]
    for said, _ in addresses:
        proxied.said = said
        assert proxied.log_in("vera").status == 200
    paired = [record["metadata"]["dev.remit"]["address"] for record in records(agent.cwd, "console_paired")]
    assert paired == [address for _, address in addresses]


def test_what_did_not_come_by_https_is_refused(proxied: ProxiedVisitor) -> None:
    for said in ({"X_Forwarded_Proto": "http"}, {"X_Forwarded_Proto": ""}, {"X_Forwarded_Host": "evil.com"}):
        assert proxied.get("/", **said).status == 421, said
    assert proxied.get("/", Host="inner.example:7718", X_Forwarded_Host=proxied.host).status == 401
    assert proxied.get("/", Host="evil.com").status == 421


def test_nobody_but_the_proxy_is_answered(agent: Agent, provider: ProviderProcess) -> None:
    text = settings_of(provider, agent.home).replace('cert = "cert.pem"\n', 'proxies = ["10.0.0.1"]\n')
    write_settings(agent.home, "".join(line for line in text.splitlines(True) if not line.startswith("key =")))
    with serving_remote(agent.home) as server:
        assert ProxiedVisitor(server, agent.home).get("/login").status == 421


def test_who_is_no_proxy_says_nothing_about_where_they_are(agent: Agent, visitor: RemoteVisitor) -> None:
    answer = visitor.choose_person(visitor.begin_login(), "vera")
    led = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    forged = {"X_Forwarded_For": "203.0.113.9", "X_Forwarded_Proto": "http", "Forwarded": "for=203.0.113.9"}
    assert visitor.get(answer, **led, **forged).status == 200
    assert visitor.register_key().status == 200
    assert [r["metadata"]["dev.remit"]["address"] for r in records(agent.cwd, "console_paired")] == ["127.0.0.1"]
