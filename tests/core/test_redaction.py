"""Secrets do not pass, look-alikes stay, and nothing takes long."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.secret_corpus import CORPUS, LOOK_ALIKES, SECRETS
from remit.core.config import Redact
from remit.core.redaction import (
    MASK,
    MAX_TEXT_CHARS,
    PatternRefused,
    compile_team_pattern,
    is_secret_file,
    redact,
    redact_value,
)


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_a_known_shape_is_masked_wherever_it_stands(secret: str) -> None:
    for text in (
        secret,
        f"export X={secret}",
        f"curl -H 'X: {secret}' u",
        f'"{secret}"',
        f"a\n{secret}\nb",
        rf"printf 'a\n{secret}'",
    ):
        assert secret not in redact(text)
        assert MASK in redact(text)


@pytest.mark.parametrize(("text", "secret"), CORPUS.values(), ids=CORPUS.keys())
def test_no_secret_of_the_corpus_survives(text: str, secret: str) -> None:
    assert secret not in redact(text)


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_a_look_alike_stays(text: str) -> None:
    assert redact(text) == text


NAMED = [
    ("PASSWORD=hunter22", "PASSWORD=[redacted]"),
    ("my_api_key: 'abcdef'", "my_api_key: '[redacted]'"),
    ('{"access_token": "abcdef"}', '{"access_token": "[redacted]"}'),
    ('passphrase = "correct horse battery"', 'passphrase = "[redacted]"'),
    ("--client-secret=abcdef x", "--client-secret=[redacted] x"),
    ("git push https://me:hunter2@h/x", "git push https://me:[redacted]@h/x"),
    ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer [redacted]"),
    ("-----BEGIN RSA PRIVATE KEY-----\nabc", "[redacted]"),
]


@pytest.mark.parametrize(("text", "expected"), NAMED)
def test_a_named_secret_is_masked_and_its_name_stays(text: str, expected: str) -> None:
    assert redact(text) == expected


@given(st.text() | st.sampled_from([text for text, _ in CORPUS.values()]))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


def test_a_text_under_a_telling_name_goes_whole() -> None:
    assert redact_value({"db_password": "correct horse", "tokens": 12, "note": "fine"}) == {
        "db_password": MASK,
        "tokens": 12,
        "note": "fine",
    }


def test_a_long_text_is_cut() -> None:
    assert len(redact_value("x" * (MAX_TEXT_CHARS * 3))) < MAX_TEXT_CHARS + 10


HOSTILE = [
    "a.", "token", "eyJaaaaaaaaaaaa-", "-----BEGIN A PRIVATE KEY-----", "password ", "aA1", "a=", "http://a:", "sk-",
    "secret='", "a_b=", "eyJaaaaaaaaaaaa.", "-----BEGIN ", "token: ", "Bearer ",
    "mysql ", "curl -u a:", "--a-b-c-d-", "Authorization: ", "machine a ", "cookie: a=", "echo a |", "A_", "https://a1",
    "?key=1", "config set a", "docker login ", "auth=", "htpasswd -b a ", "smbclient -U a", "'", "password ' ", "-p '",
]  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_no_text_takes_long(part: str) -> None:
    text = part * (MAX_TEXT_CHARS // len(part))
    start = time.thread_time()
    redact(text)
    assert time.thread_time() - start < 1.0


PATTERNS = ["corp-[0-9a-f]{32}", "ACME_[A-Z]+", "x(?:ab){3}y", r"\bid-\d{4,10}\b", "(?:aa|bb)-[0-9]{6}"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_plain_pattern_compiles(pattern: str) -> None:
    assert compile_team_pattern(pattern)


def test_a_teams_pattern_masks() -> None:
    assert redact("call ACME_XYZ now", [compile_team_pattern("ACME_[A-Z]+")]) == "call [redacted] now"


REFUSED = [
    "",
    "(",
    "(a+)+b",
    "(?:a|aa)+b",
    "a*",
    r"(a)\1",
    "a+b+c+",
    "x" * 201,
    "(?=a)",
    "(?:a{1,9}){9}",
    "[",
    "{2}",
    "*a",
]


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_could_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(PatternRefused):
        compile_team_pattern(pattern)


@given(st.text(alphabet="ab()[]{}*+?|\\1,29^$.:=!x-", max_size=24), st.sampled_from(["a", "ab", "aab", "1"]))
@settings(max_examples=150, deadline=None)
def test_whatever_pattern_is_taken_is_quick(pattern: str, part: str) -> None:
    try:
        compiled = compile_team_pattern(pattern)
    except PatternRefused:
        return
    text = part * (MAX_TEXT_CHARS // len(part))
    start = time.thread_time()
    compiled.sub(MASK, text)
    assert time.thread_time() - start < 4.0


def test_the_configuration_names_a_bad_pattern() -> None:
    with pytest.raises(ValueError, match=r"\[redact\] patterns: '\(a\+\)\+'"):
        Redact(patterns=("(a+)+",))


@pytest.mark.parametrize(
    "path",
    [
     ".env", "app/.env.production", "prod.env", "tls/server.pem", "server.key", "id_ed25519", ".netrc", ".npmrc",
     ".pypirc",
     ".git-credentials", "config/secrets.yaml", "credentials.json", "infra/prod.tfvars", "terraform.tfstate", "a.p12",
     "home/.aws/config", "x/.ssh/known", ".pgpass", "client_secret_1.json", "SERVER.PEM"],
)  # fmt: skip
def test_a_name_of_secrets_is_known(path: str) -> None:
    assert is_secret_file(path)


@pytest.mark.parametrize(
    "path",
    [".env.example", ".env.sample", "env.py", "src/environment.ts", "id_rsa.pub", "src/secrets.py",
     "src/credentials.ts",
     "tests/core/secret_corpus.py", "tokens.css", "src/token.py", "docs/keys.md", "keyboard.json", "secretary.md",
     "a/b/c.txt"],
)  # fmt: skip
def test_other_names_are_not(path: str) -> None:
    assert not is_secret_file(path)
