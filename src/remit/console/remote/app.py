"""The console for other machines: who comes in by a login, and the checks of its address.

The pages, the writes and their signatures are those of the console on this machine.
"""

import hmac
import secrets
import sys
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from remit.console.app import Console
from remit.console.guard import HEADERS, Guard, Refused, decode_body
from remit.console.pairing import Login, Logins, PairedBrowser, PairingRefused, hash_secret
from remit.console.remote.provider import TRY_AGAIN, LoginAttempt, OpenIdProvider
from remit.console.remote.settings import RemoteSettings, parse_address
from remit.console.render import render_page
from remit.core.acts import Act
from remit.core.untrusted_input import sanitise_line

LOGIN_COOKIE, ATTEMPT_COOKIE = "__Host-remit", "__Host-remit-login"
ATTEMPT_LIFETIME_S = 600.0
MAX_ATTEMPTS = 10_000
CALLBACK, LOGGED_OUT = "/login/callback", "/logged-out"
HSTS = {"strict-transport-security": "max-age=31536000"}
HTTPS_ONLY = "send X-Forwarded-Proto: https from your proxy, and let it take https only"


class KeyBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The public key of a browser after a login, as DER in base64."""

    public_key: str
    name: str = ""


class RemoteGuard(Guard, frozen=True, kw_only=True):
    """The rules of the console for other machines: its own host and origin, a proxy's word, and logins."""

    settings: RemoteSettings

    @property
    def origin(self) -> str:
        return self.settings.origin

    @property
    def headers(self) -> Mapping[str, str]:
        return HEADERS | HSTS

    @property
    def has_login(self) -> bool:
        return True

    def check_request(self, request: Request) -> None:
        """Check also that the request came encrypted: to our own TLS, or to a proxy of ours. Raises Refused."""
        if self.comes_from_proxy(request):
            if request.headers.get("x-forwarded-proto", "").strip().lower() != "https":
                raise Refused(421, "the request did not come to the proxy by https", HTTPS_ONLY)
        elif not self.settings.cert:
            raise Refused(421, "only the proxy may ask here", f"open {self.origin}")
        super().check_request(request)

    def comes_from_proxy(self, request: Request) -> bool:
        return request.client is not None and self.settings.is_proxy(request.client.host)

    def read_host(self, request: Request) -> str:
        forwarded = request.headers.get("x-forwarded-host") if self.comes_from_proxy(request) else None
        return forwarded or super().read_host(request)

    def read_client_address(self, request: Request) -> str:
        address = request.client.host if request.client else ""
        if self.comes_from_proxy(request):
            named = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
            for each in reversed([name.strip() for name in named]):
                if parse_address(each) is None:
                    break
                address = each
                if not self.settings.is_proxy(each):
                    break
        return address

    def is_entered_from_elsewhere(self, request: Request) -> bool:
        """Return whether the provider's page leads the browser here, as a whole page."""
        is_page = request.headers.get("sec-fetch-mode") == "navigate"
        is_page = is_page and request.headers.get("sec-fetch-dest") == "document"
        return is_page and request.method == "GET" and request.url.path in (CALLBACK, LOGGED_OUT)

    def find_reader(self, request: Request) -> Login:
        login = self.logins.find(request.cookies.get(LOGIN_COOKIE, "")) if self.logins else None
        if login is None:
            raise Refused(401, "you are not logged in here", f"log in, with {urlsplit(self.settings.issuer).netloc}")
        return login


