"""The console as an ASGI application: pages, their parts and JSON twins, live state, pairing, and answers."""

import asyncio
import errno
import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from msgspec import Struct
from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from remit.console.guard import COOKIE, Guard, Refused, add_headers, decode_body
from remit.console.line import PairClaim, UnpairClaim
from remit.console.live import MAX_STREAMS, NO_STATE, ChangeWatcher, LiveState
from remit.console.pages.ledger import export_records
from remit.console.pages.navigation import NAVIGATION
from remit.console.pages.page import Page, PageRequest, PageWrite
from remit.console.pairing import COOKIE_LIFETIME_S
from remit.console.render import FOLDER, render_page, render_part, static_version
from remit.console.repositories import Repositories
from remit.console.routes import PAGES, WRITES, describe_api
from remit.core.acts import Act
from remit.core.untrusted_input import encode_json
from remit.gate.context import RECORDING_ERRORS

MAX_SECRET_CHARS, MAX_KEY_CHARS, MAX_NAME_CHARS = 200, 1000, 80  # of a browser that asks to be paired
THEME_COOKIE, THEMES = "remit_theme", ("light", "dark")  # the choice of the page Settings; it decides nothing else
T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]


class PairBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A browser to pair: the link's secret, and the browser's public key as DER in base64."""

    secret: str
    public_key: str
    name: str = ""


BODIES: dict[str, type[Struct] | None] = {
    "/pair": PairBody,
    "/unpair/{browser}": None,
}
"""What the requests that write hold; `openapi.json` describes every such address, and these bodies."""


class AnyPath(PathConvertor):
    """The rest of an address: names of files and sessions may hold slashes and line feeds."""

    regex = "(?s:.*)"


register_url_convertor("path", AnyPath())


class Console:
    """State shared by the endpoints. Pages are read in threads of their own: however many of them wait for a slow
    command, questions are seen and answers recorded meanwhile.
    """

    def __init__(self, guard: Guard, repositories: Repositories) -> None:
        self.guard = guard
        self.repositories = repositories
        self.bodies = BODIES
        self.readers = ThreadPoolExecutor(16, thread_name_prefix="console-page")
        self.workers = ThreadPoolExecutor(4, thread_name_prefix="console")
        self.watcher = ChangeWatcher(repositories, self.run, repositories.environment().clock)

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.workers, partial(function, *arguments))

    async def read(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.readers, partial(function, *arguments))

    def build_app(self) -> Starlette:
        routes: list[BaseRoute] = [
            Route("/live", self.wrap(self.stream_state)),
            Route("/openapi.json", self.wrap(self.show_api)),
            *self.list_entrances(),
            Route("/unpair/{browser}", self.wrap(self.unpair_browser), methods=["POST"]),
            Route("/r/{repository}/export/{form}", self.wrap(self.export_ledger)),
            Mount(f"/static/{static_version()}", StaticFiles(directory=FOLDER / "static"), name="static"),
        ]
        for page in PAGES:
            if page.url.endswith(":path}"):
                routes.append(Route(page.url, self.wrap(partial(self.answer_either, page))))
                continue
            name = "/index.json" if page.url == "/" else f"{page.url}.json"
            routes.append(Route(name, self.wrap(partial(self.answer_json, page))))
            routes.append(Route(page.url, self.wrap(partial(self.answer_page, page))))
        for write in WRITES:
            routes.append(Route(write.url, self.wrap(partial(self.perform_write, write)), methods=["POST"]))
        return Starlette(routes=routes, exception_handlers={404: self.answer_missing, 500: self.answer_defect})

    def list_entrances(self) -> list[BaseRoute]:
        """Return the addresses by which a browser comes in."""
        return [
            Route("/pair", self.wrap(self.show_pairing)),
            Route("/pair", self.wrap(self.pair_browser), methods=["POST"]),
        ]

    def wrap(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint behind the checks of every request; failures become pages with the next step."""

        async def checked(request: Request) -> Response:
            try:
                self.guard.check_request(request)
                return add_headers(await endpoint(request), self.guard.headers)
            except Refused as refused:
                return self.answer_refusal(request, refused)
            except (*RECORDING_ERRORS, LookupError) as error:
                why = str(error).partition("\n")[0]
                is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
                fix = f"{'make room on the disk, then ' if is_full else ''}run `remit doctor`"
                return self.answer_refusal(request, Refused(503, why, fix))

        return checked

    # Pages

    async def read_request(self, request: Request, *, wants_all: bool = False) -> PageRequest:
        """Return what a page is asked by a browser that may read. Raises Refused."""
        reader = self.guard.find_reader(request)
        path: Mapping[str, str] = {key: str(value) for key, value in request.path_params.items()}
        name = path.get("repository")
        repository = await self.run(self.repositories.find, name) if name else None
        part = request.headers.get("remit-part", "")
        acted = self.repositories.act_for(reader.person) if reader.person else self.repositories
        return PageRequest(acted, repository, path, dict(request.query_params), part, wants_all, reader)

    async def read_data(self, page: Page, request: Request, *, wants_all: bool = False) -> tuple[PageRequest, Any]:
        asked = await self.read_request(request, wants_all=wants_all)
        return asked, await self.read(page.read, asked)

    async def perform_write(self, write: PageWrite, request: Request) -> Response:
        body = decode_body(await self.guard.check_write(request, self.run, write.choose_act, write.role), write.shape)
        data = await self.run(write.act, await self.read_request(request), body)
        self.guard.decider.wake_calls()
        text = encode_json({"schema_version": 1, "data": data})
        return Response(text, media_type="application/json")

    async def answer_json(self, page: Page, request: Request) -> Response:
        _, data = await self.read_data(page, request, wants_all=True)
        text = encode_json({"schema_version": 1, "data": data})
        return Response(text, media_type="application/json")

    async def answer_either(self, page: Page, request: Request) -> Response:
        name = next(reversed(request.path_params))
        whole = str(request.path_params[name])
        try:
            return await self.answer_page(page, request)
        except Refused as refused:
            if refused.status != 404 or not whole.endswith(".json"):
                raise
        request.path_params[name] = whole.removesuffix(".json")
        return await self.answer_json(page, request)

    async def answer_page(self, page: Page, request: Request) -> Response:
        state = self.watcher.state  # older than what is read: the page knows what it may have missed
        asked, data = await self.read_data(page, request)
        theme = request.cookies.get(THEME_COOKIE, "")
        values = await self.run(self.make_values, page, asked, data, state)
        values["theme"] = theme if theme in THEMES else ""
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

    async def export_ledger(self, request: Request) -> Response:
        self.guard.find_reader(request)
        repository = await self.run(self.repositories.find, str(request.path_params["repository"]))
        form = str(request.path_params["form"])
        lines = export_records(self.repositories, repository, form, request.query_params)
        disposition = {"content-disposition": f'attachment; filename="records.{form}"'}
        return StreamingResponse(lines, media_type="text/plain; charset=utf-8", headers=disposition)

    async def show_api(self, request: Request) -> Response:
        self.guard.find_reader(request)
        routes: list[BaseRoute] = request.app.routes
        writes = [route.path for route in routes if isinstance(route, Route) and "POST" in (route.methods or ())]
        bodies = self.bodies | {write.url: write.shape for write in WRITES}
        return JSONResponse(describe_api(PAGES, {path: bodies.get(path) for path in writes}))

    def make_values(self, page: Page, asked: PageRequest, data: object, state: LiveState = NO_STATE) -> dict[str, Any]:
        known = self.repositories.list_all()
        current = asked.repository or (known[0] if known else None)
        return {
            "page": page,
            "data": data,
            "query": asked.query,
            "repository": current,
            "repositories": known,
            "navigation": NAVIGATION,
            "base": f"/r/{quote(current.name)}" if current else "",
            "waiting": len(self.watcher.state.questions),
            "state": json.dumps({"questions": state.questions, "log_bytes": state.log_bytes, "fleet": state.fleet}),
            "theme": "",
            "browsers": self.guard.pairing.state.browsers,
            "logins": self.guard.list_logins(),
            "reader": asked.reader,
        }

    def answer_refusal(self, request: Request, refused: Refused) -> Response:
        wants_json = request.url.path.endswith(".json") or request.method != "GET"
        if wants_json:
            error = {"code": refused.status, "message": str(refused), "target": "", "fix": refused.fix}
            response: Response = JSONResponse({"schema_version": 1, "error": error}, refused.status)
        else:
            values = {"status": refused.status, "message": str(refused), "fix": refused.fix}
            values["has_login"] = self.guard.has_login
            response = HTMLResponse(render_page("error.html", values), refused.status)
        return add_headers(response, self.guard.headers)

    async def answer_missing(self, request: Request, error: Exception) -> Response:
        return self.answer_refusal(request, Refused(404, "there is no such page", "go back to Now"))

    async def answer_defect(self, request: Request, error: Exception) -> Response:
        why = f"this page broke: {type(error).__name__}"
        return self.answer_refusal(request, Refused(500, why, "see daemon.log in ~/.local/state/remit, and report it"))

    # Live

    async def stream_state(self, request: Request) -> Response:
        reader = self.guard.find_reader(request)
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Refused(403, "another site asked")
        if self.watcher.listeners >= MAX_STREAMS:
            raise Refused(429, "too many pages are open", "close some")
        last_id = request.headers.get("last-event-id") or request.query_params.get("last", "")
        can_answer = reader.role != "view"
        stream = self.watcher.listen(partial(self.guard.is_reader, request), last_id, can_answer=can_answer)
        return StreamingResponse(stream, media_type="text/event-stream")

    # Pairing

    async def show_pairing(self, request: Request) -> Response:
        return HTMLResponse(render_page("pair.html", {"has_login": False}))

    async def pair_browser(self, request: Request) -> Response:
        self.guard.check_same_origin(request)
        body = decode_body(await self.guard.read_body(request), PairBody)
        ends = self.guard.find_ends(request)
        secret, key = body.secret[:MAX_SECRET_CHARS], body.public_key[:MAX_KEY_CHARS]
        paired = await self.guard.ask(PairClaim(ends, secret, key, body.name[:MAX_NAME_CHARS]), self.run)
        response = JSONResponse({"schema_version": 1, "data": {"id": paired.browser}})
        response.set_cookie(
            COOKIE, paired.cookie, max_age=COOKIE_LIFETIME_S, httponly=True, samesite="strict", path="/"
        )
        return response

    async def unpair_browser(self, request: Request) -> Response:
        await self.guard.check_write(request, self.run, Act.UNPAIR)
        await self.guard.ask(UnpairClaim(request.path_params["browser"]), self.run)
        await self.watcher.look_again()
        return JSONResponse({"schema_version": 1, "data": {"unpaired": request.path_params["browser"]}})
