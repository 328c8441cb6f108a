"""The cases of `fuzz.py`: for each area an endless row of them, drawn from a seed; each with what must hold of it."""

import json
import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, TypeAlias, cast

from remit.adapters import AdapterError, HookReply, server_settings, settings
from remit.cli.policy.policy import PolicyQuery, judge_query
from remit.core.agents import ROWS
from remit.core.call import SessionKey
from remit.core.scope.path_patterns import InvalidPath
from remit.gate.gate import Gate
from remit.policy.commands import analyse
from remit.servers.hook import EventClass, HookFrame, answer_event, open_fresh_gate
from remit.wiring.hook_client import is_own_handler
from remit.wiring.json_merge import NotJson, merge_json, unmerge_json
from remit.wiring.manifest import SettingsConflict
from remit.wiring.toml_merge import NotToml, find_value, merge_toml, parse_toml, unmerge_toml
from remit.wiring.wire import split_tables
from remit.workspace.place.resolve_paths import MachinePlaces, resolve_real_paths, resolve_target

TESTS = Path(__file__).parent.parent / "tests"
INTENT = "INT-001"
"""It owns `src/**`."""

Case: TypeAlias = tuple[Any, Callable[[], str | None]]
"""What is tried, as JSON can hold it, and the trial: it answers what does not hold, and raises what should not be."""

PIECES = (
    *"'\"`){}\\\n\0\u0301\ud800*[~;|><(#\x01\x02\u00a0\U0001f600=-@%\r\x7f\u202e",
    *("$(", "<<E", "$x", "&&", "--", "${", "((", "[[", "$'", ">&"),
)


def mutated(draw: random.Random, text: str) -> str:
    """The text with a few pieces put in, taken out, doubled or turned round."""
    for _ in range(draw.randint(1, 4)):
        start = draw.randint(0, len(text))
        end = min(len(text), start + draw.randint(0, 6))
        old = text[start:end]
        piece = draw.choice((draw.choice(PIECES), "", old * 2, old[::-1], chr(draw.randint(0, 0x3000))))
        text = text[:start] + piece + text[end:]
    return text


# Commands

BEHIND = (
    *(";true", " && true", " || true", " | cat", " &", "\n", "\ntrue", " # x", " # '", ";", "   ", "\t", " >/dev/null"),
    *(" 2>&1", " <<'E'\nx\nE", " <<E\n$(true)\nE", " && echo", "; echo '", ' && echo "', "\n#", "\\\n", " </dev/null"),
    *(" && cd src", "; x=(1 2)", "\n\n\n", "; # \u202e", " ;; ", " `true`;", "\r", "; exit", "; }", ")", "; fi"),
)
BEFORE = (
    *("true; ", "true && ", "false || ", " ", "\n", "\t", "x=1; ", "# x\n", ": ; ", "cd . && ", "time ", "! ", "\\\n"),
    *("set -e; ", "cat <<'E'\nx\nE\n", "echo '#'; ", "f() { true; }; ", "# '\n", "{ ", "( ", "if ", "LC_ALL=C "),
)
AROUND = (
    *("(%s\n)", "{ %s\n}", "if true; then %s\nfi", "for i in 1; do %s\ndone", "while %s\ndo break; done", "! %s"),
    *("case x in x) %s\n;; esac", "f() { %s\n}; f", "$(%s\n)", 'echo "$(%s\n)"', "cat <(%s\n)", "x=$(%s\n)"),
)
SHELLS = ("bash -c %s", "eval %s", "sh -c %s", "env bash -c %s", "timeout 5 bash -c %s", "bash -c 'eval '%s")


def commands(draw: random.Random, gate: Gate) -> Iterator[Case]:
    """A command of the corpora, changed anyhow; where it is refused, wrapped in junk."""
    files = sorted((TESTS / "policy" / "corpus").glob("*.jsonl"))
    texts = [json.loads(line)["cmd"] for file in files for line in file.read_bytes().splitlines() if line]
    known: dict[str, str] = {}
    while True:
        base = draw.choice(texts)
        if base not in known:
            known[base] = effect_of(gate, base)
        changed = mutated(draw, base)
        yield changed, partial(sound, changed)
        if known[base] in ("deny", "ask"):
            dressed = junk(draw, base)
            yield {"refused": base, "tried": dressed}, partial(still_refused, gate, dressed)


def effect_of(gate: Gate, command: str) -> str:
    """What is done about a command in enforce."""
    return str(judge_query(gate, PolicyQuery(command=command), SessionKey(""), INTENT)["effect"])


def junk(draw: random.Random, command: str) -> str:
    """The command with junk that leaves it to run all the same, or breaks the whole text."""
    for _ in range(draw.randint(1, 3)):
        match draw.randint(0, 4):
            case 0:
                command += draw.choice(BEHIND)
            case 1:
                command = draw.choice(BEFORE) + command
            case 2:
                command = draw.choice(AROUND).replace("%s", command)
            case 3:
                command = draw.choice(SHELLS).replace("%s", quote(command))
            case _:
                command = spaced(draw, command)
    return command