class RemoteConsole(Console):
    """The console at an address of its own. It shares the pages, threads and live state with the console here."""

    def __init__(
        self,
        guard: RemoteGuard,
        logins: Logins,
        provider: OpenIdProvider,
        local: Console,
        record_pairing: Callable[[PairedBrowser], None],
    ) -> None:
        super().__init__(guard, local.repositories)
        self.record_pairing = record_pairing
        self.entrance, self.logins, self.provider = guard, logins, provider
        self.watcher, self.readers, self.workers = local.watcher, local.readers, local.workers
        self.bodies = {"/login/key": KeyBody, "/logout": None, "/unpair/{browser}": None}
        self.attempts: dict[str, tuple[LoginAttempt, str, float]] = {}
        """Attempt, hash of its cookie, and its end, by the hash of its state."""

    def list_entrances(self) -> list[BaseRoute]:
        return [
            Route("/login", self.wrap(self.begin_login)),
            Route(CALLBACK, self.wrap(self.finish_login)),
            Route("/login/key", self.wrap(self.register_key), methods=["POST"]),
            Route("/logout", self.wrap(self.end_login), methods=["POST"]),
            Route(LOGGED_OUT, self.wrap(self.show_logged_out)),
        ]

    async def begin_login(self, request: Request) -> Response:
        """Send the browser to the provider. The attempt is bound to this browser by a cookie."""
        address, attempt = await self.provider.begin_login()
        cookie, now = secrets.token_urlsafe(32), self.logins.clock()
        while len(self.attempts) >= MAX_ATTEMPTS:
            self.attempts.pop(next(iter(self.attempts)))
        self.attempts[hash_secret(attempt.state)] = (attempt, hash_secret(cookie), now + ATTEMPT_LIFETIME_S)
        response = RedirectResponse(address, 302)
        # Lax: the provider's page leads back here, and a strict cookie would not come along.
        set_host_cookie(response, ATTEMPT_COOKIE, cookie, ATTEMPT_LIFETIME_S, is_strict=False)
        return response

    def take_attempt(self, request: Request) -> LoginAttempt:
        """Return the attempt that the answer belongs to, which serves no second answer. Raises Refused."""
        state = hash_secret(request.query_params.get("state", ""))
        attempt, cookie_sha256, until = self.attempts.get(state, (None, "", 0.0))
        is_ours = hmac.compare_digest(hash_secret(request.cookies.get(ATTEMPT_COOKIE, "")), cookie_sha256)
        if attempt is None or not is_ours:
            why = "this login was not begun in this browser, or its answer was used"
            raise Refused(403, why, TRY_AGAIN)
        del self.attempts[state]
        if until < self.logins.clock():
            raise Refused(403, "this login took more than ten minutes", TRY_AGAIN)
        return attempt

    async def finish_login(self, request: Request) -> Response:
        """Take the provider's answer, and show the page that makes the browser's key."""
        attempt = self.take_attempt(request)
        await self.guard.check_peer(request, self.run, Act.PAIR, "logging in to the console")
        query, address = request.query_params, self.entrance.read_client_address(request)
        try:
            if "error" in query or not query.get("code"):
                why = sanitise_line(query.get("error_description") or query.get("error") or "no code", 200)
                raise Refused(403, f"the provider refused the login: {why}", TRY_AGAIN)
            person, role = await self.provider.finish_login(attempt, query["code"], query.get("iss"))
        except Refused as refused:
            sys.stderr.write(f"remit: a login from {address} was refused: {refused}\n")
            raise
        hours = self.entrance.settings.session_hours
        _, cookie = self.logins.begin(person, role, address, hours)
        response = HTMLResponse(render_page("pair.html", {"has_login": True}))
        set_host_cookie(response, LOGIN_COOKIE, cookie, hours * 3600, is_strict=True)
        set_host_cookie(response, ATTEMPT_COOKIE, "", 0, is_strict=False)
        return response

    async def register_key(self, request: Request) -> Response:
        """Take the public key of the browser that just logged in: it signs what the person writes."""
        self.guard.check_same_origin(request)
        login = self.entrance.find_reader(request)
        body = decode_body(await self.guard.read_body(request), KeyBody)
        try:
            login = self.logins.register_key(login, body.public_key, body.name)
        except PairingRefused as refused:
            raise Refused(403, str(refused), TRY_AGAIN) from None
        await self.run(self.record_pairing, login)
        return JSONResponse({"schema_version": 1, "data": {"id": login.id}})

    async def end_login(self, request: Request) -> Response:
        self.guard.check_same_origin(request)
        self.logins.end(self.entrance.find_reader(request).id)
        await self.watcher.look_again()
        data = {"next": self.provider.find_logout_address() or LOGGED_OUT}
        response = JSONResponse({"schema_version": 1, "data": data})
        set_host_cookie(response, LOGIN_COOKIE, "", 0, is_strict=True)
        return response

    async def show_logged_out(self, request: Request) -> Response:
        values = {"status": 200, "message": "You are logged out", "fix": "", "has_login": True}
        return HTMLResponse(render_page("error.html", values))


def set_host_cookie(response: Response, name: str, value: str, lifetime_s: float, *, is_strict: bool) -> None:
    response.set_cookie(
        *(name, value, int(lifetime_s)),
        path="/",
        secure=True,
        httponly=True,
        samesite="strict" if is_strict else "lax",
    )
