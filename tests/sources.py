"""The sources of all packages of this repository, for tests that read them."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
REMIT = ROOT / "src" / "remit"
PACKAGES = (REMIT, *sorted(ROOT.glob("packages/*/src/remit_*")))


def list_modules() -> Iterator[Path]:
    """Yield the modules of all packages."""
    for package in PACKAGES:
        yield from sorted(package.rglob("*.py"))


def find_source(name: str) -> Path:
    """Return the file of a module, named from its room on, as in `gate/enforce.py` or `remit_fleet/board.py`."""
    package = next((package for package in PACKAGES if name.partition("/")[0] == package.name), None)
    return package.parent / name if package else REMIT / name


def name_source(path: Path) -> str:
    """Return the name of a module's file, from its room on."""
    package = next(package for package in PACKAGES if path.is_relative_to(package))
    return path.relative_to(REMIT if package == REMIT else package.parent).as_posix()
