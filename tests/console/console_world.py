"""A console over a governed repository, asked through a real socket by a paired client with a real key."""

import base64
import hashlib
import http.client
import json
import os
import secrets
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec.structs import replace

from forked_commands import open_process
from gate.driving import Agent, machine
from remit.console.pairing import PairedBrowser
from remit.console.server import ConsoleServer
from remit.console.workers import RUN_WORKER
from remit.core.clock import Clock
from remit.workspace.place.workspace import workspace_at
from remit.workspace.system_clock import SYSTEM_CLOCK
from remit_agent.models.messages import ModelTurn, TextPart, ThoughtPart, ToolCallPart
from remit_agent.session.journal.file import Journal, RunDirectory, runs_folder
from remit_agent.session.journal.lines import QuestionLine, ResultLine, RunLine, TurnLine, UserLine
from waiting import wait_until


class Answered:
    """A response: status, headers in lower case, body."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def data(self) -> Any:
        return json.loads(self.body)["data"]


class Browser:
    """A client that pairs and signs as the console's pages do."""

    def __init__(self, server: ConsoleServer) -> None:
        self.server = server
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.id = self.cookie = ""

    @property
    def host(self) -> str:
        return self.server.guard.origin.removeprefix("http://")

    @property
    def public_key(self) -> str:
        form = self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(form).decode()

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=90)
        sent = {"Host": self.host, **({"Cookie": f"remit_read={self.cookie}"} if self.cookie else {})}
        connection.request(method, path, body or None, sent | {k.replace("_", "-"): v for k, v in headers.items()})
        response = connection.getresponse()
        found = Answered(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        connection.close()
        return found

    def get(self, path: str, **headers: str) -> Answered:
        return self.ask("GET", path, b"", **headers)

    def pair(self, secret: str = "") -> Answered:
        secret = secret or self.server.pairing.make_link_secret()
        body = json.dumps({"secret": secret, "public_key": self.public_key, "name": "test"}).encode()
        found = self.ask("POST", "/pair", body, Origin=self.server.guard.origin)
        if found.status == 200:
            self.id = found.data["id"]
            self.cookie = found.headers["set-cookie"].partition("=")[2].partition(";")[0]
        return found

    def proof(self, method: str, path: str, body: bytes, *, at: float = 0.0, nonce: str = "") -> str:
        stamp, nonce = str(int((at or self.server.clock.now()) * 1000)), nonce or secrets.token_hex(16)
        signed = "\n".join((method, path, hashlib.sha256(body).hexdigest(), stamp, nonce)).encode()
        r, s = decode_dss_signature(self.key.sign(signed, ec.ECDSA(SHA256())))
        raw = r.to_bytes(32, "big") + s.to_bytes(32, "big")
        return f"key={self.id}, t={stamp}, n={nonce}, sig={base64.urlsafe_b64encode(raw).decode().rstrip('=')}"

    def post(self, path: str, data: object, *, proof: str | None = None, **headers: str) -> Answered:
        body = json.dumps(data).encode()
        signed = self.proof("POST", path, body) if proof is None else proof
        headers = {"Origin": self.server.guard.origin, "Remit_Proof": signed} | headers
        return self.ask("POST", path, body, **headers)


def keep_run(root: Path, text: str) -> str:
    """Keep the journal of a run of Remit's own agent in which everything says `text`, and return its id."""
    journal = Journal(RunDirectory.create(runs_folder(workspace_at(root, root)), "run-1"))
    calls = ToolCallPart("c1", "execute_command", {"command": text})
    if not journal.lines:
        journal.append(RunLine(run="run-1", task=text, cwd=text, model=text, mode=text))
        journal.append(UserLine(text=text))
        journal.append(TurnLine(turn=ModelTurn((TextPart(text), ThoughtPart(text), calls), "tool_calls")))
        journal.append(ResultLine(id="c1", kind="denied", text=text, told=text))
        journal.append(QuestionLine(id="q1", kind="followup", text=text, choices=(text,)))
    journal.close()
    return "run-1"


def put_on_clock(agent: Agent, clock: Clock) -> Agent:
    """Let the agent's gate read this clock: a sign of the console is as old for it as for the console."""
    agent.environment = replace(agent.environment, clock=clock)
    return agent


def sign_everywhere(server: ConsoleServer) -> None:
    """Sign for a person who answers in each repository, as an open page does; good for a while of the clock."""
    repositories = server.console.repositories
    for repository in repositories.list_all():
        with repositories.open_gate(repository) as gate:
            gate.questions.mark_watcher_present()


def is_watched(server: ConsoleServer) -> bool:
    """Tell whether agents of each repository know of somebody who answers: only then they ask. A sign counts for
    seconds only.
    """
    repositories = server.console.repositories
    for repository in repositories.list_all():
        with repositories.open_gate(repository) as gate:
            if not gate.questions.is_watcher_present():
                return False
    return True


def wait_until_answerable(server: ConsoleServer) -> None:
    """Wait until agents know of an open page."""
    wait_until(lambda: server.console.watcher.answerers > 0 and is_watched(server), "no page signs for a person")


@contextmanager
def open_page(browser: Browser) -> Generator[None]:
    """Hold a live stream open, as a page does, once agents know of it. What it tells is left unread."""
    connection = http.client.HTTPConnection("127.0.0.1", browser.server.port, timeout=90)
    connection.request("GET", "/live", headers={"Host": browser.host, "Cookie": f"remit_read={browser.cookie}"})
    response = connection.getresponse()
    try:
        wait_until_answerable(browser.server)
        yield
    finally:
        response.close()
        connection.close()


def fork_worker() -> "subprocess.Popen[bytes]":
    """Start a worker process of the console that has imported what it needs; it ends with the console."""
    return open_process((), RUN_WORKER, env=os.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@contextmanager
def serving(home: Path, port: int = 0, clock: Clock = SYSTEM_CLOCK) -> Generator[ConsoleServer]:
    server = ConsoleServer(lambda: replace(machine(home), clock=clock), port)
    server.console.repositories.workers.start = fork_worker
    server.start()
    try:
        yield server
    finally:
        server.stop()


def reader_of(server: ConsoleServer, browser: Browser) -> PairedBrowser:
    found = server.pairing.find_reader(browser.cookie)
    assert found is not None
    return found
