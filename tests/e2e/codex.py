"""Runs the real Codex CLI against a scripted model."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from e2e import npm
from e2e.npm import RUN_TIMEOUT_S, Result

CODEX = "0.169.0"
# The tools depend on the model's name: this one has `apply_patch`, most others only a shell.
MODEL = "gpt-5.5"
_TRIPLES = {
    "linux-x64": "x86_64-unknown-linux-musl",
    "linux-arm64": "aarch64-unknown-linux-musl",
    "darwin-x64": "x86_64-apple-darwin",
    "darwin-arm64": "aarch64-apple-darwin",
}


@cache
def codex_binary() -> Path:
    """The pinned client, from the cache folder, or else from npm. Skips the test when npm is out of reach.

    Raises NotInstalled.
    """
    here = npm.platform_of("codex")
    inside = f"@openai/codex/vendor/{_TRIPLES[here]}/bin/codex"
    binary = npm.installed("codex", CODEX, f"@openai/codex@{CODEX}-{here}", inside)
    npm.check_version([str(binary)], CODEX)
    return binary


def run_codex(
    workspace: Path,
    home: Path,
    wire_url: str,
    prompt: str,
    *,
    settings: Sequence[str] = (),
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    trust_hooks: bool = True,
    sandbox: str = "danger-full-access",
    timeout_s: float = RUN_TIMEOUT_S,
) -> Result:
    """One headless run, `codex exec`, with `workspace` as its folder. Raises TooSlow.

    `settings` are `key=TOML` and come on top of what the workspace and `home` hold. Without `trust_hooks`
    only hooks whose hash stands in `home`/.codex/config.toml run. The sandbox is off unless asked for: not
    every machine that tests can make one.
    """
    command = [str(codex_binary()), "exec", "--skip-git-repo-check", "--sandbox", sandbox, "--model", MODEL]
    command += ["--dangerously-bypass-hook-trust"] if trust_hooks else []
    for setting in (*provider_settings(wire_url), *settings):
        command += ["--config", setting]
    seen = npm.clean_environment(home, {"SCRIPTED_KEY": "dummy", **(environment or {})})
    return npm.run([*command, *arguments, prompt], workspace, seen, timeout_s)


def trust_key(file: Path, event: str, group: int = 0, handler: int = 0) -> str:
    """The name under `[hooks.state]` of one handler of a hooks file; `event` in snake case."""
    return f"{file}:{event}:{group}:{handler}"


def trust_hash(event: str, command: str, timeout_s: int, matcher: str | None = None) -> str:
    """What stands as `trusted_hash` of a command hook that has nothing but these; `event` in snake case."""
    handler = {"async": False, "command": command, "timeout": timeout_s, "type": "command"}
    group: dict[str, object] = {"event_name": event, "hooks": [handler]}
    if matcher is not None:
        group["matcher"] = matcher
    canonical = json.dumps(group, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def provider_settings(wire_url: str, key: str = "SCRIPTED_KEY") -> list[str]:
    """Return the settings, `key=TOML`, that lead to a scripted model; `key` is the variable with the key."""
    base = "model_providers.scripted"
    return [
        'model_provider="scripted"',
        f'{base}.name="scripted"',
        f'{base}.base_url="{wire_url}/v1"',
        f'{base}.wire_api="responses"',
        f'{base}.env_key="{key}"',
        f"{base}.request_max_retries=0",
        f"{base}.stream_max_retries=0",
        "analytics.enabled=false",
        "check_for_update_on_startup=false",
        "features.plugins=false",  # Otherwise it asks github.com and chatgpt.com for a list of them.
    ]
