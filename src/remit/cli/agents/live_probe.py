"""`remit doctor --live`: a real agent, a scripted model, and a write that must be refused.

The agent runs in a HOME and a repository of its own, wired by the real `remit init`, with a minimal environment and no
key. The model listens on 127.0.0.1.
"""

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from remit.core.agents.row import fill_words
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
WIRES: dict[str, type[ModelWire]] = {
    "anthropic messages": AnthropicWire,
    "google generate": GeminiWire,
    "openai chat": ChatWire,
    "openai responses": ResponsesWire,
}


def probe_agent(detected: DetectedAgent) -> DoctorCheck:
    """Run the agent in a HOME and an enforcing repository of its own; ok if Remit refused its write."""
    row, live, agent = detected.row, detected.row.live, detected.row.agent
    if detected.binary is None:
        return DoctorCheck("warn", agent, "live: its program is not on PATH")
    with tempfile.TemporaryDirectory(prefix="remit-live-", ignore_cleanup_errors=True) as scratch:
        home, repository = Path(scratch) / "home", Path(scratch) / "repo"
        inherited = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        environment = {**inherited, "HOME": str(home), "TMPDIR": str(home / "tmp"), "GIT_CONFIG_NOSYSTEM": "1"}
        run = partial(subprocess.run, cwd=repository, input=b"", capture_output=True, timeout=RUN_TIMEOUT_S)
        remit = [sys.executable, "-I", "-c", "from remit.cli import main; main()"]
        try:
            for folder in (home / "tmp", repository):
                folder.mkdir(parents=True)
            for name, content in live.files.items():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).write_text(content)
            trust = [f"--trust-{agent}"] if row.trusts_by_hash else []
            init = [*remit, "init", "--yes", "--mode", "enforce", "--agent", agent, *trust]
            for command in (["git", "init", "-q"], init):
                run(command, env=environment, check=True)
            version, _ = read_agent_version(detected.binary, environment)
            began = time.monotonic()
            file = str(repository / "probe.txt")
            arguments = {name: value.replace("{file}", file) for name, value in live.arguments.items()}
            model = ScriptedModel([Use(live.tool, arguments), Say("done")])
            _, *words = fill_words(row.command, prompt=PROMPT, intent="", model=live.model)
            with WIRES[live.wire](model).serve() as wire:
                words += [word.replace("{url}", wire.url) for word in live.words]
                variables = {name: value.replace("{url}", wire.url) for name, value in live.variables.items()}
                run([detected.binary, *words], env={**environment, **row.command.settings, **variables})
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
