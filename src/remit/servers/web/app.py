"""The console as an ASGI application: pages, their parts and JSON twins, live state, pairing, and answers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct, json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from remit.core.decision import Extent
from remit.core.untrusted_input import escape_json
from remit.gate.approval_answers import QuestionClosed, find_covered_rule, record_reply
from remit.gate.context import RECORDING_ERRORS
from remit.gate.state.questions import ApprovalReply
from remit.policy.grants import GrantRuleError
from remit.servers.web.change_actions import ChangeActions
from remit.servers.web.guard import COOKIE, Guard, Refused, add_headers, decode_body
from remit.servers.web.live import MAX_STREAMS, ChangeWatcher
from remit.servers.web.pages.approvals import read_card
from remit.servers.web.pages.page import Page, PageRequest
from remit.servers.web.pairing import COOKIE_LIFETIME_S, PairedBrowser, PairingRefused
from remit.servers.web.render import FOLDER, render_page, render_part, static_version
from remit.servers.web.repositories import Repositories
from remit.servers.web.routes import NAVIGATION, PAGES

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]


class AnswerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer to a question. `shown_sha256` is the hash of the card that the person saw."""

    repository: str
    allow: bool
    shown_sha256: str
    extent: Extent = "once"
    rule: str | None = None
    words: str = ""
    typed: str = ""


class PairBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A browser to pair: the link's secret, and the browser's public key as DER in base64."""

    secret: str
    public_key: str
    name: str = ""


class Console:
    """State shared by the endpoints. Pages are read in threads of their own: however many of them wait for a slow
    command, questions are seen and answers recorded meanwhile.
    """

    def __init__(
        self, guard: Guard, repositories: Repositories, record_pairing: Callable[[PairedBrowser], None]
    ) -> None:
        self.guard = guard
        self.repositories = repositories
        self.record_pairing = record_pairing
        self.readers = ThreadPoolExecutor(16, thread_name_prefix="console-page")
        self.workers = ThreadPoolExecutor(4, thread_name_prefix="console")
        self.watcher = ChangeWatcher(repositories, self.run)

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.workers, partial(function, *arguments))

    async def read(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.readers, partial(function, *arguments))

    def build_app(self) -> Starlette:
        routes: list[BaseRoute] = [
            Route("/live", self.wrap(self.stream_state)),
            Route("/pair", self.wrap(self.show_pairing)),
            Route("/pair", self.wrap(self.pair_browser), methods=["POST"]),
            Route("/approvals/{question}/answer", self.wrap(self.answer_question), methods=["POST"]),
            Route("/unpair/{browser}", self.wrap(self.unpair_browser), methods=["POST"]),
            *ChangeActions(self.guard, repositories=self.repositories, run=self.run).list_routes(self.wrap),
            Mount(f"/static/{static_version()}", StaticFiles(directory=FOLDER / "static"), name="static"),
        ]
        for page in PAGES:
            name = "/index.json" if page.url == "/" else f"{page.url}.json"
            routes.append(Route(name, self.wrap(partial(self.answer_json, page))))
            routes.append(Route(page.url, self.wrap(partial(self.answer_page, page))))
        return Starlette(routes=routes, exception_handlers={404: self.answer_missing, 500: self.answer_defect})

    def wrap(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint behind the checks of every request; failures become pages with the next step."""

        async def checked(request: Request) -> Response:
            try:
                self.guard.check_request(request)
                return add_headers(await endpoint(request))
            except Refused as refused:
                return self.answer_refusal(request, refused)
            except (*RECORDING_ERRORS, LookupError) as error:
                why = str(error).partition("\n")[0]
                return self.answer_refusal(request, Refused(503, why, "run `remit doctor`"))

        return checked

    # Pages

    async def read_data(self, page: Page, request: Request, *, wants_all: bool = False) -> tuple[PageRequest, Any]:
        self.guard.find_reader(request)
        path: Mapping[str, str] = {key: str(value) for key, value in request.path_params.items()}
        name = path.get("repository")
        repository = await self.run(self.repositories.find, name) if name else None
        part = request.headers.get("remit-part", "")
        asked = PageRequest(self.repositories, repository, path, dict(request.query_params), part, wants_all)
        return asked, await self.read(page.read, asked)

    async def answer_json(self, page: Page, request: Request) -> Response:
        _, data = await self.read_data(page, request, wants_all=True)
        text = escape_json(json.encode({"schema_version": 1, "data": data}).decode())
        return Response(text, media_type="application/json")

    async def answer_page(self, page: Page, request: Request) -> Response:
        asked, data = await self.read_data(page, request)
        values = await self.run(self.make_values, page, asked, data)
        part = request.headers.get("remit-part")
        try:
            if part:
                html = await self.read(render_part, page.template, part, values)
            else:
                html = await self.read(render_page, page.template, values)
        except KeyError:
            raise Refused(404, f"the page has no part {part!r}") from None
        total = getattr(data, "total", None)
        return HTMLResponse(html, headers={"Remit-Total": str(total)} if isinstance(total, int) else None)

    def make_values(self, page: Page, asked: PageRequest, data: object) -> dict[str, Any]:
        known = self.repositories.list_all()
        current = asked.repository or (known[0] if known else None)
        return {
            "page": page,
            "data": data,
            "query": asked.query,
            "repository": current,
            "repositories": known,
            "navigation": NAVIGATION,
            "base": f"/r/{current.name}" if current else "",
            "waiting": len(self.watcher.state.questions),
            "browsers": self.guard.pairing.state.browsers,
        }

    def answer_refusal(self, request: Request, refused: Refused) -> Response:
        wants_json = request.url.path.endswith(".json") or request.method != "GET"
        if wants_json:
            error = {"code": refused.status, "message": str(refused), "target": "", "fix": refused.fix}
            response: Response = JSONResponse({"schema_version": 1, "error": error}, refused.status)
        else:
            values = {"status": refused.status, "message": str(refused), "fix": refused.fix}
            response = HTMLResponse(render_page("error.html", values), refused.status)
        return add_headers(response)

    async def answer_missing(self, request: Request, error: Exception) -> Response:
        return self.answer_refusal(request, Refused(404, "there is no such page", "go back to Now"))

    async def answer_defect(self, request: Request, error: Exception) -> Response:
        """Answer what broke with a page that says so; the error is in the daemon's log."""
        why = f"this page broke: {type(error).__name__}"
        return self.answer_refusal(request, Refused(500, why, "see daemon.log in ~/.local/state/remit, and report it"))

    # Live

    async def stream_state(self, request: Request) -> Response:
        self.guard.find_reader(request)
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Refused(403, "another site asked")
        if self.watcher.listeners >= MAX_STREAMS:
            raise Refused(429, "too many pages are open", "close some")
        cookie = request.cookies.get(COOKIE, "")
        stream = self.watcher.listen(lambda: self.guard.pairing.find_reader(cookie) is not None)
        return StreamingResponse(stream, media_type="text/event-stream")

    # Pairing

    async def show_pairing(self, request: Request) -> Response:
        return HTMLResponse(render_page("pair.html", {}))

    async def pair_browser(self, request: Request) -> Response:
        self.guard.check_same_origin(request)
        body = decode_body(await self.guard.read_body(request), PairBody)
        await self.guard.check_peer(request, self.run, "pairing a browser")
        try:
            browser, cookie = self.guard.pairing.pair(body.secret, body.public_key, body.name)
        except PairingRefused as refused:
            raise Refused(403, str(refused), "run `remit serve` for a new link") from None
        await self.run(self.record_pairing, browser)
        response = JSONResponse({"schema_version": 1, "data": {"id": browser.id}})
        response.set_cookie(COOKIE, cookie, max_age=COOKIE_LIFETIME_S, httponly=True, samesite="strict", path="/")
        return response

    async def unpair_browser(self, request: Request) -> Response:
        await self.guard.check_write(request, self.run)
        if not self.guard.pairing.unpair(request.path_params["browser"]):
            raise Refused(404, "no such browser is paired")
        await self.watcher.look_again()
        return JSONResponse({"schema_version": 1, "data": {"unpaired": request.path_params["browser"]}})

    # Deciding

    async def answer_question(self, request: Request) -> Response:
        body = decode_body(await self.guard.check_write(request, self.run), AnswerBody)
        data = await self.run(self.record_answer, str(request.path_params["question"]), body)
        return JSONResponse({"schema_version": 1, "data": data})

    def record_answer(self, question_id: str, body: AnswerBody) -> dict[str, Any]:
        """Record a person's answer to what they saw. Raises Refused."""
        repository = self.repositories.find(body.repository)
        with self.repositories.open_gate(repository) as gate:
            card = read_card(repository, gate, gate.questions.list_unanswered(), question_id)
            if card is None:
                raise Refused(409, "the question is answered already, or its time is over", "the next one is shown")
            if card.shown_sha256 != body.shown_sha256:
                raise Refused(409, "the question is not the one that was shown", "read it again")
            if body.allow and body.typed != card.typed:
                raise Refused(400, f"a high risk has to be confirmed: type {card.typed}", "type it, or deny")
            words = body.words.strip()
            reply = ApprovalReply(body.allow, words, "person", body.extent if body.allow else "once", body.rule)
            try:
                rule = find_covered_rule(reply, card.question) if body.allow else ""
                is_late = record_reply(gate, card.question, reply)
            except GrantRuleError as error:
                raise Refused(400, f"this yes cannot be given: {error}", "say yes once, or name another rule") from None
            except QuestionClosed as closed:
                raise Refused(409, str(closed), "the next one is shown") from None
        return {"id": question_id, "allowed": body.allow, "extent": reply.extent, "rule": rule, "late": is_late}
