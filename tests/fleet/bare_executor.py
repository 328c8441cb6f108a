"""An executor without agents, which does the next thing for each line it reads: `python bare_executor.py URL HOME`.

`launch` prints `launched`, or the error of a launch that failed; `land` enqueues a landing, which prints `landed`.
"""

import sys
from pathlib import Path

from remit_fleet.board import Attempt
from remit_fleet.database.store import AWAY_ERRORS, open_store
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.engines.workflows import StepEnd, launch_executor


class BareRunner:
    """Steps that do nothing but say so."""

    def run_step(self, step: str, attempt: Attempt) -> StepEnd:
        raise NotImplementedError(step, attempt)

    def land(self, repository: str, target: str) -> None:
        print(f"landed {target} of {repository}", flush=True)


def main(url: str, home: str) -> None:
    engine = DbosEngine(open_store(url, Path(home)))
    print("opened", flush=True)
    for line in sys.stdin:
        if line.strip() == "launch":
            try:
                launch_executor(engine, engine.queues, "host:1", 1, 0.1, BareRunner())
                print("launched", flush=True)
            except AWAY_ERRORS as error:
                print(type(error).__name__, flush=True)
        else:
            with engine.store.write() as connection:
                engine.queues.enqueue_landing(connection, "r:1", "r", "remit/next")


if __name__ == "__main__":
    main(*sys.argv[1:])
