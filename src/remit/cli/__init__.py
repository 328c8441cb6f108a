"""COMMANDS: one file a command. Heavy modules are imported once the command is known."""

import sys


def main() -> None:
    """Run a command. A hook call goes straight to `remit.cli.hook`: importing click would take longer than deciding."""
    if sys.argv[1:2] == ["hook"]:
        from remit.cli.hook import main as hook

        sys.exit(hook(sys.argv[2:]))
    from remit.cli.root import remit

    remit(prog_name="remit")
