"""Law 6: writing an agent's settings twice equals once, and taking them out restores the bytes."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, cast

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from remit.adapters import server_settings, settings
from remit.core.agents import ROWS
from remit.wiring.hook_client import is_own_handler
from remit.wiring.json_merge import decode_node, merge_json, parse_root, unmerge_json
from remit.wiring.manifest import Insertions, SettingsConflict, contains_settings, object_or_none
from remit.wiring.toml_merge import Tables, merge_toml, parse_toml, unmerge_toml
from remit.wiring.wire import split_tables

CLIENT = "/usr/bin/python3 -I -S -E '/home/Zoë Q/.local/share/remit/bin/hook.py'"
SERVER = ("/opt/re mit/bin/remit", "mcp")
AGENTS = sorted(ROWS)

SPACE = st.sampled_from(["", " ", "\n", "\r\n", "\t", "\n\n  ", ' // a, "b" }\n', "/* ], */", "\n// ü\r\n\t"])
STRINGS = st.sampled_from(["", "a", "ü", "🦊", "x // y", 'q"\\', "/*", "a\nb", "\x7f", "mcp__other", "\ufeff"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), STRINGS)
HANDLER = st.fixed_dictionaries({"type": st.just("command"), "command": STRINGS, "timeout": st.integers(1, 99)})
GROUP = st.fixed_dictionaries({"matcher": STRINGS, "hooks": st.lists(HANDLER, max_size=2)})
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3), max_leaves=5
)
EVENTS = sorted({event for row in ROWS.values() for event in row.events})
KNOWN: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "hooks": st.dictionaries(st.sampled_from([*EVENTS, "Other"]), st.lists(GROUP, max_size=2), max_size=3),
        "permissions": st.fixed_dictionaries({}, optional={"allow": st.lists(STRINGS, max_size=2), "deny": VALUES}),
        "mcpServers": st.dictionaries(st.sampled_from(["notes", "ü"]), VALUES, max_size=2),
        "hooksConfig": st.fixed_dictionaries({"enabled": st.booleans()}),
    },
)


def joined(known: dict[str, Any], other: dict[str, Any], first: bool) -> dict[str, Any]:
    """Settings that we know and others, in either order."""
    return {**known, **other} if first else {**other, **known}


OTHERS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(STRINGS, VALUES, max_size=3)
DOCUMENTS = st.builds(joined, KNOWN, OTHERS, st.booleans())


def text_of(space: Callable[[], str], odd: Callable[[], bool], value: Any) -> str:
    """The value as somebody may have written it."""
    if not isinstance(value, dict | list):
        return space() + json.dumps(value, ensure_ascii=odd()) + space()
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        parts = [f"{space()}{json.dumps(k)}{space()}:{text_of(space, odd, v)}" for k, v in members]
    else:
        parts = [text_of(space, odd, item) for item in cast("list[Any]", value)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    trailing = space() if not parts else "," if odd() else ""
    return space() + opening + ",".join(parts) + trailing + space() + closing + space()


def odd_text(draw: Callable[[st.SearchStrategy[Any]], Any], value: Any) -> str:
    """The value in a text of random spaces, comments and trailing commas."""
    return text_of(lambda: draw(SPACE), lambda: draw(st.booleans()), value)


@st.composite
def odd_json(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A document, and an odd text of it."""
    value: dict[str, Any] = draw(DOCUMENTS)
    style = draw(st.sampled_from(["odd", "2", "4", "tab", "crlf", "compact"]))
    if style == "odd":
        text = odd_text(draw, value)
    elif style == "compact":
        text = json.dumps(value, separators=(",", ":"))
    else:
        text = json.dumps(value, indent={"2": 2, "4": 4}.get(style, "\t"), ensure_ascii=False)
        text = text.replace("\n", "\r\n") if style == "crlf" else text
    return value, draw(st.sampled_from(["", "\ufeff"])) + text + draw(st.sampled_from(["", "\n"]))


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, Any]:
    """What some agent needs in a JSON file."""
    agent = draw(st.sampled_from(AGENTS))
    wanted: dict[str, Any] = settings(agent, CLIENT)
    if ROWS[agent].mcp_file.endswith(".json") and draw(st.booleans()):
        wanted |= server_settings(agent, SERVER)
    return wanted


def merged(text: str, wanted: dict[str, Any]) -> tuple[str, Insertions]:
    """The merge; a document that cannot hold what is wanted is none for these laws."""
    try:
        return merge_json(text, wanted, is_own_handler)
    except SettingsConflict:
        assume(False)
        raise


def value_of(text: str) -> Any:
    """What a text says."""
    root = parse_root(text.encode())
    return decode_node(root) if root else {}


@given(odd_json(), wishes())
def test_wired_and_unwired_is_the_same_bytes(document: tuple[dict[str, Any], str], wanted: dict[str, Any]) -> None:
    value, text = document
    assert value_of(text) == value
    wired, insertions = merged(text, wanted)
    assert contains_settings(value_of(wired), wanted)
    assert contains_settings(value_of(wired), {k: v for k, v in value.items() if k != "hooksConfig"})
    assert unmerge_json(wired, insertions) == text


@given(odd_json(), wishes())
def test_twice_is_once(document: tuple[dict[str, Any], str], wanted: dict[str, Any]) -> None:
    wired, _ = merged(document[1], wanted)
    again, insertions = merge_json(wired, wanted, is_own_handler)
    assert again == wired
    assert (insertions.edits, insertions.entries) == ((), ())


