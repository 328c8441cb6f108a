"""Settings that the grammar reads and JSON does not: they are refused as no JSON, and never break anything."""

import pytest

from remit.wiring.hook_client import is_own_handler
from remit.wiring.json_merge import NotJson, merge_json


@pytest.mark.parametrize("text", ['{"a\\ud\\ude00": "/*"}', '{"hooks": {"\\u12": []}}'])
def test_text_that_only_looks_like_json_is_told(text: str) -> None:
    with pytest.raises(NotJson, match="something is wrong at line 1"):
        merge_json(text, {"hooks": {"PreToolUse": [1]}}, is_own_handler)
