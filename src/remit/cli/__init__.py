"""COMMANDS: one file a command. Heavy modules are imported once the command is known."""

import os
import sys


def main() -> None:
    """Run a command. A hook call goes straight to `remit.cli.hook`, an MCP client to the hook client, and a question
    that the daemon may answer to the daemon: importing click would take longer than deciding, or than the answer.
    """
    if sys.argv[1:2] == ["hook"]:
        from remit.cli.hook import main as hook

        sys.exit(hook(sys.argv[2:]))
    if sys.argv[1:] == ["mcp"] and os.environ.get("HOME", "").startswith("/"):
        from remit.cli.mcp_client import relay_lines

        sys.exit(relay_lines(os.environ["HOME"]))
    if sys.argv[1:2] == ["blame"]:
        from remit.cli.ask_daemon import ask_daemon

        code = ask_daemon(sys.argv[1:])
        if code is not None:
            sys.exit(code)
    from remit.cli.root import remit

    remit(prog_name="remit")
