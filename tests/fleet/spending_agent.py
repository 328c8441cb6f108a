"""An agent that tells what it spent in one call, and does not end: `python spending_agent.py USD`."""

import json
import signal
import sys


def main(usd: str) -> None:
    print(json.dumps({"type": "result", "num_turns": 1, "total_cost_usd": float(usd)}), flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
