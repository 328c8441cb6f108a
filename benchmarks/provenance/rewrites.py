"""Rewrites of a history in which two agents and a person wrote: what they leave must still be known.

Each function ends with the lines that must be there, and the world checks that they are.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from .code import Code
from .lines import PERSON, Line, written
from .tools import Session
from .world import INTENTS, World, author, digest

APP, NEW, OWN = "src/app.py", "src/new.py", "docs/own.py"

Lines = list[Line]
Files = dict[str, Lines]
Scenario = Callable[[World, Code], None]


def ai(session: Session, texts: Sequence[bytes]) -> Lines:
    return written(texts, author(session))


def snapshot(world: World) -> Files:
    return {path: list(lines) for path, lines in world.files.items()}


class History:
    """Four commits on a branch: `after[n]` are the files after the n-th, 0 is what was there before."""

    def __init__(self, world: World, code: Code, app: str = APP, new: str = NEW) -> None:
        self.world, self.code, self.app, self.new = world, code, app, new
        world.begin({app: code.blocks(6), OWN: code.blocks(2)})
        self.first = world.head()
        self.after = [snapshot(world)]
        self.one = world.session()
        self.two = world.session("codex", "INT-002")
        world.git("checkout", "-q", "-b", "feature")
        self.step(lambda: self.add(self.one, app, len(world.files[app])))
        self.step(self.both)
        self.step(lambda: self.add(self.two, app, len(self.after[0][app]) // 2))
        self.step(lambda: self.add(self.one, new, len(world.files[new])))
        world.stop(self.one)
        world.stop(self.two)

    def add(self, session: Session, path: str, at: int) -> None:
        """An agent puts a block there."""
        lines = self.world.files[path]
        how = "patch" if session.agent == "codex" else "edit"
        self.world.agent(session, path, [*lines[:at], *ai(session, self.code.block()), *lines[at:]], how)

    def both(self) -> None:
        """An agent makes a file, and a person adds to another."""
        self.world.agent(self.one, self.new, ai(self.one, self.code.blocks(2)), "write")
        self.world.person(OWN, [*self.world.files[OWN], *written(self.code.block(), PERSON)])

    def step(self, work: Callable[[], None]) -> None:
        work()
        self.world.commit(message=f"step {len(self.after)}")
        self.after.append(snapshot(self.world))

    def upstream(self, *, same_file: bool) -> Lines:
        """A person's commit on main, at the top of the same file or of another; then back. The lines that it added."""
        world = self.world
        world.git("checkout", "-q", "main")
        fresh = written(self.code.block(), PERSON)
        world.files = {path: list(lines) for path, lines in self.after[0].items()}
        path = self.app if same_file else OWN
        world.person(path, [*fresh, *world.files[path]])
        world.commit(message="upstream")
        self.top = snapshot(world)
        world.git("checkout", "-q", "feature")
        world.files = {path: list(lines) for path, lines in self.after[-1].items()}
        return fresh

    def on_top(self, fresh: Lines, path: str) -> Files:
        """The last files with the lines from upstream on top of one."""
        return {**self.after[-1], path: [*fresh, *self.after[-1][path]]}


def plain(work: Callable[[World, History], None]) -> Scenario:
    """A rewrite that leaves the contents as they were."""

    def run(world: World, code: Code) -> None:
        history = History(world, code)
        work(world, history)
        world.expect(history.after[-1])

    return run


def amend(world: World, _: History) -> None:
    world.git("commit", "-q", "--amend", "-m", "other words")


def sequence(world: World, script: str, *words: str, onto: str = "main") -> None:
    """An interactive rebase whose list `sed` edits."""
    world.git("rebase", "-q", "-i", *words, onto, GIT_SEQUENCE_EDITOR=f"sed -i -e '{script}'", GIT_EDITOR="true")


def squash_soft(world: World, history: History) -> None:
    world.git("reset", "-q", "--soft", history.first)
    world.git("commit", "-q", "-m", "all in one")