def spaced(draw: random.Random, command: str) -> str:
    """The command with more white space between two words, where none of it can be quoted."""
    gaps = [at for at, letter in enumerate(command) if letter == " "]
    if not gaps or any(mark in command for mark in "'\"#\n<\\"):
        return command
    at = draw.choice(gaps)
    return command[:at] + draw.choice((" ", "\t", "\\\n", " \\\n ")) + command[at:]


def sound(command: str) -> str | None:
    """The analysis says something that can be written down."""
    found = analyse(command)
    json.dumps([found.reasons, [write.path for write in found.writes or ()]]).encode()
    return "its writes are not told" if found.outcome == "literal_writes" and found.writes is None else None


def still_refused(gate: Gate, command: str) -> str | None:
    """No junk makes a refused command pass."""
    return "a refused command is let through" if effect_of(gate, command) == "allow" else None


# Paths

STEPS = (
    *(
        "src",
        "docs",
        "link",
        "far",
        "round",
        "..",
        ".",
        "",
        ".git",
        ".GIT",
        "config",
        "a.py",
        "A.PY",
        "\u00e9",
        "e\u0301",
    ),
    *("a\nb", "~", "x" * 300, "proc", "self", "root", "\u202e", "a b", "-rf", "$(x)", "*", "a\0b", "\udcff", "fifo"),
)
FORBIDDEN = ("docs/readme.md", ".git/config", ".orchestration/remit.toml", "../x", "far/y", "docs/new", "/dev/sda")


def paths(draw: random.Random, gate: Gate) -> Iterator[Case]:
    """Any path; and what a refused one is called otherwise."""
    root = gate.workspace.root
    for name, to in (("link", "src"), ("far", ".."), ("round", "round")):
        (root / name).symlink_to(to)
    os.mkfifo(root / "src" / "fifo")
    while True:
        steps = [draw.choice(STEPS) for _ in range(draw.randint(1, 6))]
        raw = draw.choice(("", "/", f"{root}/", "/proc/self/root", "/proc/self/cwd/", "~/")) + "/".join(steps)
        raw = mutated(draw, raw) if draw.random() < 0.3 else raw
        yield raw, partial(well_judged, gate, raw)
        other = draw.choice(FORBIDDEN).replace("/", draw.choice(("/", "//", "/./")))
        other = other if other.startswith("/") else "./" * draw.randint(0, 3) + other
        yield other, partial(refused_path, gate, other)


def well_judged(gate: Gate, raw: str) -> str | None:
    """A path is judged by where a write to it would land."""
    root, home = gate.workspace.root, gate.environment.home
    judge_query(gate, PolicyQuery(write=raw), SessionKey(""), INTENT)
    try:
        found = resolve_real_paths(raw, root, home)
    except InvalidPath:
        return None
    for real in found:
        inside = resolve_target(gate.workspace, real, raw, MachinePlaces(home, home / "tmp")).path is not None
        truly = os.path.realpath(real)
        if inside != (truly == str(root) or truly.startswith(f"{root}/")):
            return "a path is taken for another"
    return None


def refused_path(gate: Gate, raw: str) -> str | None:
    """However it is spelled, it is refused."""
    effect = judge_query(gate, PolicyQuery(write=raw), SessionKey(""), INTENT)["effect"]
    return "a refused path is let through" if effect == "allow" else None


# Settings

JSONS = (
    "",
    "{}",
    '// mine\n{\n  "hooks": {}, // x\n}\n',
    '{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": []}]}}',
    '\ufeff{"mcpServers": {"notes": {"command": "x", "args": ["a"]}}, "other": [1, 2.5e3, null, true]}\r\n',
    '{"permissions": {"allow": ["Bash(ls)"], "deny": []}, "a": "\\ud83d\\ude00", "b": "/*"}',
    "[]",
    "/* a */",
)
TOMLS = (
    "",
    'model = "x" # [a]\n',
    "[features]\nhooks = true\n\n[[rules]]\na = [\n 1,\n]\n",
    "\ufeff[mcp_servers.notes]\r\n",
    'many = """\n[mcp_servers.remit]\n"""\n',
    "[ mcp_servers . 'ü' ]\n",
    "[hooks.state.'/x:pre:0:0']\nk = 1",
)
CLIENT = "/usr/bin/python3 -I -S -E '/home/q/.local/share/remit/bin/hook.py'"
SERVER = ("/opt/remit/bin/remit", "mcp")


def settings_files(draw: random.Random, gate: Gate) -> Iterator[Case]:
    """A settings file of any agent, changed anyhow. It is bytes that are UTF-8: others are refused before."""
    while True:
        toml = draw.random() < 0.3
        texts = TOMLS if toml else JSONS
        text = draw.choice(texts)
        if draw.random() < 0.8:
            text = mutated(draw, text + draw.choice(("", *texts))).encode("utf-8", "replace").decode()
        agent = draw.choice(sorted(ROWS))
        yield [agent, text], partial(toml_comes_back, text) if toml else partial(json_comes_back, agent, text)