@given(odd_json(), wishes())
@example(({}, "{\n}"), settings("codex", CLIENT))
def test_an_agent_that_rewrites_its_settings_costs_nothing_but_its_rewriting(
    document: tuple[dict[str, Any], str], wanted: dict[str, Any]
) -> None:
    value, text = document
    wired, insertions = merged(text, wanted)
    rewritten = json.dumps(value_of(wired), indent=2, ensure_ascii=False)
    assert merge_json(rewritten, wanted, is_own_handler)[0] == rewritten
    # What the agent writes may be what is there already: then the first text comes back, such as braces on two lines.
    expected = text if rewritten == wired else json.dumps(value, indent=2, ensure_ascii=False)
    assert unmerge_json(rewritten, insertions) == expected


@given(odd_json(), wishes(), GROUP, VALUES, st.data())
def test_what_others_write_meanwhile_stays(
    document: tuple[dict[str, Any], str], wanted: dict[str, Any], group: Any, other: Any, data: st.DataObject
) -> None:
    value, text = document
    wired, insertions = merged(text, wanted)
    event = data.draw(st.sampled_from(sorted(wanted["hooks"])))
    first = data.draw(st.booleans())

    def edited(settings: dict[str, Any]) -> dict[str, Any]:
        changed = deepcopy(settings)
        groups = changed.setdefault("hooks", {}).setdefault(event, [])
        groups.insert(0 if first else len(groups), group)
        changed["theirs"] = other
        return changed

    rewritten = odd_text(data.draw, edited(value_of(wired))) if data.draw(st.booleans()) else None
    rewritten = rewritten or json.dumps(edited(value_of(wired)))
    assert value_of(unmerge_json(rewritten, insertions)) == edited(value)


@given(odd_json(), wishes())
def test_an_outdated_entry_is_replaced(document: tuple[dict[str, Any], str], wanted: dict[str, Any]) -> None:
    old = json.loads(json.dumps(wanted).replace("/home/Zoë Q", "/old").replace("/home/Zo\\u00eb Q", "/old"))
    before, _ = merged(document[1], old)
    after, insertions = merge_json(before, wanted, is_own_handler)
    assert "/old/" not in after
    assert contains_settings(value_of(after), wanted)
    left = value_of(unmerge_json(after, insertions))
    assert "/remit/bin/" not in json.dumps(left)


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "// nothing yet", "/* a */\n"])
@pytest.mark.parametrize("agent", AGENTS)
def test_a_file_with_nothing_in_it_gets_a_document_and_loses_it_again(text: str, agent: str) -> None:
    wired, insertions = merge_json(text, settings(agent, CLIENT), is_own_handler)
    assert contains_settings(value_of(wired), settings(agent, CLIENT))
    assert unmerge_json(wired, insertions) == text
    assert unmerge_json(json.dumps(value_of(wired)), insertions) == ""


# --- TOML --------------------------------------------------------------------------------------------------

LINES = st.sampled_from(
    [
        "",
        "# [mcp_servers.remit]",
        "   ",
        "# ü",
        'model = "x" # [a]',
        "\tn = 1",
        'many = """\n[mcp_servers.remit]\n"""',
        "list = [\n  1,\n  2,\n]",
    ]
)
HEADERS = st.sampled_from(
    [
        "[features]",
        "[mcp_servers.notes]",
        "[ mcp_servers . 'ü' ]",
        "[[rules]]",
        '[projects."/a b"]',
        "[hooks.state.'/x:pre:0:0']",
        "[mcp_servers]",
    ]
)


@st.composite
def odd_toml(draw: st.DrawFn) -> str:
    """A TOML document with odd lines; keys are made unique by their section."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    sections = [draw(st.lists(LINES, max_size=3, unique=True))]
    for header in draw(st.lists(HEADERS, max_size=4, unique=True)):
        sections.append([header, *draw(st.lists(LINES, max_size=3, unique=True))])
    text = newline.join(line.replace("\n", newline) for section in sections for line in section)
    return draw(st.sampled_from(["", "\ufeff"])) + text + draw(st.sampled_from(["", newline, newline * 3]))


def toml_wishes(program: str = SERVER[0]) -> Tables:
    """What Codex needs: its server, and trust in one hook."""
    wanted = split_tables(server_settings("codex", (program, "mcp")))
    hook = ("hooks", "state", "/home/Zoë Q/.codex/hooks.json:pre_tool_use:0:0")
    return {**wanted, hook: {"trusted_hash": f"sha256:{program}"}}


@given(odd_toml())
def test_toml_is_wired_once_and_unwired_to_the_same_bytes(text: str) -> None:
    before = parse_toml(text)
    wired, insertions = merge_toml(text, toml_wishes())
    assert merge_toml(wired, toml_wishes())[0] == wired
    assert contains_settings(parse_toml(wired), before)
    assert unmerge_toml(wired, insertions) == text


@given(odd_toml(), st.sampled_from(["[theirs]\nk = 1\n", '[projects."/b"]\ntrust_level = "trusted"\n', "# end"]))
def test_toml_tables_that_others_add_stay(text: str, added: str) -> None:
    wired, insertions = merge_toml(text, toml_wishes())
    left = unmerge_toml(wired + added, insertions)
    assert trimmed(parse_toml(left)) == trimmed(parse_toml(text + "\n" + added))


@given(odd_toml())
def test_an_outdated_toml_table_is_replaced(text: str) -> None:
    wired, _ = merge_toml(text, toml_wishes("/old/remit"))
    after, insertions = merge_toml(wired, toml_wishes())
    assert "/old/" not in after
    assert trimmed(parse_toml(unmerge_toml(after, insertions))) == trimmed(parse_toml(text))


def trimmed(document: Mapping[str, object]) -> dict[str, object]:
    """The document without empty tables: TOML says the same with and without them."""
    kept: dict[str, object] = {}
    for key, value in document.items():
        below = object_or_none(value)
        kept[key] = value if below is None else trimmed(below)
    return {key: value for key, value in kept.items() if value != {}}
