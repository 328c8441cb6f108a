"""The `[[grants]]` of `remit.toml`: text in, text out, and every byte outside the change as it was.

A grant is appended as a table of its own, which TOML allows almost anywhere, and taken out by its lines. What came of
it is read again: where it does not say exactly what it should, nothing is changed.
"""

import json
import tomllib
from typing import Any

import msgspec

from remit.core.grant import ProjectGrant
from remit.workspace.config import ConfigError

KEY = "grants"
HEADER = f"[[{KEY}]]"


def with_grant(text: str, grant: ProjectGrant) -> str:
    """The text of `remit.toml` with this grant as its last. Raises ConfigError where it cannot be put there."""
    newline = "\r\n" if "\r\n" in text else "\n"
    before = document(text)
    led = "" if not text else newline if text.endswith("\n") else newline * 2
    after = text + led + "".join(line + newline for line in lines(grant))
    if unless_broken(after) != {**before, KEY: [*before.get(KEY, []), fields(grant)]}:
        raise ConfigError(f"a table {HEADER} cannot be appended; add it by hand: {', '.join(lines(grant)[1:])}")
    return after


def without_grant(text: str, grant_id: str) -> str:
    """The text without the grant of that id. Raises ConfigError where its lines cannot be told from others."""
    before = document(text)
    left = [entry for entry in before.get(KEY, []) if entry.get("id") != grant_id]
    wanted = {**before, KEY: left} if left else {key: value for key, value in before.items() if key != KEY}
    kept = text.splitlines(keepends=True)
    for start in (number for number, line in enumerate(kept) if line.split("#")[0].strip() == HEADER):
        found = "".join((*kept[: led(kept, start)], *kept[end_of(kept, start) :]))
        if unless_broken(found) == wanted:
            return found
    raise ConfigError(f"the table {HEADER} with `id = {json.dumps(grant_id)}` cannot be taken out; do it by hand")


def led(kept: list[str], start: int) -> int:
    """Where the table begins, with the empty line before it."""
    return start - 1 if start and not kept[start - 1].strip() else start


def end_of(kept: list[str], start: int) -> int:
    """The line after the table: comments and empty lines before the next one are that one's."""
    end = next((n for n in range(start + 1, len(kept)) if kept[n].lstrip().startswith("[")), len(kept))
    while end > start + 1 and (not kept[end - 1].strip() or kept[end - 1].lstrip().startswith("#")):
        end -= 1
    return end


def lines(grant: ProjectGrant) -> list[str]:
    """The lines of one entry. JSON's strings and lists of strings are TOML's, but for DEL."""
    told = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in fields(grant).items())
    return [HEADER, *(line.replace("\x7f", "\\u007f") for line in told)]


def fields(grant: ProjectGrant) -> dict[str, Any]:
    """What an entry says, without what it leaves open."""
    told: dict[str, Any] = msgspec.to_builtins({**msgspec.structs.asdict(grant), "command": list(grant.command)})
    return {key: value for key, value in told.items() if value}


def document(text: str) -> dict[str, Any]:
    """The file as it is read. Raises ConfigError."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"it is no TOML ({error}); mend it first") from error


def unless_broken(text: str) -> dict[str, Any] | None:
    """The file as it would be read; None where it could not be."""
    try:
        return document(text)
    except ConfigError:
        return None
