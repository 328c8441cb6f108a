"""Pushes to a phone: that an agent waits for a person, for how long, and the link to the question's card.

A push names the agent and its intent, never a command, a path or a diff: it passes through servers of others. Its link
opens a page and decides nothing. Only addresses that a person on this machine trusts are told.
"""

import sys
import threading
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import json

from remit.console.repositories import GovernedRepository, Repositories
from remit.core.clock import Clock
from remit.core.config import ConsoleSettings
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.governing.rules import load_rules
from remit.gate.people.answer import close_orphaned_questions, group_equal_questions
from remit.gate.people.questions import Question
from remit.workspace.place.workspace import locate_workspace

WATCHER = "push"
LOOK_INTERVAL_S = 1.0
WAITING_S = 2.0  # a question that is answered sooner is not pushed
SEND_TIMEOUT_S = 5.0
FIRST_REFUSAL = 300  # HTTP statuses from here on are no success
MISTRUST_S = 600.0  # after a push that failed nobody is taken to be there, for so long


class PushSender:
    """Sender of pushes for all repositories of a user, in a thread of its own."""

    def __init__(self, repositories: Repositories, get_origin: Callable[[], str], clock: Clock) -> None:
        self.repositories = repositories
        self.get_origin = get_origin
        self.clock = clock
        self.is_in_use = False  # whether a repository has an address to push to
        self.sent: set[str] = set()
        self.failed_at: dict[str, float] = {}
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run, name="console-push", daemon=True)

    def run(self) -> None:
        while not self.clock.wait(self.stopped, LOOK_INTERVAL_S):
            self.look()

    def look(self) -> None:
        """Sign for the person with the phone, and push what has waited long enough."""
        is_in_use = False
        for repository in self.repositories.list_all():
            try:
                workspace = locate_workspace(Path(repository.root))
                settings = load_rules(workspace).config.console if workspace else ConsoleSettings()
                if not settings.trust_items:
                    continue
                with self.repositories.open_gate(repository) as gate:
                    if gate.are_trusted(settings.trust_items):
                        is_in_use = True
                        self.serve(repository, gate, settings)
            except Exception as error:  # noqa: BLE001  a repository that is broken silences no other
                sys.stderr.write(f"remit: no pushes for {repository.root}: {error}\n")
        self.is_in_use = is_in_use

    def serve(self, repository: GovernedRepository, gate: Gate, settings: ConsoleSettings) -> None:
        now = self.clock.now()
        if now - self.failed_at.get(repository.root, -MISTRUST_S) >= MISTRUST_S:
            gate.questions.mark_watcher_present(watcher=WATCHER)
        close_orphaned_questions(gate)
        waiting = [item for item in gate.questions.list_unanswered() if item.status == "open"]
        for group in group_equal_questions(waiting):
            question, names = group[0].question, {item.question.id for item in group}
            if now - question.asked_at < WAITING_S or self.sent & names:
                continue
            self.sent |= names
            try:
                self.push(settings, question)
                self.failed_at.pop(repository.root, None)
            except OSError as error:
                self.failed_at[repository.root] = now
                gate.questions.mark_watcher_gone(watcher=WATCHER)
                sys.stderr.write(f"remit: a push was not sent: {type(error).__name__}: {error}\n")

    def push(self, settings: ConsoleSettings, question: Question) -> None:
        """Tell every address of the question. Raises OSError for one that does not take it."""
        agent = sanitise_line(question.agent, 60).encode("ascii", "replace").decode()
        intent = sanitise_line(question.intent_id or "no intent", 60).encode("ascii", "replace").decode()
        link = f"{self.get_origin()}/p/{question.id}"
        if settings.ntfy is not None:
            headers = {"Title": f"{agent} waits for you", "Click": link, "Priority": "high"}
            send(settings.ntfy, intent.encode(), headers)
        if settings.webhook is not None:
            message = {"event": "question", "agent": agent, "intent_id": question.intent_id, "link": link}
            message |= {"expires_at": question.expires_at}
            send(settings.webhook, json.encode(message), {"Content-Type": "application/json"})

    def stop(self) -> None:
        self.stopped.set()


def send(address: str, body: bytes, headers: dict[str, str]) -> None:
    """Post the body, and follow no redirect: a person trusted this address, and no other. Raises OSError."""
    parts = urlsplit(address)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=SEND_TIMEOUT_S)
    try:
        connection.request("POST", f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}", body, headers)
        response = connection.getresponse()
        response.read(1 << 16)
        if response.status >= FIRST_REFUSAL:
            raise OSError(f"{parts.hostname} answered {response.status}")
    except HTTPException as error:
        raise OSError(f"{parts.hostname} gave no answer: {error}") from error
    finally:
        connection.close()
