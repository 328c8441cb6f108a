"""Switches in agents' settings and in the environment under which an agent runs no hooks: Remit is never asked then."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from remit.core.agents import ROWS
from remit.core.agents.row import HookSwitches
from remit.core.machine_paths import CLIENT_PATH
from remit.core.untrusted_input import as_array, as_object, sanitise_line
from remit.wiring.agents import SettingsPlace
from remit.wiring.json_merge import NotJson, decode_document
from remit.wiring.manifest import JsonObject, Manifest
from remit.wiring.toml_merge import NotToml, parse_toml
from remit.wiring.wire import display_path
from remit.workspace.agents.read_write_settings import UNREADABLE_RULES, read_rule_files


class HookSwitch(Struct, frozen=True):
    """A setting under which an agent skips Remit's hooks. `place` is a file as people read it, or the environment."""

    agent: str
    setting: str
    place: str

    def __str__(self) -> str:
        title = ROWS[self.agent].title
        return f"hooks are switched off: {title} runs none, by {sanitise_line(self.setting, 120)} in {self.place}"


def list_wired_agents(manifest: Manifest) -> list[str]:
    return list(dict.fromkeys(agent for file in manifest.files for agent in file.agents))


def find_hook_switches(
    agents: Iterable[str],
    user: SettingsPlace,
    root: Path | None,
    variables: Mapping[str, str],
    machine: Path = Path("/"),
) -> list[HookSwitch]:
    """Return the switches that keep these agents from running Remit's hooks; `machine` is where `/etc` lies. A file
    that cannot be read tells nothing here: what is wired has a check of its own.
    """
    found: list[HookSwitch] = []
    for agent in agents:
        row = ROWS[agent].switches
        found += [
            HookSwitch(agent, f"{name}={variables[name]}", "the environment")
            for name in row.variables
            if is_set(variables.get(name, ""))
        ]
        for path, is_managed, content in read_files(agent, row, user, root, variables, machine):
            document = decode_settings(path, content)
            place = display_path(Path(path), user.home)
            found += [HookSwitch(agent, setting, place) for setting in list_set(row, document, is_managed)]
    return found


def read_files(
    agent: str, row: HookSwitches, user: SettingsPlace, root: Path | None, variables: Mapping[str, str], machine: Path
) -> Iterator[tuple[str, bool, bytes]]:
    """Yield path, whether it is machine-wide, and content of each file that may hold a switch."""
    folder = user.moved_folders.get(agent) or user.home / ROWS[agent].config_folder
    for name in (*row.files, *(variables[name] for name in row.file_variables if variables.get(name))):
        if name.startswith("~/"):
            pattern = f"{folder}/{name[2:]}"
        elif name.startswith("./"):
            pattern = f"{root}/{name[2:]}"
        else:
            pattern = f"{machine}/{name.lstrip('/')}" if name in row.files else name
        if name.startswith("./") and root is None:
            continue
        for path, content in read_rule_files([pattern]):
            yield path, not name.startswith(("~/", "./")), content


def decode_settings(path: str, content: bytes) -> JsonObject:
    if content == UNREADABLE_RULES:
        return {}
    try:
        return parse_toml(content.decode()) if path.endswith(".toml") else decode_document(content)
    except (NotToml, NotJson, UnicodeDecodeError):
        return {}


def list_set(row: HookSwitches, document: JsonObject, is_managed: bool) -> Iterator[str]:
    for name, off in (*row.switches, *(row.managed if is_managed else ())):
        if find_setting(document, name) is off:
            yield f"{name} = {str(off).lower()}"
    for name in row.listed:
        listed = [entry for entry in as_array(find_setting(document, name)) if isinstance(entry, str)]
        if any(CLIENT_PATH in entry or entry in ("remit", "hooks") for entry in listed):
            yield f"{name} = {listed}"
    for name, value in as_object(document.get("env")).items():
        if name in row.variables and is_set(str(value)):
            yield f"env.{name} = {value}"


def find_setting(document: JsonObject, name: str) -> object:
    """Return the value of a dotted key; None where it is absent."""
    value: object = document
    for part in name.split("."):
        value = as_object(value).get(part)
    return value


def is_set(value: str) -> bool:
    return value.strip().lower() not in ("", "0", "false", "no", "off")
