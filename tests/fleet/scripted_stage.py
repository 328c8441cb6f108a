"""An agent that plays a script by its role and attempt: Remit's own agent on the scripted model.

Run as `python scripted_stage.py FOLDER INTENT PROMPT`. The script is `<role>-<attempt>.json` in the folder, else
`<role>-<intent>.json` or `<role>.json`; the prompt tells the role, and the branch the attempt.
"""

import os
import re
import subprocess
import sys
from pathlib import Path


def main(folder: str, intent: str, prompt: str) -> None:
    found = re.match(r"You work on the intent \S+ as its ([a-z]+),", prompt)
    assert found is not None, prompt[:200]
    branch = subprocess.run(["git", "branch", "--show-current"], check=True, capture_output=True, text=True).stdout
    attempt = branch.strip().rpartition("/")[2]
    names = [f"{found[1]}-{attempt}.json", f"{found[1]}-{intent}.json", f"{found[1]}.json"]
    script = next(path for path in (Path(folder, name) for name in names) if path.exists())
    words = ["run", prompt, "--json", "--intent", intent, "--model", f"scripted:{script}"]
    os.execv(sys.executable, [sys.executable, "-c", "from remit.cli import main; main()", *words])


if __name__ == "__main__":
    main(*sys.argv[1:])
