"""What going back to a snapshot would do to each file. Pure."""

from collections.abc import Collection, Iterable

from msgspec import Struct

from remit.workspace.snapshots import Entry, Listing, parents


class Plan(Struct, frozen=True):
    """`write` gets the snapshot's files, `delete` goes, `stay` came later and is not touched, `left` is not restorable.

    All that is overwritten or deleted must be in the snapshot of the present that is taken before.
    """

    write: dict[str, Entry] = {}
    delete: tuple[str, ...] = ()
    stay: tuple[str, ...] = ()
    left: dict[str, str] = {}

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.write and not self.delete


class Present(Struct, frozen=True):
    """What is there now. `hidden` are files that git is told to overlook and that are not on disk."""

    files: Listing
    tracked: Collection[str] = frozenset()
    hidden: Collection[str] = frozenset()


def planned(
    then: Listing,
    present: Present,
    *,
    left: dict[str, str],
    overlooked: Collection[str] = frozenset(),
    made: Listing | None = None,
    only: Collection[str] = (),
) -> Plan:
    """The plan. `made` is what an earlier restore had put there: undoing it takes its files away again.

    Files that came later stay, unless git tracks them, or they stand where a file of the snapshot has to.
    """
    now = {path: entry for path, entry in present.files.items() if path not in present.hidden}
    wanted = {p: e for p, e in then.items() if p in now or p not in present.hidden or p in overlooked}
    write = {p: e for p, e in wanted.items() if p not in left and chosen(p, only) and not e.same(now.get(p))}
    later = [p for p in now if p not in then and p not in left]
    blocking = in_the_way(write, later)
    delete = {p for p in later if p in blocking or (chosen(p, only) and ours(p, present, now[p], made))}
    stay = (p for p in later if p not in delete and chosen(p, only))
    return Plan(write, tuple(sorted(delete)), tuple(sorted(stay)), {p: w for p, w in left.items() if chosen(p, only)})


def ours(path: str, present: Present, entry: Entry, made: Listing | None) -> bool:
    """Whether a later file is git's, or an earlier restore put it there."""
    return path in present.tracked or (made is not None and entry.same(made.get(path)))


def in_the_way(write: Iterable[str], later: Collection[str]) -> set[str]:
    """The later files that stand where a folder must be, or below a folder that must become a file."""
    files = set(write)
    folders = {above for path in files for above in parents(path)}
    return {p for p in later if p in folders or any(above in files for above in parents(p))}


def chosen(path: str, only: Collection[str]) -> bool:
    """Whether the path is one of those asked for, or below one; all are where none is named."""
    return not only or path in only or any(above in only for above in parents(path))
