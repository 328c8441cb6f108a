"""The table of tools: which are offered to whom, and what the tools without an effect on files do."""

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from agent.tool_driving import SESSION, ToolDriver
from gate.driving import body, records
from remit.core.call import MUTATION_CLASSES
from remit.tools.coordination import COORDINATION_TOOLS
from remit_agent.session.offer import TOOLS, AgentToolbox, choose_edit_tools
from remit_agent.session.run import Toolbox
from remit_agent.tools.asking import NOBODY_THERE
from remit_agent.tools.tool import HostTool, ToolFailure

EDITS = {"edit", "edit_file", "search_replace", "apply_diff", "apply_patch", "write_to_file", "generate_image"}


@pytest.fixture
def driver(repository: Path, home: Path) -> ToolDriver:
    return ToolDriver(repository, home)


@pytest.fixture
def toolbox(driver: ToolDriver) -> Toolbox:
    return AgentToolbox(driver.gate)


MODELS = {
    "anthropic:claude-sonnet-5-5": {"edit", "write_to_file"},
    "bedrock:anthropic.claude-x": {"edit", "write_to_file"},
    "openai:gpt-5.5": {"apply_patch", "write_to_file"},
    "openai-chat:gpt-5.5": {"apply_patch", "write_to_file"},
    "google:gemini-3": {"apply_diff", "write_to_file"},
    "ollama:qwen": {"apply_diff", "write_to_file"},
}


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_offered_the_edit_tools_that_suit_it(toolbox: Toolbox, model: str) -> None:
    offered = {schema.name for schema in toolbox.list_schemas("code", model)}
    assert offered & EDITS == MODELS[model]
    assert offered - EDITS == TOOLS.keys() - EDITS - COORDINATION_TOOLS.keys()


def test_a_person_may_choose_the_edit_tools(driver: ToolDriver) -> None:
    assert choose_edit_tools("openai:gpt-5.5", ("search_replace",)) == ("search_replace",)
    schemas = AgentToolbox(driver.gate, edit_tools=("search_replace",)).list_schemas("code", "openai:gpt-5.5")
    assert {schema.name for schema in schemas} & EDITS == {"search_replace"}


def test_a_mode_is_offered_its_groups_only(toolbox: Toolbox) -> None:
    ask = {schema.name for schema in toolbox.list_schemas("ask", "anthropic:x")}
    assert not ask & (EDITS | {"execute_command", "select_active_intent"})
    assert {"read_file", "attempt_completion", "switch_mode"} <= ask
    assert not toolbox.is_offered(TOOLS["apply_diff"], "ask")
    assert toolbox.is_offered(TOOLS["apply_diff"], "code")
    assert toolbox.is_wider_mode("code", "ask")
    assert not toolbox.has_mode("none")


def test_a_mode_whose_expression_no_glob_says_changes_no_file(driver: ToolDriver) -> None:
    mode = "slug: odd\nroleDefinition: x\ngroups: [read, [edit, {fileRegex: ^(?!a).*$}]]\n"
    (driver.root / ".roomodes").write_text(mode)
    paths = AgentToolbox(driver.gate).list_writable_paths("odd")
    assert paths is not None
    driver.gate.narrow(SESSION, paths)
    for name in ("src/app.py", ".git/config", "a.md"):
        done = driver.perform(TOOLS["write_to_file"], path=name, content="x")
        assert done.violation is not None


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_a_schema_is_strict_and_its_description_has_an_example_that_fits(tool: HostTool) -> None:
    schema = tool.schema
    jsonschema.Draft202012Validator.check_schema(schema.schema)
    assert schema.schema["additionalProperties"] is False
    assert schema.description
    if tool.group != "intent":
        _, _, example = schema.description.partition("Example:")
        jsonschema.validate(msgspec.json.decode(example.strip()), schema.schema)


def test_write_tools_cite_an_intent_where_the_workspace_is_governed(driver: ToolDriver) -> None:
    toolbox = AgentToolbox(driver.gate)
    schemas = {schema.name: schema.schema for schema in toolbox.list_schemas("code", "anthropic:x")}
    assert {"intent_id", "mutation_class"} <= set(schemas["edit"]["required"])
    assert schemas["edit"]["properties"]["mutation_class"] == {"enum": list(MUTATION_CLASSES)}
    assert "intent_id" not in schemas["read_file"]["properties"]
    toolbox.governed = None
    free = {schema.name: schema.schema for schema in toolbox.list_schemas("code", "anthropic:x")}
    assert "intent_id" not in free["edit"]["properties"]
    assert "select_active_intent" not in free


