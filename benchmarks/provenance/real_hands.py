"""Who writes the pieces of a commit: agents by every kind of call, and people, also while a call runs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from .lines import PERSON, Author, Line, doubt, rewritten, texts
from .real_change import Step
from .real_commands import SILENT, command
from .real_gone import Gone, said
from .real_history import whole
from .real_words import Edit, Swap, replaced, replacement, shell, swaps, v4a, write
from .tools import Refused, Session
from .world import INTENTS, Call, How, World, author, digest

MEANS: dict[How | None, int] = {"edit": 35, "write": 12, "shell": 20, "script": 4, None: 29}
"""How often a piece comes by which means; None is a person."""

SHARE_MEANWHILE = 0.1
"""Steps after which a person writes the next one while the call still runs."""

SHARE_BETWEEN_TURNS = 0.3


@dataclass(frozen=True)
class Spoken:
    """A call, by which means it writes, and the replacements that it names, if these are all that it does; `parts` are
    the lines of each, before and after.
    """

    call: Call
    how: How
    swaps: Sequence[Swap] = ()
    parts: Sequence[tuple[list[Line], list[Line]]] = ()


class Hands:
    """Four conversations and a person, in one world. `gone` is what the commit that is being played took out."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, world.rng
        first = world.session()
        self.sessions = [first, world.session("codex", "INT-002"), world.session("gemini", "INT-001")]
        self.sessions.append(world.session(intent="INT-003", subagent_of=first))
        self.gone = Gone()
        self.past: dict[str, Gone] = {}
        """By file, what commits before took out: who writes it again brings it back, as `git checkout` does."""
        self.refused = 0
        self.first: dict[tuple[str, str], list[Line]] = {}
        """The lines of each content that a file had, when it had it first."""
        for path in world.files:
            self.brought_back(path)

    def session(self) -> Session:
        return self.rng.choice(self.sessions)

    def restart(self) -> None:
        """One conversation ends and another begins; a sub-agent just comes anew."""
        at = self.rng.randrange(1, len(self.sessions))
        old, intent = self.sessions[at], self.rng.choice(INTENTS)
        if old.subagent:
            self.sessions[at] = self.world.session(intent=intent, subagent_of=self.sessions[0])
        else:
            self.world.end(old)
            self.sessions[at] = self.world.session(old.agent, intent)

    def play(self, steps: Sequence[Step], after_each: Callable[[], None]) -> None:
        """All these steps, one after the other, some two at once."""
        left = list(steps)
        while left:
            step = left.pop(0)
            at_once = len(left) > 0 and self.rng.random() < SHARE_MEANWHILE and self.is_there(left[0])
            other = left.pop(0) if at_once else None
            self.write(step, other)
            for each in (step, other) if other else (step,):
                self.brought_back(each.change.path)
            after_each()

    def brought_back(self, path: str) -> None:
        """A file that has a content again which it had before may have been put back: its lines are those of then."""
        lines = self.world.files[path]
        for line, was in zip(lines, self.first.setdefault((path, digest(self.world.data(path))), lines), strict=True):
            line.also |= was.authors

    def is_there(self, step: Step) -> bool:
        return step.change.path in self.world.files

    def write(self, step: Step, other: Step | None) -> None:
        """One step by one hand; the other by a person, while that hand's call runs."""
        session = self.session()
        means: list[How | None] = [how for how in MEANS if how or not other]
        how = self.rng.choices(means, [MEANS[name] for name in means])[0]
        if how is None:
            self.person(step, session)
            return
        self.put(step, author(session))
        spoken = self.spoken(session, self.edit(step), how)
        if spoken.how not in ("shell", "script") and self.is_there(step):
            self.world.read(session, step.change.path)
        self.call(session, spoken, step, other)

    def put(self, step: Step, who: Author) -> None:
        """The lines of a step are somebody's."""
        step.change.write(step.numbers, who, self.gone)
        if step.change.path in self.past:
            self.past[step.change.path].account_for_runs(new_lines(step))

    def call(self, session: Session, spoken: Spoken, step: Step, other: Step | None) -> None:
        """The hooks of a call, and the writing between. What is refused, the person writes instead."""
        try:
            self.world.before(session, spoken.call)
        except Refused:
            self.refused += 1
            self.taken_over(step)
            if other:
                self.person(other, session)
            return
        for was, now in spoken.parts:
            doubt(was, now, author(session))
        if other:
            self.together(session, spoken, step, other)
        else:
            self.world.agent_wrote(session, step.change.path, step.change.lines(), spoken.how)
        self.world.after(session, spoken.call)

    def edit(self, step: Step) -> Edit:
        """What there is to be said of a step whose lines are written."""
        path = step.change.path
        old = self.world.files.get(path)
        return Edit(self.world.root, path, old or [], step.change.lines(), old is not None)

    def spoken(self, session: Session, edit: Edit, how: How) -> Spoken:
        """The call for it, by that means where it can be said so."""
        if how == "script":
            return Spoken(shell(session, self.rng.choice(SILENT)), "script")
        if how != "shell" and session.agent == "codex":
            call = v4a(edit, self.rng)
            if call:
                return Spoken(call, "patch")
        elif how == "edit" and edit.exists and edit.old and edit.new:
            one = session.agent == "gemini" or self.rng.random() < 0.4
            found = swaps(edit, self.rng, one=one)
            if found:
                return Spoken(replacement(session, edit, found), "edit", found, list(replaced(edit, found)))
        if how == "shell" or session.agent == "codex":
            return Spoken(shell(session, command(edit, self.rng)), "shell")
        return Spoken(write(session, edit), "write")

    def person(self, step: Step, session: Session) -> None:
        """A person writes between calls, or between two turns of a conversation."""
        self.put(step, PERSON)
        between = self.rng.random() < SHARE_BETWEEN_TURNS
        if between:
            self.world.stop(session)
        self.save(step)
        if between:
            self.world.prompt(session)

    def save(self, step: Step, without: Collection[int] = ()) -> None:
        """A person's editor writes the file, some of its pieces not there yet."""
        path, change = step.change.path, step.change
        lines = change.lines(change.done - set(without))
        for line in rewritten(self.world.files.get(path, []), lines, self.world.at_head(path)):
            line.open = True
        self.world.person(path, lines)

    def taken_over(self, step: Step) -> None:
        """A step that an agent was to write is a person's."""
        for line in new_lines(step):
            line.who = PERSON
        self.save(step)

    def together(self, session: Session, spoken: Spoken, step: Step, other: Step) -> None:
        """A person saves a file while a call runs: after the call wrote, or before where it still can. Nobody sees the
        content between both, so what a diff over both could say counts, too.
        """
        change = step.change
        self.put(other, PERSON)
        same = other.change is change
        if same and spoken.how in ("shell", "patch"):
            exchangeable(session, spoken, new_lines(step), new_lines(other))
            doubt(self.world.files.get(change.path, []), change.lines(), author(session))
        first = self.rng.random() < 0.5 and (not same or self.still_applies(spoken, step))
        if first:
            self.save(other, step.numbers if same else ())
        without = other.numbers if same and not first else ()
        self.world.agent_wrote(session, change.path, change.lines(change.done - set(without)), spoken.how)
        if not first:
            self.save(other)

    def still_applies(self, spoken: Spoken, step: Step) -> bool:
        """Whether the call would do what it is to do, were the person's lines there already."""
        change = step.change
        text = whole(texts(change.lines(change.done - set(step.numbers)))).decode()
        for old, new in spoken.swaps:
            if text.count(old) != 1:
                return False
            text = text.replace(old, new)
        return bool(spoken.swaps) and text.encode() == whole(texts(change.lines()))


def new_lines(step: Step) -> list[Line]:
    """The lines that a step puts in place."""
    return [line for n in step.numbers for line in step.change.pieces[n].lines]


def exchangeable(session: Session, spoken: Spoken, agents: Sequence[Line], persons: Sequence[Line]) -> None:
    """Note that a line which a call's text holds, and no place for it, may be the call's or the person's."""
    held = said(" ".join(map(str, spoken.call[1].values())).encode())
    saved = set(map(said, texts(persons)))
    for line in persons:
        if said(line.text) in held:
            line.also.add(author(session))
    for line in agents:
        if said(line.text) in saved:
            line.also.add(PERSON)
