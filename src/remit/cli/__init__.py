"""COMMANDS: one file a command. Nothing heavy is imported before it is known which command it is."""

import os
import sys


def main() -> None:
    """The `remit` command. A hook call goes straight to its answer: click alone would cost more than deciding."""
    if sys.argv[1:2] == ["hook"]:
        from remit.cli.hook import main as hook

        sys.exit(hook(sys.argv[2:]))
    if sys.argv[1:2] == ["blame"]:
        from remit.cli.blame.answer_cache import answer_from_cache  # an answer that is still true needs no command line

        if answer_from_cache(sys.argv[2:]):
            return
        from remit.cli.blame.fast_path import answer_directly

        if answer_directly(sys.argv[2:]):
            os._exit(0)  # all is written; taking so much apart again would take another Python's start
    from remit.cli.root import remit

    remit(prog_name="remit")
