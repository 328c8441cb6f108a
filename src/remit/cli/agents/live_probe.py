"""`remit doctor --live`: a real agent, a scripted model, and a write that must be refused.

The agent runs in a HOME and a repository of its own, wired by the real `remit init`, with a minimal environment and no
key. The model listens on 127.0.0.1.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.gemini_wire import GeminiWire
from remit.rehearsal.openai_wires import ChatWire, ResponsesWire
from remit.rehearsal.scripted_model import ModelWire, Say, ScriptedModel, Use
from remit.wiring.agents import DetectedAgent
from remit.wiring.doctor_checks import DoctorCheck, read_agent_version

RUN_TIMEOUT_S = 120
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TERM")
EXPECTED_CODE = "MISSING_OR_INVALID_INTENT"
PROMPT = "do the work"
DUMMY_KEY = "scripted"  # a placeholder: the scripted model checks no key


class LiveAgent(Struct, frozen=True):
    """How to run one agent against a model's address. `settings` are files below HOME that it needs first."""

    wire: type[ModelWire]
    write_call: Callable[[Path], Use]
    arguments: Callable[[str], list[str]]
    variables: Callable[[str], Mapping[str, str]]
    settings: Mapping[str, str] = {}
    init_options: tuple[str, ...] = ()


def probe_agent(detected: DetectedAgent) -> DoctorCheck:
    """Run the agent in a HOME and an enforcing repository of its own; ok if Remit refused its write."""
    agent, live = detected.row.agent, LIVE_AGENTS.get(detected.row.agent)
    if live is None or detected.binary is None:
        return DoctorCheck("warn", agent, "live: no scripted model speaks its protocol yet")
    with tempfile.TemporaryDirectory(prefix="remit-live-", ignore_cleanup_errors=True) as scratch:
        home, repository = Path(scratch) / "home", Path(scratch) / "repo"
        inherited = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        environment = {**inherited, "HOME": str(home), "TMPDIR": str(home / "tmp"), "GIT_CONFIG_NOSYSTEM": "1"}
        run = partial(subprocess.run, cwd=repository, input=b"", capture_output=True, timeout=RUN_TIMEOUT_S)
        remit = [sys.executable, "-I", "-c", "from remit.cli import main; main()"]
        try:
            for folder in (home / "tmp", repository):
                folder.mkdir(parents=True)
            for name, content in live.settings.items():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).write_text(content)
            init = [*remit, "init", "--yes", "--mode", "enforce", "--agent", agent, *live.init_options]
            for command in (["git", "init", "-q"], init):
                run(command, env=environment, check=True)
            version, _ = read_agent_version(detected.binary, environment)
            began = time.monotonic()
            model = ScriptedModel([live.write_call(repository / "probe.txt"), Say("done")])
            with live.wire(model).serve() as wire:
                run([detected.binary, *live.arguments(wire.url)], env={**environment, **live.variables(wire.url)})
                results = wire.tool_result_texts()
        except (OSError, subprocess.SubprocessError) as error:
            return DoctorCheck("fail", agent, f"live: it could not be run: {str(error)[:300]}")
        remark = f" ({time.monotonic() - began:.1f} s, {version or 'version unknown'})"
        return judge_run(agent, results, (repository / "probe.txt").exists(), remark)


def judge_run(agent: str, results: list[str], written: bool, remark: str = "") -> DoctorCheck:
    if written:
        return DoctorCheck("fail", agent, f"live: its write went through; the hooks do not reach it{remark}")
    if any(EXPECTED_CODE in text for text in results):
        return DoctorCheck("ok", agent, f"live: its write without an intent was refused, and it was told why{remark}")
    received = " ".join(results)[:300]
    return DoctorCheck("fail", agent, f"live: nothing was written, but it was not told why{remark}: {received!r}")


def write_file(file: Path) -> Use:
    return Use("write_file", {"file_path": str(file), "content": "probe\n"})


def codex_arguments(url: str) -> list[str]:
    """Return Codex's arguments: the model comes from settings; plugins would need the network."""
    provider = "model_providers.scripted"
    settings = [
        'model_provider="scripted"',
        f'{provider}.name="scripted"',
        f'{provider}.base_url="{url}/v1"',
        f'{provider}.wire_api="responses"',
        f'{provider}.env_key="SCRIPTED_KEY"',
        f"{provider}.request_max_retries=0",
        f"{provider}.stream_max_retries=0",
        "analytics.enabled=false",
        "check_for_update_on_startup=false",
        "features.plugins=false",
    ]
    configured = [word for setting in settings for word in ("--config", setting)]
    options = ["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "--model", "gpt-5.5"]
    return [*options, *configured, PROMPT]


CLAUDE_SWITCHES = {
    "ANTHROPIC_API_KEY": DUMMY_KEY,
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}

GEMINI_SETTINGS = (
    '{"privacy": {"usageStatisticsEnabled": false}, "security": {"auth": {"selectedType": "gemini-api-key"}}}\n'
)
LIVE_AGENTS: dict[str, LiveAgent] = {
    "claude-code": LiveAgent(
        wire=AnthropicWire,
        write_call=lambda file: Use("Write", {"file_path": str(file), "content": "probe\n"}),
        arguments=lambda _: ["-p", PROMPT, "--model", "claude-sonnet-5", "--allowedTools", "Write"],
        variables=lambda url: {**CLAUDE_SWITCHES, "ANTHROPIC_BASE_URL": url},
    ),
    "codex": LiveAgent(
        wire=ResponsesWire,
        write_call=lambda file: Use(
            "apply_patch", {"input": f"*** Begin Patch\n*** Add File: {file}\n+probe\n*** End Patch"}
        ),
        arguments=codex_arguments,
        variables=lambda _: {"SCRIPTED_KEY": DUMMY_KEY},
        init_options=("--trust-codex",),
    ),
    "gemini": LiveAgent(
        wire=GeminiWire,
        write_call=write_file,
        arguments=lambda _: ["--yolo", "--model", "gemini-2.5-pro", "--prompt", PROMPT],
        variables=lambda url: {
            "GEMINI_API_KEY": DUMMY_KEY,
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        settings={".gemini/settings.json": GEMINI_SETTINGS},
    ),
    "qwen": LiveAgent(
        wire=ChatWire,
        write_call=write_file,
        arguments=lambda _: ["--yolo", "--auth-type", "openai", "--model", "scripted-model", PROMPT],
        variables=lambda url: {
            "OPENAI_API_KEY": DUMMY_KEY,
            "OPENAI_BASE_URL": f"{url}/v1",
            "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
            "QWEN_USAGE_STATISTICS_ENABLED": "false",
        },
    ),
}
