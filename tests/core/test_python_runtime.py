"""Types are made ready for decoding by one thread at a time."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
BUILT_IN = {"Any", "bool", "bytes", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple"}
DECODE_AT_ONCE = """
import sys
import threading

import msgspec

from remit.core.config import Config
from remit.core.intent import IntentsDocument
from remit.core.python_runtime import prepare_type
from remit.core.record import Record

sys.setswitchinterval(1e-6)
start, done = threading.Barrier(3), []
GIVEN = (
    ({"orchestrator": {"commons": []}, "hooks": []}, Config),
    ({"findings": [], "intents": [], "sha256": "0" * 64}, IntentsDocument),
    ({"body": {"call": {"name": "Write"}, "files": []}}, Record),
)


def decode():
    start.wait()
    for value, kind in GIVEN:
        try:
            msgspec.convert(value, prepare_type(kind))
        except msgspec.ValidationError:
            pass
    done.append(True)


threads = [threading.Thread(target=decode, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(100)
assert len(done) == 3, done
"""


@pytest.mark.parametrize("time", range(5))
def test_threads_may_decode_a_type_for_the_first_time_at_once(time: int) -> None:
    done = subprocess.run([sys.executable, "-c", DECODE_AT_ONCE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (time, done.stderr)


def is_built_in(kind: ast.expr) -> bool:
    allowed = (ast.Subscript, ast.Tuple, ast.Load, ast.Constant, ast.BinOp, ast.BitOr)
    return all(
        node.id in BUILT_IN if isinstance(node, ast.Name) else isinstance(node, allowed) for node in ast.walk(kind)
    )


def is_prepared(kind: ast.expr) -> bool:
    return isinstance(kind, ast.Call) and ast.unparse(kind.func) == "prepare_type"


def list_decoded_types(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the type of each call of msgspec that decodes into one."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition("msgspec.")[2]
        named = [keyword.value for keyword in node.keywords if keyword.arg == "type"]
        if name == "convert":
            yield from named or node.args[1:2]
        elif name.endswith(".Decoder"):
            yield from named or node.args[:1]
        elif name.endswith(".decode"):
            yield from named


def test_every_type_that_holds_a_struct_is_prepared_before_it_is_decoded() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{kind.lineno}: {ast.unparse(kind)}"
        for path in sorted(SOURCES.rglob("*.py"))
        if path.name != "python_runtime.py"
        for kind in list_decoded_types(ast.parse(path.read_text("utf-8")))
        if not is_built_in(kind) and not is_prepared(kind)
    ]
    assert found == []
