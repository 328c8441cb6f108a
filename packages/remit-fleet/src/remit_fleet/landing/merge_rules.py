"""Rules of landing: each path in its attempt's write set, no conflict markers, no line lost by a merge. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.scope.path_patterns import Scope

FaultKind: TypeAlias = Literal[
    "unknown", "governing", "outside_scope", "not_a_file", "bounds", "markers", "conflict", "lost_line", "red",
    "commons", "untrusted", "red_target", "flaky", "remote", "checked_out",
]  # fmt: skip
MARKER_PAIR = (b"<<<<<<< ", b">>>>>>> ")
LINK_MODES = ("100644", "100755", "120000")
EMPTY_MODE = "000000"

IsGreen: TypeAlias = Callable[[Sequence[str]], bool]
FindCulprit: TypeAlias = Callable[[Sequence[str], IsGreen], tuple[str, str]]
"""Returns the member of a red train that goes back, and the earlier one with which it fails; "" if it fails alone."""


class LandingFault(Struct, frozen=True):
    """Reason of a failed member. `partner` is the member with which the combination fails, if known."""

    intent: str
    kind: FaultKind
    why: str
    paths: tuple[str, ...] = ()
    partner: str = ""


def find_path_fault(
    intent: str, modes: Mapping[str, str], sets: Iterable[tuple[str, ...]], governing: Callable[[str], bool]
) -> LandingFault | None:
    """Return why the changed paths must not land. `modes` maps each path to its new mode; each path has to match each
    of the `sets`.
    """
    if found := tuple(path for path in modes if governing(path)):
        return LandingFault(intent, "governing", f"{found[0]!r} governs agents: only people change it", found)
    scopes = [Scope(patterns) for patterns in sets]
    if found := tuple(path for path in modes if not all(scope.matches(path) for scope in scopes)):
        why = f"{found[0]!r} is not in the write set of {intent}: `remit intent edit {intent} --add-scope …` widens it"
        return LandingFault(intent, "outside_scope", f"{why}, `remit task retry {intent}` has it done anew", found)
    if found := tuple(path for path, mode in modes.items() if mode not in (*LINK_MODES, EMPTY_MODE)):
        return LandingFault(
            intent, "not_a_file", f"{found[0]!r} is a repository in the repository: a person commits it", found
        )
    return None


def has_new_markers(before: bytes, after: bytes) -> bool:
    """Return whether a content has gained conflict markers, of both sides."""
    return all(count_lines_with(after, mark) > count_lines_with(before, mark) for mark in MARKER_PAIR)


def count_lines_with(content: bytes, start: bytes) -> int:
    return content.count(b"\n" + start) + content.startswith(start)


def find_lost_line(
    base: Iterable[bytes], ours: Iterable[bytes], theirs: Iterable[bytes], merged: Iterable[bytes]
) -> bytes | None:
    """Return a line added by a side and lost by the merge; None if the merge is complete (law L6).

    Each argument holds the contents of the same files in one state. A line added by both sides may appear once.
    """
    old, one, other, result = (count_each_line(contents) for contents in (base, ours, theirs, merged))
    for line in one.keys() | other.keys():
        gained, also = one[line] - old[line], other[line] - old[line]
        if max(gained, also) > 0:
            shared = min(gained, also) if min(gained, also) > 0 else 0
            if result[line] < old[line] + gained + also - shared:
                return line
    return None


def count_each_line(contents: Iterable[bytes]) -> Counter[bytes]:
    counts: Counter[bytes] = Counter()
    for content in contents:
        counts.update(line.removesuffix(b"\r") for line in content.split(b"\n"))
    return counts
