"""COMMANDS: one file a command. Heavy modules are imported once the command is known."""

import os
import sys


def main() -> None:
    """Run the `remit` command.

    A hook call goes straight to `remit.cli.hook`: importing click alone would take longer than the decision.
    """
    if sys.argv[1:2] == ["hook"]:
        from remit.cli.hook import main as hook

        sys.exit(hook(sys.argv[2:]))
    if sys.argv[1:2] == ["blame"]:
        from remit.cli.blame.answer_cache import answer_from_cache  # a cached answer needs no command line

        if answer_from_cache(sys.argv[2:]):
            return
        from remit.cli.blame.fast_path import answer_directly

        if answer_directly(sys.argv[2:]):
            os._exit(0)  # the answer is flushed; interpreter shutdown would double the run time
    from remit.cli.root import remit

    remit(prog_name="remit")
