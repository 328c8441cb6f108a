"""Runs failed tests again, each alone: `again.py LOG LASTFAILED HISTORY`.

LOG is what pytest printed, LASTFAILED its cache of failed tests, HISTORY a table of flaky tests: date, commit, test,
first line of the failure. A test that fails again has failed. One that passes is flaky: it is printed, and added to
HISTORY. The run has failed where a test failed twice, where it was flaky before within `QUARANTINE_DAYS`, where more
than `MAX_AGAIN` tests failed (none runs again then), and where pytest did not come to its end.
The last line is `F failed, K flaky`; the exit code is 1 where the run has failed.
"""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

MAX_AGAIN = 3
QUARANTINE_DAYS = 14
MAX_REASON_CHARS = 160
CLOSING = re.compile(r"^=* ?.*\b\d+ (?:passed|failed|errors?|skipped|deselected)\b.* in [\d.]+s", re.MULTILINE)
COLUMNS = ("date", "commit", "test", "failure")


def main(log: Path, last_failed: Path, history: Path) -> int:
    text = log.read_text("utf-8", "replace") if log.exists() else ""
    closing = CLOSING.findall(text)
    if not closing:
        return tell([f"pytest did not come to its end: see {log}"], failed=1)
    broken = sum(int(number) for number, _ in re.findall(r"(\d+) (failed|errors?)\b", closing[-1]))
    if broken == 0:
        return tell([], failed=0)
    failed: list[str] = sorted(json.loads(last_failed.read_text("utf-8"))) if last_failed.exists() else []
    if not failed:
        return tell([f"{broken} failures, and none is in {last_failed}"], failed=broken)
    if len(failed) > MAX_AGAIN:
        return tell([f"{len(failed)} tests failed: over {MAX_AGAIN}, none runs again"], failed=len(failed))
    passed = [test for test in failed if passes_alone(test)]
    earlier = read_history(history)
    rows = [(today(), commit(), test, find_reason(text, test)) for test in passed]
    repeated = [test for test in passed if test in earlier]
    write_history(history, rows)
    words = [f"!!!!!! FLAKY: {test}\n       failed beside others, passed alone: {why}" for _, _, test, why in rows]
    words += [f"FAILED TWICE: {test}" for test in failed if test not in passed]
    words += [
        f"FLAKY AGAIN within {QUARANTINE_DAYS} days: {test}\n       mend it, or mark it `live` and open an issue"
        for test in repeated
    ]
    return tell(words, failed=len(failed) - len(passed) + len(repeated), flaky=len(passed) - len(repeated))


def tell(words: list[str], failed: int, flaky: int = 0) -> int:
    print(*words, f"{failed} failed, {flaky} flaky", sep="\n")
    return 1 if failed else 0


def passes_alone(test: str) -> bool:
    """Run one test in a process of its own; a skip is no pass."""
    print(f"again, alone: {test}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout)
    return done.returncode == 0 and re.search(r"\b\d+ passed\b", done.stdout) is not None


def find_reason(log: str, test: str) -> str:
    """Find the first line of a failure in pytest's summary."""
    for line in log.splitlines():
        kind, _, rest = line.partition(" ")
        if kind in {"FAILED", "ERROR"} and rest.startswith(f"{test} - "):
            return " ".join(rest.removeprefix(f"{test} - ").split())[:MAX_REASON_CHARS]
    return "unknown"


def read_history(history: Path) -> set[str]:
    """Read the tests that were flaky lately."""
    first = (datetime.now(UTC) - timedelta(days=QUARANTINE_DAYS)).date().isoformat()
    lines = history.read_text("utf-8").splitlines()[1:] if history.exists() else []
    rows = [line.split("\t") for line in lines]
    return {row[2] for row in rows if len(row) == len(COLUMNS) and row[0] >= first}


def write_history(history: Path, rows: list[tuple[str, str, str, str]]) -> None:
    if not history.exists():
        history.write_text("\t".join(COLUMNS) + "\n", "utf-8")
    with history.open("a", encoding="utf-8") as file:
        file.writelines("\t".join(row) + "\n" for row in rows)


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:4])))
