"""The deciding side of the console: links, proofs, and the process behind a connection. It runs in the daemon, out of
reach of whatever a page's code does.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from remit.console.guard import PAIR_FIX, Refused
from remit.console.line import Claim, Ends, PairClaim, PeerClaim, UnpairClaim, Verdict, WriteClaim
from remit.console.pairing import ROLES, Login, Logins, PairedBrowser, Pairing, PairingRefused, ProofRefused
from remit.core.acts import Act
from remit.core.record import Body, CallPart
from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.gate.intents.refusals import make_refusal
from remit.gate.machine import Environment
from remit.gate.people.questions import tell_news
from remit.gate.records.call_records import violation_document
from remit.servers.authority import Authority, Ruling
from remit.workspace.place.workspace import list_governed_roots, locate_workspace
from remit.workspace.processes.peer_identity import ClientConnection


class Decider:
    """Who decides about a console's writes. Thread-safe."""

    def __init__(self, environment: Callable[[], Environment], pairing: Pairing, logins: Logins | None) -> None:
        self.pairing, self.logins = pairing, logins
        self.authority = Authority(environment().home)
        self.records = ConsoleRecords(environment)

    def decide(self, claim: Claim) -> Verdict:
        try:
            match claim:
                case WriteClaim():
                    self.check_write(claim)
                case PeerClaim():
                    self.check_peer(claim.ends, claim.act, claim.action)
                case PairClaim():
                    return self.pair(claim)
                case UnpairClaim():
                    self.unpair(claim.browser)
        except Refused as refused:
            return Verdict(refused.status, str(refused), refused.fix)
        except RECORDING_ERRORS as error:
            return Verdict(503, str(error).partition("\n")[0], "run `remit doctor`")
        return Verdict()

    def wake_calls(self) -> None:
        tell_news()

    def check_write(self, claim: WriteClaim) -> None:
        """Check the proof, the role and the process. Raises Refused."""
        reader = self.find_reader(claim)
        try:
            self.pairing.check_proof(claim.proof, reader, claim.method, claim.target, claim.body_sha256)
        except ProofRefused as refused:
            raise Refused(refused.status, str(refused), "load the page again") from None
        if ROLES.index(reader.role) < ROLES.index(claim.role):
            why = f"your role here is {reader.role}, and this needs {claim.role}"
            raise Refused(403, why, "ask the person who runs this console")
        self.check_peer(claim.ends, claim.act, f"{claim.method} {claim.target}")

    def find_reader(self, claim: WriteClaim) -> PairedBrowser:
        """Return the browser as it is kept here: its key is never taken from the claim. Raises Refused."""
        logins = self.logins.list_all() if claim.ends.is_login and self.logins else []
        known = logins if claim.ends.is_login else self.pairing.state.browsers
        found = next((browser for browser in known if browser.id == claim.reader), None)
        if found is None:
            raise Refused(401, "this browser is not paired with the console", PAIR_FIX)
        return found

    def check_peer(self, ends: Ends, act: str, action: str) -> None:
        """Check that a person asks, by the processes that hold the connection. Raises Refused; an attempt is
        recorded.
        """
        if act not in Act.__members__:
            raise Refused(403, "there is no such act", "load the page again")
        connection = ClientConnection(ends.client_host, ends.client_port, ends.server_host, ends.server_port)
        ruling = self.authority.rule_web(Act[act], None, connection, may_be_elsewhere=ends.is_login)
        if not ruling.allowed:
            self.records.record_attempt(action, ruling)
            raise Refused(403, f"{ruling.why}: deciding is for people", ruling.fix)

    def pair(self, claim: PairClaim) -> Verdict:
        """Pair a browser, and record it. Raises Refused."""
        self.check_peer(claim.ends, Act.PAIR.name, "pairing a browser")
        try:
            browser, cookie = self.pairing.pair(claim.secret, claim.public_key, claim.name)
        except PairingRefused as refused:
            raise Refused(403, str(refused), "run `remit serve` for a new link") from None
        self.records.record_pairing(browser)
        return Verdict(browser=browser.id, cookie=cookie)

    def unpair(self, browser: str) -> None:
        """End a pairing or a login. Raises Refused if there is none of that id."""
        if not self.pairing.unpair(browser) and not (self.logins is not None and self.logins.end(browser)):
            raise Refused(404, "no such browser is paired")


class ConsoleRecords:
    """Records of the console, in every governed repository."""

    def __init__(self, environment: Callable[[], Environment]) -> None:
        self.environment = environment

    def record_pairing(self, browser: PairedBrowser) -> None:
        detail: dict[str, Any] = {"name": browser.name or browser.id, "by": "person"}
        if isinstance(browser, Login):
            detail |= {"who": to_builtins(browser.person), "role": browser.role, "address": browser.address}
        self.append_everywhere(Body(event="console_paired", intent_id=None, session_id=None, detail=detail))

    def record_attempt(self, action: str, ruling: Ruling) -> None:
        refusal = make_refusal("COMMAND_BLOCKED", f"{action} is for a person: {ruling.why}.", "console", None)
        self.append_everywhere(
            Body(
                event="denied",
                intent_id=None,
                session_id=ruling.session or None,
                call=CallPart(name="console", effect="execute", command=action),
                violation=violation_document(refusal.violation),
                detail={"door": ruling.evidence},
            )
        )

    def append_everywhere(self, body: Body) -> None:
        for root in list_governed_roots(self.environment().home):
            with suppress(*RECORDING_ERRORS):
                gate = Gate(locate_workspace(Path(root)), self.environment())
                gate.recorder.append_or_spool([gate.recorder.make_record(body)])
                gate.close()
