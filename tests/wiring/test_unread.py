"""What strict JSON has not, in settings: for it an agent may ignore the whole file."""

import pytest

from remit.wiring.json_merge import find_unusual_forms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{}", ""),
        ('{"a": "// no", "b": "/* no */, ]", "c": "\\",}"}', ""),
        ('{"a": [1, 2, ], }', "comma"),
        ('{"a": 1 /* , */ }', "comment"),
        ('{"a": 1, // last\n}', "comma comment"),
        ('\ufeff{"a": 1,}', "bom comma"),
    ],
)
def test_what_strict_json_has_not_is_found(text: str, found: str) -> None:
    assert find_unusual_forms(text.encode()) == set(found.split())
