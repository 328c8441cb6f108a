"""Companions of an intent as patterns: the tests and pages of its owned files."""

from collections.abc import Iterable, Iterator

from remit.core.decision import escape_pattern
from remit.core.intent import Intent
from remit.core.scope.file_roles import find_mirror, select_mirrored_files
from remit.core.scope.path_patterns import Scope


def list_companion_patterns(intent: Intent, files: Iterable[str]) -> Iterator[str]:
    """Yield a pattern for each tracked test and page that mirrors a file in the intent's scope."""
    scope = Scope(intent.owned_scope)
    by_stem: dict[str, list[str]] = {}
    files = tuple(files)
    for file in files:
        by_stem.setdefault(file.rpartition("/")[2].rpartition(".")[0], []).append(file)
    for file in files:
        mirror = find_mirror(file)
        subjects = select_mirrored_files(mirror, by_stem.get(mirror.name, ())) if mirror is not None else ()
        if any(map(scope.matches, subjects)) and not scope.matches(file):
            yield escape_pattern(file)
