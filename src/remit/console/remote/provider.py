"""Login with an OpenID Connect provider: authorization code with PKCE, `state` and `nonce`, by Authlib.

The only module that imports the extra `remote`. Source: OpenID Connect Core 1.0 §3.1, Discovery 1.0 §4, RFC 9207,
read 2026-11.
"""

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

from authlib.integrations.httpx_client import AsyncOAuth2Client, OAuthError
from authlib.oidc.core import CodeIDToken
from httpx2 import HTTPError, Response
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry
from msgspec import Struct

from remit.console.guard import Refused
from remit.console.pairing import Role
from remit.console.remote.settings import RemoteSettings
from remit.core.config import LOOPBACK_HOSTS
from remit.core.record import Person
from remit.core.untrusted_input import as_array, as_object, as_text, sanitise_line

SIGNING_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
"""Algorithms of public keys only: a provider's word does not add `none`, or one in which its public key is a secret."""
MAX_CLOCK_DIFFERENCE_S = 60
ANSWER_TIMEOUT_S = 10.0
METADATA_LIFETIME_S = 600.0
ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
TRY_AGAIN = "log in again"


class LoginAttempt(Struct, frozen=True):
    """A login under way: what was sent to the provider, which its answer has to fit."""

    state: str
    nonce: str
    verifier: str


