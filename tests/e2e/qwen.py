"""Runs the real Qwen Code against a scripted model."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from e2e import npm
from e2e.npm import RUN_TIMEOUT_S, Result

QWEN = "0.24.4"
MODEL = "scripted-model"
_PACKAGE = "@qwen-code/qwen-code"


@cache
def qwen_command() -> tuple[str, ...]:
    """What starts the pinned client: node and its script. Skips the test when npm is out of reach.

    Raises NotInstalled.
    """
    script = npm.installed("qwen-code", QWEN, f"{_PACKAGE}@{QWEN}", f"{_PACKAGE}/cli-entry.js")
    command = (str(npm.node("qwen-code")), str(script))
    npm.check_version(command, QWEN)
    return command


def run_qwen(
    workspace: Path,
    home: Path,
    wire_url: str,
    prompt: str,
    *,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    timeout_s: float = RUN_TIMEOUT_S,
) -> Result:
    """One headless run, `qwen PROMPT`, with `workspace` as its folder. Raises TooSlow.

    Settings are what the workspace and `home` hold.
    """
    command = [*qwen_command(), "--yolo", "--auth-type", "openai", "--model", MODEL, *arguments, prompt]
    switches = {
        "OPENAI_API_KEY": "dummy",
        "OPENAI_BASE_URL": f"{wire_url}/v1",
        "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
        "QWEN_USAGE_STATISTICS_ENABLED": "false",
        **(environment or {}),
    }
    return npm.run(command, workspace, npm.clean_environment(home, switches), timeout_s)
