"""A grammar that a text can crash is not given that text."""

import subprocess
import sys

import pytest

PROGRAM = """
from remit.core.diff.contents import LineRange
from remit.core.code.definitions import find_definitions
print(find_definitions('deploy.sh', {text!r}.encode(), (LineRange(1, 1),)))
"""


@pytest.mark.parametrize("text", ["{\U0007da04..3}", "\U0007da04", "echo {\u0100..z}\n"])
def test_a_script_with_rare_characters_does_not_end_the_process(text: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(text=text)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
