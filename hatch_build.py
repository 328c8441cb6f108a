"""Build hook of the wheel: four static hook clients, where the release asks for them.

`REMIT_CLIENTS=1 uv build --wheel` compiles `client.c` for Linux and macOS, x86-64 and arm64, with `ziglang`. Without
it the wheel carries the source alone, and `remit init` compiles it, or takes the pure-Python client.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TARGETS = {
    "hook-linux-x86_64": "x86_64-linux-musl",
    "hook-linux-aarch64": "aarch64-linux-musl",
    "hook-darwin-x86_64": "x86_64-macos",
    "hook-darwin-arm64": "aarch64-macos",
}


class ClientBuildHook(BuildHookInterface[Any]):
    """Compiles the clients into `remit_hook/bin/` before the wheel is packed."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling."""
        return ["ziglang==0.17.1"] if wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the wheel take the results."""
        if not wanted() or version == "editable":
            return
        source = Path(self.root, "src", "remit_hook", "client.c")
        folder = source.with_name("bin")
        folder.mkdir(exist_ok=True)
        for name, target in TARGETS.items():
            out = folder / name
            compiler = (sys.executable, "-m", "ziglang", "cc", "-target", target)
            command = [*compiler, "-Os", "-s", "-o", out, source]
            subprocess.run(command, check=True)
            build_data["force_include"][str(out)] = f"remit_hook/bin/{name}"


def wanted() -> bool:
    """Whether this is a release build."""
    return os.environ.get("REMIT_CLIENTS") == "1"
