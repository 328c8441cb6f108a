"""No tool of the agent changes anything before its call was decided and recorded, and then what it was judged for.

Every tool in the table has a row here: a new tool is covered once it is listed.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.tool_driving import CITED, ToolDriver
from gate.driving import body, records
from remit.core.decision import Finding
from remit.gate.perform import ToolOutput, WorkspaceAccess
from remit_agent.session.offer import TOOLS
from remit_agent.tools.mcp_client import McpConnections, make_mcp_tools
from remit_agent.tools.tool import PreparedCall, ToolFailure

PATCH = "*** Begin Patch\n*** Update File: src/app.py\n@@\n-    return 1\n+    return 2\n*** End Patch"
BLOCK = "<<<<<<< SEARCH\n    return 1\n=======\n    return 2\n>>>>>>> REPLACE"
EXCHANGE = {"file_path": "src/app.py", "old_string": "return 1", "new_string": "return 2"}
CALLS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "src/app.py"},
    "list_files": {"path": "src"},
    "search_files": {"path": ".", "regex": "main"},
    "codebase_search": {"query": "main"},
    "edit": EXCHANGE,
    "edit_file": EXCHANGE,
    "search_replace": EXCHANGE,
    "apply_diff": {"path": "src/app.py", "diff": BLOCK},
    "apply_patch": {"patch": PATCH},
    "write_to_file": {"path": "src/new.py", "content": "x = 1\n"},
    "generate_image": {"prompt": "a key", "path": "key.png"},
    "execute_command": {"command": "echo x > src/made.txt"},
    "read_command_output": {"artifact_id": "cmd-x.txt"},
    "stop_command": {"artifact_id": "cmd-x.txt"},
    "ask_followup_question": {"question": "Which?", "follow_up": [{"text": "A"}]},
    "attempt_completion": {"result": "done"},
    "switch_mode": {"mode_slug": "ask"},
    "new_task": {"mode": "code", "message": "do it"},
    "run_slash_command": {"command": "none"},
    "skill": {"skill": "none"},
    "use_mcp_tool": {"server_name": "none", "tool_name": "none"},
    "access_mcp_resource": {"server_name": "none", "uri": "a://b"},
    "select_active_intent": {"intent_id": "INT-001"},
    "list_active_intents": {},
    "get_intent_context": {"intent_id": "INT-001"},
    "clear_active_intent": {},
    "complete_intent": {"intent_id": "INT-001", "verification_notes": "it works"},
    "propose_intent": {"name": "More", "owned_scope": ["docs/**"], "reason": "docs"},
    "request_scope_expansion": {"paths": ["docs/**"], "reason": "docs"},
    "record_lesson": {"kind": "lesson", "lesson": "read first"},
    "update_todo_list": {"items": []},
    "query_traces": {},
    "why": {"path": "src/app.py"},
    "report_progress": {"text": "half of it"},
    "post_note": {"to": "all", "kind": "note", "text": "the format is JSON"},
    "read_notes": {},
    "list_workers": {},
    "submit_patch": {"patch": "1"},
    "submit_review": {"verdict": "approve"},
}
ALL_TOOLS = {**TOOLS, **{tool.name: tool for tool in make_mcp_tools(McpConnections({}, Path(), {}, "none"))}}


@pytest.fixture
def driver(repository: Path, home: Path) -> ToolDriver:
    driver = ToolDriver(repository, home)
    driver.person.answers = {"finish": "done", "switch_mode": "ask", "start_child": "done", "stop_command": "done"}
    return driver


def test_every_tool_of_the_table_has_a_row() -> None:
    assert CALLS.keys() == ALL_TOOLS.keys()


def prepare(driver: ToolDriver, name: str) -> PreparedCall | None:
    """The prepared call; None for a call that fails before it is asked about."""
    tool, cited = ALL_TOOLS[name], CITED if ALL_TOOLS[name].cites_intent else {}
    context = driver.context(name, {**CALLS[name], **cited}, cited)
    try:
        return tool.prepare(context, msgspec.convert(CALLS[name], tool.arguments))
    except ToolFailure:
        return None


def tree(driver: ToolDriver) -> dict[str, bytes]:
    """All files but those of git and Remit's state."""
    files = (path for path in driver.root.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(driver.root)): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", ALL_TOOLS)
def test_a_tool_changes_files_only_in_an_act_that_was_recorded_before(driver: ToolDriver, name: str) -> None:
    before = tree(driver)
    prepared = prepare(driver, name)
    assert tree(driver) == before
    if prepared is None:
        return

    def act(access: WorkspaceAccess) -> ToolOutput:
        assert tree(driver).items() >= {p: c for p, c in before.items() if not p.startswith(".orchestration/")}.items()
        known = [body(record).get("call", {}).get("id") for record in records(driver.root, "tool_use")]
        assert prepared.call.call_id in known
        return prepared.act(access)

    with suppress(ToolFailure):
        driver.gate.perform(prepared.call, act)
    after = {path: content for path, content in tree(driver).items() if not path.startswith(".orchestration/")}
    changed = {
        path
        for path in {*before, *after}
        if not path.startswith(".orchestration/") and before.get(path) != after.get(path)
    }
    match prepared.call.effect:
        case "read" | "none" | "meta":
            assert changed == set()
        case "write" | "delete":
            assert changed <= set(prepared.call.paths)
            assert changed
        case _:
            assert prepared.call.whole_workspace


@pytest.mark.parametrize("name", ALL_TOOLS)
def test_a_denied_call_never_acts(driver: ToolDriver, name: str) -> None:
    driver.gate.add_hook("no", lambda call, facts: Finding(rule="no", code="HOOK_BLOCKED", message="no"))
    prepared = prepare(driver, name)
    before = tree(driver)
    if prepared is None:
        return

    def act(access: WorkspaceAccess) -> ToolOutput:
        raise AssertionError("a denied call acted")

    assert driver.gate.perform(prepared.call, act).output is None
    files = {path: content for path, content in tree(driver).items() if not path.startswith(".orchestration/")}
    assert files == {path: content for path, content in before.items() if not path.startswith(".orchestration/")}
