"""Ways to say that a command stands elsewhere: by the call's folder, or by its text."""

from pathlib import Path

FOLDERS = {
    "temporary": "{home}/tmp",
    "home": "{home}",
    "root": "/",
    "free": "{home}/free",
    "link": "{home}/free/link",
    "other": "{home}/other",
    "process": "/proc/self/cwd",
}
TEXTS = {
    "cd": "cd {folder} && {command}",
    "pushd": "pushd {folder} >/dev/null; {command}",
    "subshell": "(cd {folder}; {command})",
    "env": "env -C {folder} {command}",
    "alias": "git -C {folder} -c alias.x='!{command}' x",
}


def fill(folder: str, home: Path) -> str:
    return folder.format(home=home)
