"""An agent that asks for a file outside of its scope until Remit's hook allows it: `python growing_agent.py INTENT`."""

import signal
import sys
import uuid
from contextlib import suppress
from pathlib import Path

from patient_agent import write
from small_agent import call_hook


def main(intent: str) -> None:
    session = f"session-{uuid.uuid4()}"
    call_hook(session, "SessionStart", source="startup")
    wanted = Path.cwd() / "docs" / f"{intent}.md"
    while not wanted.exists():
        with suppress(SystemExit):
            write(session, wanted, f"# {intent}\n")
        signal.sigtimedwait([signal.SIGUSR1], 0.3)


if __name__ == "__main__":
    main(*sys.argv[1:])
