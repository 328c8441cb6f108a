"""Runs the real Gemini CLI against a scripted model."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from e2e import npm
from e2e.npm import RUN_TIMEOUT_S, Result

GEMINI = "0.61.0"
MODEL = "gemini-2.5-pro"
NEEDED_SETTINGS: dict[str, dict[str, Any]] = {
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
}
_PACKAGE = "@google/gemini-cli"


@cache
def gemini_command() -> tuple[str, ...]:
    """What starts the pinned client: node and its script. Skips the test when npm is out of reach.

    Raises NotInstalled.
    """
    script = npm.installed("gemini-cli", GEMINI, f"{_PACKAGE}@{GEMINI}", f"{_PACKAGE}/bundle/gemini.js")
    command = (str(npm.node("gemini-cli")), str(script))
    npm.check_version(command, GEMINI)
    return command


def run_gemini(
    workspace: Path,
    home: Path,
    wire_url: str,
    prompt: str,
    *,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    asks: bool = False,
    timeout_s: float = RUN_TIMEOUT_S,
) -> Result:
    """One headless run, `gemini -p`, with `workspace` as its folder, which is trusted. Raises TooSlow.

    With `asks` its own rules decide what it may do; without, it may do all.
    Settings are what the workspace and `home` hold. Two are added to `home`'s where they are not said: the kind
    of key, which the client takes from nowhere else once the address of its model is given, and no statistics.
    """
    _fill_in(home / ".gemini" / "settings.json")
    command = [*gemini_command(), *([] if asks else ["--yolo"]), "--model", MODEL, *arguments, "--prompt", prompt]
    switches = {
        "GEMINI_API_KEY": "dummy",
        "GOOGLE_GEMINI_BASE_URL": wire_url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        **(environment or {}),
    }
    return npm.run(command, workspace, npm.clean_environment(home, switches), timeout_s)


def _fill_in(file: Path) -> None:
    held: dict[str, Any] = json.loads(file.read_bytes()) if file.exists() else {}
    filled = {**held, **{key: {**wanted, **held.get(key, {})} for key, wanted in NEEDED_SETTINGS.items()}}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(filled))
