"""The page of figures says what the runs say."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def scenario(name: str, wrong: list[str], **evidence: int) -> dict[str, Any]:
    counts = {key.replace("_", ", "): count for key, count in evidence.items()}
    common: dict[str, Any] = {"track": "rewrites", "tool": "remit", "broken": None, "ai": 10, "kept": 9, "certain": 10}
    return {**common, "scenario": name, "wrong": wrong, "evidence": counts}


def test_the_page_has_precision_and_recall_by_grade(tmp_path: Path) -> None:
    grades: dict[str, Any] = {
        "exact": {"right": 8},
        "carried": {"right": 1, "false AI, moved": 2, "old AI, unexplained": 1},
    }
    history: dict[str, Any] = {
        "name": "some/history",
        "commits": 9,
        "merges": 1,
        "agent_lines": {"right": 9, "unknown": 1},
    }
    outcome: dict[str, Any] = {
        "name": "rebase",
        "agent_lines": 200,
        "before": 198,
        "kept": 197,
        "wrong_agent": 1,
        "false_ai": {},
    }
    documents: dict[str, Any] = {
        "one": {
            "seed": 7,
            "scenarios": [scenario("indent", [], exact_right=5, carried_right=4), scenario("b", ["x"], exact_wrong=1)],
            "reenact": [],
        },
        "two": {
            "seed": 8,
            "scenarios": [],
            "reenact": [{**history, "grades": grades}],
            "reworked": [{"name": "some/history", "commits": 9, "outcomes": [outcome]}],
        },
    }
    for name, document in documents.items():
        (tmp_path / name).write_text(json.dumps(document))
    words = [*(str(tmp_path / name) for name in documents), "--write", str(tmp_path / "page.md")]
    subprocess.run([sys.executable, "-m", "benchmarks.provenance.page", *words], cwd=ROOT, check=True)
    page = (tmp_path / "page.md").read_text()
    for row in (
        "(`rewrites`) | 2 | 1 | 20 | exact | 6 | 1 | 83.33 % | 25.00 % |",
        "|  |  |  |  | carried | 4 | 0 | 100.00 % | 20.00 % |",
        "| some/history | 9 | 1 | 10 | exact | 8 | 0 | 100.00 % | 100.00 % | 80.00 % |",
        "|  |  |  |  | carried | 4 | 1 | 25.00 % | 75.00 % | 10.00 % |",
        "| some/history | 9 | rebase | 200 | 99.00 % | 98.50 % | 1 | 0 |",
        "| indent | lost | 90.00 % of 10 |",
        "Seeds: 7, 8.",
    ):
        assert row in page