def reset_mixed(world: World, history: History) -> None:
    world.git("reset", "-q", "--mixed", history.first)
    world.git("add", "-A")
    world.git("commit", "-q", "-m", "all in one")


def split(world: World, history: History) -> None:
    """One commit becomes two, the first with half of a block: the files on disk stay as they are."""
    world.git("reset", "-q", "--soft", "HEAD~2")
    block = [line for line in history.after[3][APP] if line not in history.after[2][APP]]
    half = [line for line in history.after[3][APP] if line not in block[len(block) // 2 :]]
    world.known[APP, digest(world.data_of(APP, half))] = half
    part = world.root.parent / "part"
    part.write_bytes(world.data_of(APP, half))
    world.git("rm", "-q", "--cached", NEW)
    blob = world.git("hash-object", "-w", str(part))
    world.git("update-index", "--cacheinfo", f"100644,{blob},{APP}")
    world.git("commit", "-q", "-m", "first half")
    world.git("add", "-A")
    world.git("commit", "-q", "-m", "second half")


def plumbing(world: World, history: History) -> None:
    tree = world.git("rev-parse", "HEAD^{tree}")
    made = world.git("commit-tree", tree, "-p", history.first, "-m", "by hand")
    world.git("update-ref", "refs/heads/feature", made)


def filtered(*words: str) -> Callable[[World, History], None]:
    def work(world: World, _: History) -> None:
        world.git("filter-branch", "-f", *words, "--", "main..feature", FILTER_BRANCH_SQUELCH_WARNING="1")

    return work


def revert_twice(world: World, _: History) -> None:
    for _n in range(2):
        world.git("revert", "--no-edit", "HEAD")


def amend_content(world: World, code: Code) -> None:
    history = History(world, code)
    history.add(history.two, APP, 0)
    world.commit("--amend", message="step 4, and more")


def rebase(*, same_file: bool, how: Sequence[str] = ("rebase", "-q", "main")) -> Scenario:
    def run(world: World, code: Code) -> None:
        history = History(world, code)
        fresh = history.upstream(same_file=same_file)
        world.git(*how)
        world.expect(history.on_top(fresh, APP if same_file else OWN))

    return run


def rebase_conflict(keep: str) -> Scenario:
    """Both sides add at the end of the file; a person resolves, keeping one side or both."""

    def run(world: World, code: Code) -> None:
        history = History(world, code)
        world.git("checkout", "-q", "main")
        fresh = written(code.block(), PERSON)
        world.files = dict(history.after[0])
        world.person(APP, [*history.after[0][APP], *fresh])
        world.commit(message="upstream")
        world.git("checkout", "-q", "feature")
        world.git("rebase", "-q", "main", ok=(1,))
        base, ours = history.after[0][APP], history.after[1][APP]
        added = ours[len(base) :]
        end = {"both": [*fresh, *added], "feature": added, "upstream": fresh}[keep]
        world.files[APP] = [*base, *end]
        world.person(APP, world.files[APP])
        world.git("add", "-A")
        world.git("rebase", "--continue", GIT_EDITOR="true")
        last = history.after[-1][APP]
        world.expect({**history.after[-1], APP: [*(line for line in last if line not in added), *end]})

    return run


def cherry_pick(*words: str) -> Scenario:
    """The branch's commits, picked onto a main that went on."""

    def run(world: World, code: Code) -> None:
        history = History(world, code)
        fresh = history.upstream(same_file=True)
        world.git("checkout", "-q", "-b", "picked", "main")
        world.git("cherry-pick", *words, "main..feature")
        if words:
            world.git("commit", "-q", "-m", "picked")
        world.expect(history.on_top(fresh, APP))

    return run


def stash(*, moved: bool) -> Scenario:
    """Work that is not committed goes away, main moves on, and it comes back."""

    def run(world: World, code: Code) -> None:
        history = History(world, code)
        history.add(history.one, NEW, 0)
        history.add(history.two, APP, len(world.files[APP]))
        done = snapshot(world)
        world.git("stash")
        fresh: Lines = []
        if moved:
            world.files = dict(history.after[-1])
            fresh = written(code.block(), PERSON)
            world.person(APP, [*fresh, *world.files[APP]])
            world.commit(message="meanwhile")
        world.git("stash", "pop")
        world.expect({**done, APP: [*fresh, *done[APP]]})
        world.commit(message="at last")

    return run


def switched(world: World, code: Code) -> None:
    """Uncommitted work is carried to another branch."""
    history = History(world, code)
    history.add(history.two, NEW, 0)
    world.git("checkout", "-q", "-b", "elsewhere")
    world.commit()


def renamed(*, before_commit: bool, edited: bool = False) -> Scenario:
    def run(world: World, code: Code) -> None:
        world.begin({APP: code.blocks(3)})
        one = world.session()
        world.agent(one, NEW, ai(one, code.blocks(4)), "write")
        if not before_commit:
            world.commit()
        world.stop(one)
        (world.root / NEW).rename(world.root / "src/moved.py")
        lines = world.files.pop(NEW)
        world.put("src/moved.py", lines)
        if edited:
            world.person("src/moved.py", [*written([code.line()], PERSON), *lines])
        world.commit()

    return run


def moved_block(*, to: str, committed: bool, turns: bool = False) -> Scenario:
    """A person moves an agent's block: down in its file, or into their own."""

    def run(world: World, code: Code) -> None:
        world.begin({APP: code.blocks(4), OWN: code.blocks(2)})
        one = world.session()
        block = ai(one, [*code.block(), *code.block()])
        old = world.files[APP]
        world.agent(one, APP, [*block, *old], "edit")
        if committed:
            world.commit()
        if turns:
            world.stop(one)
        if to == APP:
            world.put(APP, [*old, *block])
        else:
            world.put(APP, old)
            world.put(OWN, [*world.files[OWN], *block])
        if turns:
            world.prompt(one)
        world.commit()

    return run


def copied(world: World, code: Code) -> None:
    """A person copies a file that an agent wrote."""
    world.begin({APP: code.blocks(3)})
    one = world.session()
    world.agent(one, NEW, ai(one, code.blocks(4)), "write")
    world.commit()
    world.put("src/copy.py", world.files[NEW])
    world.commit()


def relaid(change: Callable[[Lines], Lines], *, committed: bool = True) -> Scenario:
    """A person lets a program lay out an agent's file anew."""

    def run(world: World, code: Code) -> None:
        world.begin({APP: code.blocks(3)})
        one = world.session()
        world.agent(one, NEW, ai(one, [*code.block(), *code.block(), CALL, STRINGS]), "write")
        if committed:
            world.commit()
        world.stop(one)
        world.put(NEW, change(world.files[NEW]))
        world.commit()

    return run


CALL = b"outcome = compute_everything(first_argument, second_argument, third_argument)"
STRINGS = b"GREETING = 'hello', 'world'"


def indented(lines: Lines) -> Lines:
    return [*written([b"class Holder:"], PERSON), *(Line(b"    " + n.text if n.text else b"", n.who) for n in lines)]


def wrapped(lines: Lines) -> Lines:
    """As a formatter does: long calls over several lines, one kind of quotes."""
    parts = [
        b"outcome = compute_everything(",
        b"    first_argument,",
        b"    second_argument,",
        b"    third_argument,",
        b")",
    ]
    found: Lines = []
    for line in lines:
        texts = parts if line.text == CALL else [line.text.replace(b"'", b'"')]
        found += [line] if texts == [line.text] else [Line(text, line.who) for text in texts]
    return found


def elsewhere(work: Callable[[World, History, Path], None]) -> Scenario:
    """A clone where nothing of ours is rewrites the branch; it is fetched and checked out."""

    def run(world: World, code: Code) -> None:
        history = History(world, code)
        fresh = history.upstream(same_file=True)
        other = world.root.parent / "other"
        world.git("clone", "-q", "--no-local", str(world.root), str(other), cwd=world.root.parent)
        work(world, history, other)
        world.git("fetch", "-q", str(other), "+feature:refs/remotes/other/feature")
        world.git("reset", "-q", "--hard", "other/feature")
        world.expect(history.on_top(fresh, APP))

    return run


def rebased_there(world: World, _: History, other: Path) -> None:
    world.git("rebase", "-q", "origin/main", cwd=other)


def squashed_there(world: World, _: History, other: Path) -> None:
    """As a hosting site's merge button does."""
    world.git("checkout", "-q", "-b", "merged", "origin/main", cwd=other)
    world.git("merge", "-q", "--squash", "origin/feature", cwd=other)
    world.git("commit", "-q", "-m", "Feature (#1)", cwd=other)
    world.git("branch", "-f", "feature", "merged", cwd=other)


def committed_there(world: World, code: Code) -> None:
    """The work tree is committed by a git with another home."""
    history = History(world, code)
    history.add(history.one, NEW, 0)
    home = world.root.parent / "other-home"
    home.mkdir()
    shutil.copy(world.home / ".gitconfig", home / ".gitconfig")
    world.git("add", "-A", HOME=str(home))
    world.git("commit", "-q", "-m", "from a container", HOME=str(home))


def fresh_clone(world: World, code: Code) -> None:
    """Somebody else clones, with nothing but what the tool lets travel."""
    history = History(world, code)
    refs = world.tool.publish(world.root)
    other = world.root.parent / "fresh"
    world.git("clone", "-q", "--no-local", str(world.root), str(other), cwd=world.root.parent)
    for ref in refs:
        world.git("fetch", "-q", "origin", f"{ref}:{ref}", cwd=other)
    world.root = other
    world.expect(history.after[-1])


def by_stranger(merge: Callable[[World, Path], None]) -> Scenario:
    """Somebody without the tool merges a pull request on a forge, which keeps its last commit by a ref of its own; a
    teammate sees it, who has nothing but what the tool lets travel.
    """

    def run(world: World, code: Code) -> None:
        history = History(world, code)
        fresh = history.upstream(same_file=True)
        forge, stranger, mate = (world.root.parent / name for name in ("forge.git", "stranger", "mate"))
        world.git("clone", "-q", "--bare", str(world.root), str(forge), cwd=world.root.parent)
        world.git("symbolic-ref", "HEAD", "refs/heads/main", cwd=forge)
        refs = world.tool.publish(world.root)
        world.git("push", "-q", str(forge), "feature:refs/pull/1/head", *(f"{ref}:{ref}" for ref in refs))
        world.git("clone", "-q", "--no-local", str(forge), str(stranger), cwd=world.root.parent)
        world.git("checkout", "-q", "-b", "merged", "origin/main", cwd=stranger)
        merge(world, stranger)
        world.git("push", "-q", "origin", "HEAD:main", cwd=stranger)
        world.git("push", "-q", "origin", ":feature", cwd=stranger)
        world.git(
            *("clone", "-q", "--no-local", "--single-branch", "-b", "main", str(forge), str(mate)),
            cwd=world.root.parent,
        )
        world.tool.take_in(mate)
        world.root = mate
        world.expect(history.on_top(fresh, APP))

    return run


def squash_request(world: World, stranger: Path) -> None:
    world.git("merge", "-q", "--squash", "origin/feature", cwd=stranger)
    world.git("commit", "-q", "-m", "Feature (#1)", cwd=stranger)


def squash_by_hand(world: World, stranger: Path) -> None:
    """The commit names no pull request."""
    world.git("merge", "-q", "--squash", "origin/feature", cwd=stranger)
    world.git("commit", "-q", "-m", "Feature", cwd=stranger)


def pick_request(world: World, stranger: Path) -> None:
    world.git("cherry-pick", "origin/main..origin/feature", cwd=stranger)


def merged(*words: str) -> Scenario:
    def run(world: World, code: Code) -> None:
        history = History(world, code)
        fresh = history.upstream(same_file=True)
        world.git("checkout", "-q", "main")
        world.git("merge", "-q", *words, "feature")
        if "--squash" in words:
            world.git("commit", "-q", "-m", "squashed")
        world.expect(history.on_top(fresh, APP))

    return run


def ended(end: bytes, last: bytes) -> Scenario:
    """Files with that line end, and that end of the last line: edited, amended and squashed."""

    def run(world: World, code: Code) -> None:
        world.endings = dict.fromkeys((APP, NEW), (end, last))
        world.begin({APP: [*code.blocks(3), code.line()]})
        one = world.session()
        first = world.head()
        old = world.files[APP]
        world.agent(one, APP, [*old[:-1], *ai(one, code.block()), old[-1]], "write")
        world.agent(one, NEW, ai(one, [*code.blocks(2), code.line()]), "write")
        world.commit()
        lines = world.files[NEW]
        world.person(NEW, [*lines[:3], *written([code.line()], PERSON), *lines[3:]])
        world.commit()
        world.git("reset", "-q", "--soft", first)
        world.git("commit", "-q", "-m", "one")

    return run


def not_utf8(world: World, code: Code) -> None:
    """Latin-1, written by a command: no payload could carry it."""
    world.begin({APP: [b"# caf\xe9", *code.blocks(3)]})
    one = world.session()
    fresh = ai(one, [b"NAME = 'na\xefve caf\xe9 " + code.line() + b"'", *code.block()])
    lines = [*world.files[APP], *fresh]
    command = f"python3 -c \"open('{APP}', 'wb').write(bytes.fromhex('{world.data_of(APP, lines).hex()}'))\""
    world.run(one, command)
    world.credit(one, APP, lines, "shell")
    world.commit()
    world.git("commit", "-q", "--amend", "-m", "again")


def large(world: World, code: Code) -> None:
    """20,000 lines, with an agent's among them."""
    world.exact = True
    world.begin({APP: [b"row_%d = value_%d" % (n, n * 7) for n in range(20_000)]})
    one = world.session()
    first = world.head()
    old = world.files[APP]
    texts = [b"agent_%d = made_up_%d" % (n, n) for n in range(200)]
    world.put_quietly(one, APP, [*old[:9000], *ai(one, texts), *old[9000:]])
    world.commit()
    lines = world.files[APP]
    world.put(APP, [*lines[:100], *written([code.line()], PERSON), *lines[100:]])
    world.commit()
    world.git("reset", "-q", "--soft", first)
    world.git("commit", "-q", "-m", "one")


def named(app: str, new: str) -> Scenario:
    """Paths that are no plain words."""

    def run(world: World, code: Code) -> None:
        history = History(world, code, app, new)
        squash_soft(world, history)
        world.expect(history.after[-1])

    return run


def worktree(world: World, code: Code) -> None:
    """The agent works in a second work tree; the person merges it in the first."""
    world.begin({APP: code.blocks(4)})
    main = world.root
    world.commit(message="the intents")
    world.git("worktree", "add", "-q", "-b", "side", str(main.parent / "side"))
    world.root = main.parent / "side"
    world.tool.install(world.root, world.home, INTENTS)
    one = world.session()
    world.agent(one, NEW, ai(one, code.blocks(3)), "write")
    world.agent(one, APP, [*world.files[APP], *ai(one, code.block())], "edit")
    world.commit()
    world.root = main
    world.git("merge", "-q", "side")


def below(world: World, code: Code) -> None:
    """The agent stands in a folder below."""
    world.begin({"pkg/deep/app.py": code.blocks(3)})
    one = world.session()
    world.standing = "pkg/deep"
    world.agent(one, "pkg/deep/app.py", [*world.files["pkg/deep/app.py"], *ai(one, code.block())], "edit")
    world.agent(one, "pkg/deep/new.py", ai(one, code.block()), "write")
    world.commit()
    world.git("commit", "-q", "--amend", "-m", "again")


SEQUENCES = {
    "squash, interactive": "2,$s/^pick/squash/",
    "fixup, interactive": "3,4s/^pick/fixup/",
    "reorder": "1{h;d};4G",
    "reword": "s/^pick/reword/",
}


def sequenced(script: str) -> Scenario:
    return plain(lambda world, _: sequence(world, script))


def autosquash(world: World, code: Code) -> None:
    history = History(world, code)
    history.add(history.one, APP, len(world.files[APP]))
    name = world.git("log", "--format=%H", "--grep=step 1", "main..feature")
    world.git("add", "-A")
    world.git("commit", "-q", f"--fixup={name}")
    done = snapshot(world)
    sequence(world, "", "--autosquash")
    world.expect(done)


REWRITES: dict[str, Scenario] = {
    "amend, message only": plain(amend),
    "amend, more lines": amend_content,
    "rebase, other file": rebase(same_file=False),
    "rebase, same file": rebase(same_file=True),
    **{f"rebase, conflict, keep {keep}": rebase_conflict(keep) for keep in ("both", "feature", "upstream")},
    **{name: sequenced(script) for name, script in SEQUENCES.items()},
    "autosquash": autosquash,
    "squash by reset --soft": plain(squash_soft),
    "squash by reset --mixed": plain(reset_mixed),
    "split": plain(split),
    "cherry-pick": cherry_pick(),
    "cherry-pick -n": cherry_pick("-n"),
    "stash and pop": stash(moved=False),
    "stash, then pop on another base": stash(moved=True),
    "switch branches with work": switched,
    "revert twice": plain(revert_twice),
    "rename after the commit": renamed(before_commit=False),
    "rename and edit": renamed(before_commit=False, edited=True),
    "rename before the commit": renamed(before_commit=True),
    "rename and edit before the commit": renamed(before_commit=True, edited=True),
    **{
        f"move a block {where}{', uncommitted' * (not committed)}{', turns' * turns}": moved_block(
            to=to, committed=committed, turns=turns
        )
        for to, where in ((APP, "down"), (OWN, "to another file"))
        for committed in (True, False)
        for turns in (False, True)
    },
    "copy a file": copied,
    "indent": relaid(indented),
    "indent before the commit": relaid(indented, committed=False),
    "formatter": relaid(wrapped),
    "formatter before the commit": relaid(wrapped, committed=False),
    "filter-branch, messages": plain(filtered("--msg-filter", "sed s/step/part/")),
    "filter-branch, tree": plain(filtered("--tree-filter", "echo kept > docs/added.txt")),
    "commit-tree and update-ref": plain(plumbing),
    "rebase in a clone without the tool": elsewhere(rebased_there),
    "squash merge on a server": elsewhere(squashed_there),
    "squash by a stranger": by_stranger(squash_request),
    "squash by a stranger, not numbered": by_stranger(squash_by_hand),
    "rebase merge by a stranger": by_stranger(pick_request),
    "commit by a git without the tool": committed_there,
    "fresh clone": fresh_clone,
    "merge": merged("--no-ff", "-m", "merge"),
    "merge --squash": merged("--squash"),
    "CRLF": ended(b"\r\n", b"\r\n"),
    "no final newline": ended(b"\n", b""),
    "not UTF-8": not_utf8,
    "20,000 lines": large,
    "Unicode and spaces in paths": named("src/ünï cödé/größe 1.py", "src/新しい ファイル.py"),
    "worktree": worktree,
    "subfolder": below,
}