def json_comes_back(agent: str, text: str) -> str | None:
    """Merged twice is merged once, and taken out it is what it was."""
    wanted: dict[str, Any] = settings(agent, CLIENT)
    try:
        wired, insertions = merge_json(text, wanted, is_own_handler)
    except (SettingsConflict, NotJson):
        return None
    if merge_json(wired, wanted, is_own_handler)[0] != wired:
        return "merged twice it differs"
    return None if unmerge_json(wired, insertions) == text else "it does not come back"


def toml_comes_back(text: str) -> str | None:
    """The same for TOML, but for a table of our name that was there: it is replaced, and goes with ours."""
    wanted = {**split_tables(server_settings("codex", SERVER)), ("hooks", "state", "/x"): {"trusted_hash": "sha256:1"}}
    try:
        wired, insertions = merge_toml(text, wanted)
    except (SettingsConflict, NotToml):
        return None
    if merge_toml(wired, wanted)[0] != wired:
        return "merged twice it differs"
    replaced = any(find_value(parse_toml(text), name) is not None for name in wanted)
    return None if replaced or unmerge_toml(wired, insertions) == text else "it does not come back"


# Payloads

ODD: tuple[Any, ...] = (
    *(None, True, -1, 2**70, 1e308, "", "\ud800", "a\0b", "../../x", "x" * 9000),
    *json.loads('[[], {}, [[]], {"a": {}}]'),
)
EVENTS: tuple[EventClass | None, ...] = ("pre", "post", "note", None)


def payloads(draw: random.Random, gate: Gate) -> Iterator[Case]:
    """A captured payload, its bytes or its values changed; and one that is refused, with junk in it."""
    files = sorted((TESTS / "compat" / "payloads").glob("*/*.json"))
    captured = [(file.parent.name, file.read_bytes()) for file in files]
    found = [(agent, raw) for agent, raw in captured if agent in ROWS and b"hook_event_name" in raw]
    while True:
        agent, raw = draw.choice(found)
        event = draw.choice(EVENTS)
        if draw.random() < 0.5:
            changed = mutated(draw, raw.decode()).encode("utf-8", "surrogatepass")
        else:
            changed = json.dumps(distorted(draw, json.loads(raw))).encode()
        yield [agent, event, changed.decode("utf-8", "replace")], partial(answerable, gate, agent, event, changed)
        refused = dressed_payload(draw, gate, json.loads(raw), agent)
        if refused is not None:
            yield [agent, refused.decode()], partial(refused_payload, gate, agent, refused)


def distorted(draw: random.Random, value: object) -> object:
    """The document with some of its values replaced by others of any kind."""
    if draw.random() < 0.08:
        return draw.choice(ODD)
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return {key: distorted(draw, inner) for key, inner in pairs if draw.random() > 0.03}
    if isinstance(value, list):
        return [distorted(draw, inner) for inner in cast("list[object]", value) if draw.random() > 0.1]
    return mutated(draw, value) if isinstance(value, str) and draw.random() < 0.1 else value


def replied(gate: Gate, agent: str, event: EventClass | None, payload: bytes) -> HookReply | None:
    """The answer; None where it is no payload. What else is raised would be caught at the door, and is a finding."""
    try:
        return answer_event(
            payload, HookFrame(agent, str(gate.workspace.root), event), gate.environment, open_fresh_gate
        )
    except AdapterError:
        return None


def answerable(gate: Gate, agent: str, event: EventClass | None, payload: bytes) -> None:
    """There is an answer."""
    replied(gate, agent, event, payload)


def dressed_payload(draw: random.Random, gate: Gate, document: dict[str, Any], agent: str) -> bytes | None:
    """A write outside the scope, as this agent sends it, with keys that nobody knows; None for other payloads."""
    given = document.get("tool_input")
    if ROWS[agent].events.get(document["hook_event_name"]) != "before" or not isinstance(given, dict):
        return None
    if "file_path" not in given or "rite" not in document["tool_name"]:
        return None
    root = gate.workspace.root
    given = {**cast("dict[str, object]", given), "file_path": str(root / "docs" / "readme.md")}
    document = {**document, "cwd": str(root), "tool_input": given, "session_id": "fuzz"}
    for place in (document, given):
        for _ in range(draw.randint(0, 3)):
            key = mutated(draw, draw.choice(("allow", "decision", "permission", "continue")))
            place[f"{key}_"] = draw.choice(("allow", True, None, [1], "approve"))
    space = draw.choice(("", " ", "\n", "\t\r\n "))
    return (space + json.dumps(document) + space).encode()


def refused_payload(gate: Gate, agent: str, payload: bytes) -> str | None:
    """It is refused: by exit code, or in words."""
    reply = replied(gate, agent, "pre", payload)
    if reply is None or reply.exit_code or b"deny" in reply.stdout or b"block" in reply.stdout:
        return None
    return f"a refused payload is let through: {reply.stdout.decode()!r}"


AREAS = {"commands": commands, "paths": paths, "settings": settings_files, "payloads": payloads}
