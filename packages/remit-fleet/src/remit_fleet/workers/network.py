"""The way of agents to the network: the person's proxies and certificates, and the passwords in a proxy's address."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
CERTIFICATE_VARIABLES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("GIT_SSL_CAINFO", "PIP_CERT"),
)
NETWORK_VARIABLES = (*PROXY_VARIABLES, *(name.lower() for name in PROXY_VARIABLES), *CERTIFICATE_VARIABLES)
"""Programs read proxies in both cases, certificates in upper case only."""

MIN_PASSWORD_CHARS = 6  # a shorter one is masked only together with its user: it could be a part of any word
MASK = "[redacted]"


def find_certificates(variables: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files and folders of certificates that the variables name."""
    named = (variables.get(name, "") for name in CERTIFICATE_VARIABLES)
    return tuple(path for part in ":".join(named).split(":") if (path := Path(part)).is_absolute() and path.exists())


def find_proxy_secrets(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must not be shown of the proxies' addresses, the longest first: `user:password`, and the password."""
    found: set[str] = set()
    for name in (*PROXY_VARIABLES, *map(str.lower, PROXY_VARIABLES)):
        address = variables.get(name, "")
        userinfo, at, _ = (address.partition("//")[2] or address).rpartition("@")
        _, colon, password = userinfo.partition(":")
        if at:
            found.add(userinfo)
        if colon and len(password) >= MIN_PASSWORD_CHARS:
            found |= {password, unquote(password)}
    return tuple(sorted(found - {""}, key=len, reverse=True))


def mask_words(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text