def test_the_schemas_of_a_model_stay_small(toolbox: Toolbox) -> None:
    size = len(msgspec.json.encode(toolbox.list_schemas("code", "anthropic:x")))
    assert size < 20_000


# --- tools without an effect on files ---------------------------------------------------------------------

QUESTION: dict[str, Any] = {"question": "Which?", "follow_up": [{"text": "A"}, {"text": "B", "mode": "architect"}]}


def test_a_question_is_answered_by_the_person_or_nobody(driver: ToolDriver) -> None:
    assert driver.run(TOOLS["ask_followup_question"], **QUESTION) == NOBODY_THERE
    driver.person.answers = {"ask_person": "something else"}
    assert driver.run(TOOLS["ask_followup_question"], **QUESTION) == "something else"
    driver.person.answers = {"ask_person": "B", "switch_mode": "now architect"}
    assert driver.run(TOOLS["ask_followup_question"], **QUESTION) == "B\nnow architect"


def test_completion_modes_and_children_are_asked_of_the_run(driver: ToolDriver) -> None:
    driver.person.answers = {"finish": "done", "switch_mode": "code", "start_child": "made"}
    assert driver.run(TOOLS["attempt_completion"], result="x") == "done"
    assert driver.run(TOOLS["switch_mode"], mode_slug="code") == "code"
    assert driver.run(TOOLS["new_task"], mode="code", message="do", scope=["src/**"]) == "made"
    assert driver.person.asked[-1] == ("start_child", "code", "do", None, ("src/**",))
    driver.person.answers = {"finish": ToolFailure("NOT_VERIFIED", "a criterion failed")}
    assert driver.fail(TOOLS["attempt_completion"], result="x").error_type == "NOT_VERIFIED"
    assert all(TOOLS[name].ends_turn for name in ("attempt_completion", "switch_mode", "new_task"))
    assert TOOLS["new_task"].alone


def test_guides_are_fetched_with_their_arguments(driver: ToolDriver) -> None:
    folder = driver.root / ".orchestration"
    (folder / "commands").mkdir()
    (folder / "commands" / "review.md").write_text("---\ndescription: d\n---\nReview $ARGUMENTS now.")
    (folder / "skills" / "release").mkdir(parents=True)
    (folder / "skills" / "release" / "SKILL.md").write_text("Do it.")
    (folder / "skills" / "release" / "tag.sh").write_text("git tag")
    assert "Review src now." in driver.run(TOOLS["run_slash_command"], command="/review", args="src")
    text = driver.run(TOOLS["skill"], skill="release", args="1.0")
    assert "Do it.\n\nArguments: 1.0" in text
    assert "tag.sh" in text
    failure = driver.fail(TOOLS["skill"], skill="relaese")
    assert failure.error_type == "NO_SUCH_GUIDE"
    assert "release" in str(failure)


def test_the_tools_for_intents_are_those_of_the_catalogue(driver: ToolDriver) -> None:
    text = driver.run(TOOLS["list_active_intents"])
    assert "Active in this session: INT-001" in text
    done = driver.perform(TOOLS["select_active_intent"], intent_id="INT-9")
    assert done.output is not None
    assert (done.output.ok, done.output.data["error_type"]) == (False, "INVALID_INTENT_ID")
    assert body(records(driver.root, "tool_use")[-1])["call"]["name"] == "select_active_intent"


PROPOSAL: dict[str, Any] = {"name": "More", "owned_scope": ["docs/**"], "reason": "it needs docs"}


@pytest.mark.parametrize("answer", ["Yes", "No", "not now", None])
def test_a_proposed_intent_is_asked_about_in_the_run(driver: ToolDriver, answer: str | None) -> None:
    driver.person.answers = {"ask_person": answer}
    done = driver.perform(TOOLS["propose_intent"], **PROPOSAL)
    assert done.output is not None
    assert done.output.ok == (answer == "Yes")
    if answer not in ("Yes", "No"):
        assert ("not now" in done.output.text) == (answer is not None)
    assert (len(driver.gate.intents.document.intents) == 2) == (answer == "Yes")
