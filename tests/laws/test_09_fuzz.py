"""Law 9: strangers' input breaks nothing, and junk never lets through what was refused.

Ten seconds of what `benchmarks/fuzz.py` does for as long as one likes.
"""

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent.parent.parent / "benchmarks" / "fuzz.py"


@pytest.mark.live
def test_commands_paths_settings_and_payloads_are_fuzzed_without_a_finding() -> None:
    words = [sys.executable, str(FUZZ), "--seconds", "10", "--seed", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    counts = [int(part.split()[0]) for part in done.stdout.splitlines()[-1].split(": ")[0].split(", ")]
    assert len(counts) == 4
    assert min(counts) > 20
