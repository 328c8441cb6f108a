"""What Remit takes of DBOS: public names only, in one module; and the steps of a version of the workflows stay."""

import ast
import subprocess
import sys
from pathlib import Path

import dbos

from remit_fleet.engines import workflows as engine

SOURCE = Path(engine.__file__).parents[2]
STEPS = {"remit-flow-1": ("prepare", "run", "check", "hand_in")}
"""Steps of every version of the attempt's workflow: a change of them needs a new version."""

CALLED = {
    "DBOS": {"launch", "listen_queues", "register_queue", "run_step", "workflow"},
    "DBOSClient": {
        *("cancel_workflows", "delete_queue", "delete_workflows", "enqueue_in_transaction", "list_workflows"),
        "resume_workflows",
    },
}


def test_one_module_imports_the_engine_and_only_public_names() -> None:
    users: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "dbos":
                assert node.module == "dbos", path
                users.setdefault(str(path.relative_to(SOURCE)), set()).update(alias.name for alias in node.names)
            if isinstance(node, ast.Import):
                assert not any(alias.name.partition(".")[0] == "dbos" for alias in node.names), path
    assert list(users) == ["remit_fleet/engines/workflows.py"]
    assert users["remit_fleet/engines/workflows.py"] <= set(dbos.__all__)


def test_the_names_that_are_called_exist_and_no_private_one_is() -> None:
    tree = ast.parse(Path(engine.__file__).read_text("utf-8"))
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) if isinstance(node.ctx, ast.Load)}
    assert not [name for name in called if name.startswith("_") and not name.startswith("__")]
    for kind, names in CALLED.items():
        assert [name for name in names if not hasattr(getattr(dbos, kind), name)] == []


def test_the_steps_of_a_released_version_do_not_change() -> None:
    assert STEPS[engine.FLOW_VERSION] == engine.ATTEMPT_STEPS
    assert engine.MAX_RECOVERY_ATTEMPTS == 5


def test_no_row_of_the_engine_is_a_pickle() -> None:
    """Who may write the database must not be able to run code in every worker."""
    text = Path(engine.__file__).read_text("utf-8")
    assert text.count("serializer=DBOSPortableJSONSerializer()") == text.count("system_database_url=")


def test_who_only_reads_the_board_does_not_load_the_engine() -> None:
    code = "import sys, remit_fleet.engines.dbos; print('dbos' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
