"""Secrets do not pass, and nothing takes long."""

import time

import pytest

from remit.core.redaction import MASK, redact

KEY = "a1B2" * 8
SECRETS = [
    f"sk-ant-{KEY}",
    f"sk_live_{KEY}",
    f"ghp_{KEY}",
    f"github_pat_{KEY}",
    f"glpat-{KEY}",
    "AKIA" + "ABCD" * 4,
    f"AIza{KEY}",
    f"xoxb-{KEY}",
    f"eyJ{KEY}.{KEY}.{KEY}",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_known_shape_is_masked_wherever_it_stands(secret: str) -> None:
    for text in (secret, f"export X={secret}", f"curl -H 'X: {secret}' u", f'"{secret}"'):
        assert secret not in redact(text)
        assert MASK in redact(text)


NAMED = [
    ("PASSWORD=hunter22", "PASSWORD=[redacted]"),
    ("my_api_key: 'abcdef'", "my_api_key: '[redacted]'"),
    ('{"access_token": "abcdef"}', '{"access_token": "[redacted]"}'),
    ("--client-secret=abcdef x", "--client-secret=[redacted] x"),
    ("git push https://me:hunter2@h/x", "git push https://me:[redacted]@h/x"),
    ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer [redacted]"),
    ("-----BEGIN RSA PRIVATE KEY-----\nabc", "[redacted]"),
]


@pytest.mark.parametrize(("text", "expected"), NAMED)
def test_a_named_secret_is_masked_and_its_name_stays(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize("text", ["git status", "token = x", "src/tokenizer.py", "https://example.org/a:b", "é"])
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("part", ["a.", "token", "eyJaaaaaaaaaaaa-", "-----BEGIN A PRIVATE KEY-----", "password "])
def test_no_text_takes_long(part: str) -> None:
    text = part * (16_384 // len(part))
    start = time.perf_counter()
    redact(text)
    assert time.perf_counter() - start < 1.0