class OpenIdProvider:
    """The provider at which people log in. Methods raise Refused."""

    def __init__(self, settings: RemoteSettings, client_secret: str | None) -> None:
        self.settings = settings
        self.client_secret = client_secret
        self.redirect_uri = f"{settings.origin}/login/callback"
        self.metadata: dict[str, Any] = {}
        self.read_at = 0.0

    @asynccontextmanager
    async def open_client(self) -> AsyncGenerator[Any]:
        """Yield a client that follows no redirects. Failures of the provider become refusals of the login."""
        client: Any = AsyncOAuth2Client(
            client_id=self.settings.client_id,
            client_secret=self.client_secret,
            redirect_uri=self.redirect_uri,
            scope=" ".join(self.settings.scopes),
            code_challenge_method="S256",
            timeout=ANSWER_TIMEOUT_S,
        )
        try:
            async with client:
                yield client
        except OAuthError as error:
            why = sanitise_line(str(error), 200)
            raise Refused(403, f"the provider refused the login: {why}", TRY_AGAIN) from None
        except HTTPError as error:
            why = f"{self.settings.issuer} cannot be asked: {type(error).__name__}"
            raise Refused(502, why, "try again; see daemon.log on the machine that serves the console") from None

    async def read_metadata(self, client: Any) -> dict[str, Any]:
        if time.monotonic() - self.read_at < METADATA_LIFETIME_S and self.metadata:
            return self.metadata
        issuer = self.settings.issuer
        found = await read_document(client, f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            why = f"the provider calls itself {sanitise_line(str(found.get('issuer')), 200)}, not {issuer}"
            raise Refused(502, why, "write `issuer` as the provider does")
        for name in ENDPOINTS:
            parts = urlsplit(str(found.get(name)))
            is_local = parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS
            if not parts.hostname or (parts.scheme != "https" and not is_local):
                raise Refused(502, f"the provider names no {name} with https", "ask who runs the provider")
        self.metadata, self.read_at = found, time.monotonic()
        return found

    async def begin_login(self) -> tuple[str, LoginAttempt]:
        """Return the provider's address to send the browser to, and what has to be kept for its answer."""
        attempt = LoginAttempt(*(secrets.token_urlsafe(32) for _ in LoginAttempt.__struct_fields__))
        async with self.open_client() as client:
            metadata = await self.read_metadata(client)
            address, _ = client.create_authorization_url(
                metadata["authorization_endpoint"],
                state=attempt.state,
                code_verifier=attempt.verifier,
                nonce=attempt.nonce,
            )
        return str(address), attempt

    async def finish_login(self, attempt: LoginAttempt, code: str, issuer: str | None) -> tuple[Person, Role]:
        """Exchange the code; return the person and the role that the claims give. `issuer` is what the answer names."""
        async with self.open_client() as client:
            metadata = await self.read_metadata(client)
            must_name = metadata.get("authorization_response_iss_parameter_supported") is True
            if issuer != self.settings.issuer and (must_name or issuer is not None):
                raise Refused(403, "the answer comes from another provider", TRY_AGAIN)
            try:
                token: dict[str, Any] = await client.fetch_token(
                    metadata["token_endpoint"], code=code, code_verifier=attempt.verifier
                )
            except ValueError:
                raise Refused(502, "the provider's answer cannot be read", TRY_AGAIN) from None
            keys = await read_document(client, metadata["jwks_uri"])
            claims = self.check_id_token(token, keys, attempt.nonce)
            if find_values(claims, self.settings.roles_claim) is None and metadata.get("userinfo_endpoint"):
                more = await read_document(client, metadata["userinfo_endpoint"], as_user=True)
                claims |= more if more.get("sub") == claims["sub"] else {}
        person = Person(self.settings.issuer, sanitise_line(str(claims["sub"]), 200), name_person(claims))
        return person, self.find_role(claims, person)

    def check_id_token(self, token: dict[str, Any], keys: dict[str, Any], nonce: str) -> dict[str, Any]:
        options: Any = {
            "iss": {"essential": True, "value": self.settings.issuer},
            "aud": {"essential": True, "value": self.settings.client_id},
        }
        params = {
            "nonce": nonce,
            "client_id": self.settings.client_id,
            "access_token": token.get("access_token"),
        }
        try:
            registry = JWSRegistry(algorithms=SIGNING_ALGORITHMS, strict_check_header=False)
            key_set: Any = KeySet.import_key_set(keys)  # pyright: ignore[reportArgumentType]  # a stranger's document
            decoded = jwt.decode(as_text(token.get("id_token")) or "", key_set, registry=registry)
            claims: Any = CodeIDToken(decoded.claims, decoded.header, options, params)
            claims.validate(leeway=MAX_CLOCK_DIFFERENCE_S)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
            why = sanitise_line(f"{type(error).__name__}: {error}", 160)
            raise Refused(403, f"the provider's identity token does not hold: {why}", TRY_AGAIN) from None
        return dict(decoded.claims)

    def find_role(self, claims: dict[str, Any], person: Person) -> Role:
        claim = self.settings.roles_claim
        values = find_values(claims, claim)
        if claim == "email" and claims.get("email_verified") is not True:
            values = None  # anybody may write any address into an account of theirs
        role = self.settings.find_role(values or set())
        if role is None:
            why = f"{person.name} has no role here: nothing in the claim {claim!r} gives one"
            fix = "ask the person who runs this console for a role in [console.roles], then log in again"
            raise Refused(403, why, fix)
        return role

    def find_logout_address(self) -> str:
        """Return the provider's logout address; "" for a provider without one."""
        end = as_text(self.metadata.get("end_session_endpoint")) or ""
        if urlsplit(end).scheme not in ("https", "http"):
            return ""
        back = {"client_id": self.settings.client_id, "post_logout_redirect_uri": f"{self.settings.origin}/"}
        return f"{end}{'&' if '?' in end else '?'}{urlencode(back)}"


async def read_document(client: Any, address: str, *, as_user: bool = False) -> dict[str, Any]:
    """Return the JSON object at an address. Raises HTTPError, Refused."""
    response: Response = await client.request("GET", address, withhold_token=not as_user)
    response.raise_for_status()
    try:
        return as_object(response.json())
    except ValueError:
        raise Refused(502, "the provider's answer cannot be read", "look at `issuer`") from None


def find_values(claims: dict[str, Any], name: str) -> set[str] | None:
    """Return the values of a claim: by its whole name, or by a path such as `realm_access.roles`; None without it."""
    found: object = claims.get(name)
    if found is None:
        found = claims
        for part in name.split("."):
            found = as_object(found).get(part)
    if found is None:
        return None
    return {each for each in (found, *as_array(found)) if isinstance(each, str)}


def name_person(claims: dict[str, Any]) -> str:
    """Return how a person is shown: a verified address, or a name, or the subject."""
    email = claims.get("email") if claims.get("email_verified") is True else None
    found = email or claims.get("preferred_username") or claims.get("name") or claims["sub"]
    return sanitise_line(str(found), 120)
