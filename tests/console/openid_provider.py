"""An OpenID Connect provider, run as a process: discovery, a page to log in, codes with PKCE, RS256 and its JWKS.

`python openid_provider.py` serves at a free port of 127.0.0.1, and prints it. `POST /mischief` makes it do what an
attacker would.
"""

import base64
import hashlib
import json
import secrets
import socket
import time
from html import escape
from typing import Any
from urllib.parse import urlencode

import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT, SECRET = "remit", "a-secret-of-the-client"
PEOPLE: dict[str, dict[str, Any]] = {
    "anna": {"sub": "user-1", "email": "anna@example.org", "email_verified": True, "roles": ["view", "admin"]},
    "ben": {"sub": "user-2", "email": "ben@example.org", "email_verified": True, "roles": ["approve"]},
    "vera": {"sub": "user-3", "email": "vera@example.org", "email_verified": True, "roles": ["view"]},
    "nemo": {"sub": "user-4", "email": "nemo@example.org", "email_verified": True, "roles": ["reader"]},
    "hanna": {"sub": "user-5", "email": "anna@example.org", "email_verified": False},
    "ina": {"sub": "user-6", "email": "ina@example.org", "email_verified": True},
}
MORE = {"user-6": {"sub": "user-6", "realm_access": {"roles": ["approve"]}, "roles": ["approve"]}}


def encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


class Provider:
    """The provider's state: its key, its codes, and its mischief."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.stranger = RSAKey.generate_key(2048, {"kid": "one", "use": "sig", "alg": "RS256"})
        self.codes: dict[str, dict[str, str]] = {}
        self.people: dict[str, str] = {}
        self.mischief: dict[str, Any] = {}
        self.asked: list[dict[str, str]] = []

    def build_app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self.describe),
                Route("/jwks", self.show_keys),
                Route("/authorize", self.show_people),
                Route("/authorize", self.give_code, methods=["POST"]),
                Route("/token", self.give_token, methods=["POST"]),
                Route("/userinfo", self.describe_person),
                Route("/mischief", self.take_mischief, methods=["POST"]),
                Route("/asked", self.show_asked),
            ]
        )

    async def describe(self, request: Request) -> Response:
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "none", "HS256"],
            "authorization_response_iss_parameter_supported": True,
        }
        return JSONResponse(document | self.mischief.get("metadata", {}))

    async def show_keys(self, request: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})

    async def show_people(self, request: Request) -> Response:
        buttons = "".join(f'<button name="person" value="{name}">{name}</button>' for name in PEOPLE)
        address = escape(f"/authorize?{request.url.query}")
        return HTMLResponse(
            f'<link rel="icon" href="data:,"><h1>You?</h1><form method="post" action="{address}">{buttons}</form>'
        )

    async def give_code(self, request: Request) -> Response:
        query = dict(request.query_params)
        person = (await request.body()).decode().removeprefix("person=")
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = query | {"person": person}
        answer = {"code": code, "state": query["state"], "iss": self.issuer} | self.mischief.get("answer", {})
        answer = {name: value for name, value in answer.items() if value is not None}
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(answer)}", 302)

    async def give_token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        self.asked.append(form)
        sent = base64.b64decode(request.headers.get("authorization", "").removeprefix("Basic ")).decode()
        begun = self.codes.pop(form.get("code", ""), None)
        challenge = encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        is_ours = begun is not None and begun["code_challenge"] == challenge
        if not is_ours or begun is None or begun["redirect_uri"] != form.get("redirect_uri"):
            return JSONResponse({"error": "invalid_grant", "error_description": "no such code"}, 400)
        if sent != f"{CLIENT}:{SECRET}":
            return JSONResponse({"error": "invalid_client"}, 401)
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": begun["nonce"]}
        claims |= PEOPLE[begun["person"]] | self.mischief.get("claims", {})
        access = secrets.token_urlsafe(16)
        self.people[access] = claims["sub"]
        token = {"access_token": access, "token_type": "Bearer", "expires_in": 300}
        return JSONResponse(token | {"id_token": self.sign(claims)})

    def sign(self, claims: dict[str, Any]) -> str:
        match self.mischief.get("sign"):
            case "none":
                return ".".join(encode(json.dumps(part).encode()) for part in ({"alg": "none"}, claims)) + "."
            case "public key as a secret":
                parts = ".".join(encode(json.dumps(part).encode()) for part in ({"alg": "HS256", "kid": "one"}, claims))
                import hmac

                secret = self.key.as_pem(private=False)
                return f"{parts}.{encode(hmac.digest(secret, parts.encode(), 'sha256'))}"
            case "stranger":
                return jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.stranger)
            case _:
                return jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)

    async def describe_person(self, request: Request) -> Response:
        subject = self.people.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if subject is None:
            return JSONResponse({"error": "invalid_token"}, 401)
        return JSONResponse(MORE.get(subject, {"sub": subject}) | self.mischief.get("userinfo", {}))

    async def take_mischief(self, request: Request) -> Response:
        self.mischief = await request.json()
        return JSONResponse({})

    async def show_asked(self, request: Request) -> Response:
        return JSONResponse(self.asked)


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    print(port, flush=True)
    app = Provider(f"http://127.0.0.1:{port}").build_app()
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])
