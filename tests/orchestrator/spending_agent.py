"""An agent that tells what it spent in one call, and goes on: `python spending_agent.py USD`."""

import json
import sys
import time


def main(usd: str) -> None:
    print(json.dumps({"type": "result", "num_turns": 1, "total_cost_usd": float(usd)}), flush=True)
    while True:
        print(json.dumps({"type": "assistant"}), flush=True)
        time.sleep(0.5)


if __name__ == "__main__":
    main(*sys.argv[1:])
