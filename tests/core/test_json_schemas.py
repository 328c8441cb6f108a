"""The schemas of the public shapes are schemas."""

import pytest
from jsonschema import Draft202012Validator

from remit.core.formats.json_schemas import SCHEMAS, build_schema


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_schema_is_valid_under_2020_12(name: str) -> None:
    Draft202012Validator.check_schema(build_schema(name))


def test_the_schema_of_a_configuration_takes_one_and_refuses_a_typo() -> None:
    validator = Draft202012Validator(build_schema("config"))
    assert validator.is_valid({"mode": "enforce", "redact": {"patterns": ["x"]}})
    assert not validator.is_valid({"mood": "enforce"})


def test_the_schema_of_an_intents_file_takes_text_and_mappings() -> None:
    validator = Draft202012Validator(build_schema("intents-file"))
    intent = {"id": "INT-001", "owned_scope": ["src/**"], "constraints": ["c", {"type": "x"}], "status": "PENDING"}
    assert validator.is_valid({"version": "1.0", "active_intents": [intent]})
    assert not validator.is_valid({"active_intents": [{**intent, "owned_scope": []}]})
    assert not validator.is_valid({"active_intents": [{**intent, "id": "x"}]})
