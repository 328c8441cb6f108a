"""Settings: of a repository, each with its value and the file that holds it; and of this console."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from remit.console.guard import Refused
from remit.console.pages.page import FACE, PageRequest
from remit.console.pairing import STATE_FILE
from remit.console.repositories import GovernedRepository
from remit.core.config import Config
from remit.core.diff.contents import sha256
from remit.core.machine_paths import CONFIG_PATH
from remit.core.python_runtime import prepare_type
from remit.core.record import Body
from remit.core.redaction import compile_team_pattern, redact
from remit.core.untrusted_input import encode_json
from remit.gate.gate import Gate
from remit.gate.governing.rules import load_rules
from remit.gate.governing.settings import write_setting
from remit.workspace.place.config import ConfigError, parse_toml, read_config_text

SETTINGS_QUERY = ("repo",)
LOCKED_SETTINGS = frozenset(
    {"mode", "overrides", "hooks", "grants", "verify.on_write", "verify.landing", "ledger.trusted_keys"}
)
"""Settings that have a page or command of their own, or hold more than a value."""
MAX_TRIED_CHARS, MAX_RECORDED_CHARS = 20_000, 400


class SettingRow(Struct, frozen=True):
    """A setting: its value as JSON; `line` in the file if it is set there, else the default holds."""

    name: str
    value: str
    default: str
    line: int | None
    is_editable: bool


class SettingsPage(Struct, frozen=True):
    """Settings of a repository in `file`, whose content has the SHA-256; and the governed repositories.
    `remote_origin` is the console's address for other machines, "" where it has none.
    """

    repositories: list[GovernedRepository]
    repository: str
    file: str
    file_sha256: str
    console_file: str
    rows: list[SettingRow]
    problem: str = ""
    remote_origin: str = ""
    remote_file: str = f"~/{CONFIG_PATH}"


class SettingBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A setting to write, as JSON text; an empty value takes it out of the file."""

    repository: str
    name: str
    value: str
    file_sha256: str


class TriedText(Struct, frozen=True, forbid_unknown_fields=True):
    """A text to redact as the records of a repository are."""

    repository: str
    text: str


def read_settings(request: PageRequest) -> SettingsPage:
    known = request.repositories.list_all()
    name = request.query.get("repo", "")
    repository = request.repositories.find(name) if name else (known[0] if known else None)
    console, remote = f"~/{STATE_FILE}", request.repositories.remote_origin
    if repository is None:
        return SettingsPage(known, "", "", "", console, [], remote_origin=remote)
    with request.repositories.open_gate(repository) as gate:
        path = gate.workspace.config_path
    file = path.relative_to(repository.root).as_posix() if path.is_relative_to(repository.root) else path.name
    try:
        text = read_config_text(path) or ""
        config = msgspec.toml.decode(text, type=prepare_type(Config))
        rows = list(list_rows(config, text))
    except (ConfigError, msgspec.MsgspecError, ValueError) as error:
        return SettingsPage(known, repository.name, file, "", console, [], str(error).partition("\n")[0], remote)
    return SettingsPage(known, repository.name, file, sha256(text.encode()), console, rows, remote_origin=remote)


def list_rows(config: Config, text: str) -> Iterator[SettingRow]:
    written = parse_toml(text)
    for field in msgspec.structs.fields(Config):
        value, default = getattr(config, field.name), getattr(Config(), field.name)
        if not isinstance(value, Struct):
            yield make_row(field.name, value, default, field.name in written, text)
            continue
        for inner in msgspec.structs.fields(value):
            name = f"{field.name}.{inner.name}"
            is_set = inner.name in written.get(field.name, {})
            yield make_row(name, getattr(value, inner.name), getattr(default, inner.name), is_set, text)


def make_row(name: str, value: Any, default: Any, is_set: bool, text: str) -> SettingRow:
    shown, usual = (encode_json(each) for each in (value, default))
    return SettingRow(name, shown, usual, find_line(text, name) if is_set else None, name not in LOCKED_SETTINGS)


def find_line(text: str, name: str) -> int | None:
    """Return the 1-based line of a setting; None if it is not written in the usual way."""
    wanted, _, key = name.rpartition(".")
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+\s*([\w.-]+)\s*\]", line):
            table = header[1]
        elif table == wanted and re.match(rf"\s*{re.escape(key)}\s*=", line):
            return number
    return None


def change_setting(request: PageRequest, body: SettingBody) -> dict[str, Any]:
    """Write a setting that a person changed; return its row, and the file's name and SHA-256. Raises Refused."""
    repositories = request.repositories
    repository = repositories.find(body.repository)
    page = read_settings(PageRequest(repositories, None, {}, {"repo": repository.name}))
    row = next((row for row in page.rows if row.name == body.name and row.is_editable), None)
    if row is None:
        why = page.problem or f"{body.name[:60]!r} is no setting that is written here"
        raise Refused(404, why, f"edit {page.file}")
    try:
        value = msgspec.json.decode(body.value) if body.value.strip() else None
    except msgspec.DecodeError:
        raise Refused(400, f"{body.value[:60]!r} is no value", 'write text in quotes, a list as ["a", "b"]') from None
    with repositories.open_gate(repository) as gate:
        try:
            write_setting(gate.workspace, body.name, value, body.file_sha256)
        except ConfigError as error:
            raise Refused(409 if "meanwhile" in str(error) else 400, str(error), f"or edit {page.file}") from None
        page = read_settings(PageRequest(repositories, None, {}, {"repo": repository.name}))
        written = next(row for row in page.rows if row.name == body.name)
        before, after = (each.value if each.line else "" for each in (row, written))
        record_setting_change(gate, body.name, before, after)
    return {"row": msgspec.to_builtins(written), "file": page.file, "file_sha256": page.file_sha256}


def record_setting_change(gate: Gate, name: str, before: str, after: str) -> None:
    """Record that a person changed a setting in the console; values are JSON, empty for the default."""
    if before == after:
        return
    shown = {"from": redact(before)[:MAX_RECORDED_CHARS], "to": redact(after)[:MAX_RECORDED_CHARS]}
    detail = {"name": name, **shown, "by": "person", "through": FACE}
    body = Body(event="setting_changed", intent_id=None, session_id=None, detail=detail)
    gate.recorder.append_or_spool([gate.recorder.make_record(body)])


def redact_text(request: PageRequest, body: TriedText) -> dict[str, str]:
    """Return the text as a record would hold it."""
    with request.repositories.open_gate(request.repositories.find(body.repository)) as gate:
        patterns = load_rules(gate.workspace).config.redact.patterns
    return {"text": redact(body.text[:MAX_TRIED_CHARS], tuple(map(compile_team_pattern, patterns)))}
