"""The live lines of the agent's terminal: at most six, below the printed blocks.

The terminal's own scrollback, selection and search stay as they are: no alternate screen, no mouse, no clearing, no
scroll regions. A block is printed once, when complete; text under change is live. No fact of the run is known
here, and little is imported, so that the prompt stands before the gate and the model's library are loaded.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from shutil import get_terminal_size
from typing import Protocol

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, ConditionalContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout

from remit.cli.screen import choose_pager, show_in_pager
from remit.core.clock import Clock
from remit.core.untrusted_input import sanitise_line
from remit.workspace.system_clock import SYSTEM_CLOCK

MAX_LIVE_LINES = 2
MAX_PROMPT_LINES = 2
MAX_PASTED_LINES = 20  # a longer paste stands as a mark in the prompt
QUIET_S = 0.3
"""Seconds without a key before a card takes one: letters typed ahead answer nothing."""
LEAVE_TWICE_S = 2.0
MIN_REDRAW_INTERVAL_S = 1 / 12
SPINNER_INTERVAL_S = 0.5
ESCAPE_TIMEOUT_S = 0.05
SPINNER = "◐◓◑◒"
CARD_KEYS = "ysine"
COMMAND_KEYS = {"s-tab": "/mode", "c-t": "/todo"}
GREETING = "Remit's agent. /help shows what can be typed; Ctrl-D leaves."


class ScreenConversation(Protocol):
    """The run behind the live lines."""

    @property
    def detail(self) -> str:
        """The newest output or diff, whole."""
        ...

    def submit(self, text: str, *, is_answer: bool = True) -> bool:
        """Take a typed line; return False for a line without an answer, which stays in the prompt. Words that are no
        answer go to the model, also while a card is shown.
        """
        ...

    def press_card_key(self, key: str) -> None: ...

    def complete(self, before: str) -> str:
        """Return what completes the last word before the cursor."""
        ...

    async def cancel(self) -> None: ...

    async def close(self) -> None: ...


class AgentScreen:
    """The live lines and their keys. The conversation sets the text, and never reads the lines back."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.conversation: ScreenConversation | None = None
        self.status = "starts"
        self.farewell = ""
        """Words for the person who left."""
        self.is_working = True
        self.live_text = ""
        self.card_hint = ""
        self.card_keys = ""  # letters that answer the card at once
        self.has_earlier_words = False  # the prompt holds words that were begun before the card
        self.asked_at = self.last_key_at = self.quiet_s = 0.0
        self.interrupted_at = -LEAVE_TWICE_S
        self.typed_ahead: list[str] = []
        self.pastes: list[str] = []
        self.buffer = Buffer(multiline=True, history=InMemoryHistory())
        self.app = self.make_application()

    async def run(self, converse: Callable[["AgentScreen"], Awaitable[None]]) -> None:
        """Show the prompt at once, and run `converse` until the person leaves. Raises the errors of `converse`."""

        async def work() -> None:
            try:
                await converse(self)
            except Exception as error:  # noqa: BLE001  what breaks the conversation ends the terminal, and is reported
                self.leave(error)

        # The live lines must not begin in the first row: tmux takes their erasing there for a clear of the screen,
        # and keeps a copy of it.
        sys.stdout.write(GREETING + "\n")
        tasks: list[asyncio.Task[None]] = []
        with patch_stdout(raw=True):
            try:
                await self.app.run_async(
                    pre_run=lambda: tasks.extend(map(asyncio.create_task, (work(), self.turn_spinner())))
                )
            finally:
                if self.conversation is not None:
                    await self.conversation.close()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def turn_spinner(self) -> None:
        while True:
            await asyncio.sleep(SPINNER_INTERVAL_S)
            if self.is_working:
                self.app.invalidate()

    def leave(self, error: Exception | None = None) -> None:
        if self.app.is_running and not self.app.is_done:
            if error is None:
                self.app.exit()
            else:
                self.app.exit(exception=error)

    # --- layout ----------------------------------------------------------------------------------------------

    def make_application(self) -> Application[None]:
        live = Window(FormattedTextControl(self.show_live), height=MAX_LIVE_LINES, wrap_lines=False)
        control = BufferControl(self.buffer, input_processors=[BeforeInput(self.show_prompt)])
        prompt = Window(control, height=self.measure_prompt, wrap_lines=True)
        states = Window(FormattedTextControl(self.show_status), height=1, wrap_lines=False)
        has_live = Condition(lambda: bool(self.live_text))
        # Position reports of the cursor are not asked for: terminals that do not answer would delay the start.
        output = Vt100_Output(sys.stdout, measure_terminal, term=os.environ.get("TERM"), enable_cpr=False)
        app: Application[None] = Application(
            Layout(HSplit([ConditionalContainer(live, has_live), prompt, states]), focused_element=prompt),
            key_bindings=make_key_bindings(self),
            output=output,
            mouse_support=False,
            full_screen=False,
            min_redraw_interval=MIN_REDRAW_INTERVAL_S,
            erase_when_done=True,
        )
        app.ttimeoutlen = app.timeoutlen = ESCAPE_TIMEOUT_S
        app.key_processor.before_key_press += self.note_key
        return app

    def measure_prompt(self) -> int:
        return min(MAX_PROMPT_LINES, max(1, self.buffer.document.line_count))

    def show_live(self) -> StyleAndTextTuples:
        width = get_terminal_size().columns - 1
        shown = [sanitise_line(text, width)[:width] for text in self.live_text.splitlines()[-MAX_LIVE_LINES:]]
        return [("", "\n".join(shown))]

    def show_prompt(self) -> StyleAndTextTuples:
        return [("bold ansicyan", f"{self.card_hint}: ")] if self.card_hint else [("bold", "> ")]

    def show_status(self) -> StyleAndTextTuples:
        glyph = SPINNER[int(self.clock.elapsed() / SPINNER_INTERVAL_S) % len(SPINNER)] if self.is_working else "·"
        return [("", f"{glyph} {self.status}"[: get_terminal_size().columns - 1])]

    def print_block(self, text: str) -> None:
        """Print a finished block above the live lines: whole lines only, as `patch_stdout` redraws a partial one."""
        if text:
            sys.stdout.write(text + "\n")
        self.app.invalidate()

    def show_card(self, hint: str, keys: str = "") -> None:
        """Ask for an answer in the prompt; "" asks for words again. What stands in the prompt is no answer."""
        self.card_hint, self.card_keys, self.asked_at = hint, keys, self.clock.elapsed()
        self.has_earlier_words = bool(self.buffer.text)
        self.app.invalidate()

    def offer_words(self, words: str) -> None:
        """Put words into the prompt, for the person to change and send."""
        self.buffer.set_document(Document(words))
        self.app.invalidate()

    # --- keys ------------------------------------------------------------------------------------------------

    def note_key(self, _: object) -> None:
        now = self.clock.elapsed()
        self.quiet_s = now - max(self.last_key_at, self.asked_at)
        self.last_key_at = now
        self.has_earlier_words = self.has_earlier_words and bool(self.buffer.text)

    def takes_card_key(self) -> bool:
        return bool(self.card_keys) and not self.buffer.text and self.quiet_s >= QUIET_S

    def press_card_key(self, key: str) -> None:
        if self.conversation is not None and key in self.card_keys:
            self.conversation.press_card_key(key)

    def submit(self) -> None:
        """Take the typed line. A line begun before a card was shown does not answer the card: the model gets it."""
        text = self.expand_pastes(self.buffer.text)
        if self.card_hint and self.clock.elapsed() - self.asked_at < QUIET_S:
            return
        if self.conversation is None:
            self.typed_ahead.append(text)
        elif not self.conversation.submit(text, is_answer=not self.has_earlier_words):
            return
        self.buffer.append_to_history()
        self.buffer.reset()

    def add_paste(self, text: str) -> None:
        clean = text.replace("\r\n", "\n").replace("\r", "\n")
        if clean.count("\n") < MAX_PASTED_LINES:
            self.buffer.insert_text(clean)
        else:
            self.pastes.append(clean)
            self.buffer.insert_text(self.name_paste(len(self.pastes)))

    def name_paste(self, number: int) -> str:
        return f"[paste {number}: {len(self.pastes[number - 1].splitlines())} lines]"

    def expand_pastes(self, text: str) -> str:
        for number, paste in enumerate(self.pastes, 1):
            text = text.replace(self.name_paste(number), paste)
        return text

    def complete(self) -> None:
        if self.conversation is not None:
            self.buffer.insert_text(self.conversation.complete(self.buffer.document.text_before_cursor))

    async def cancel(self) -> None:
        if self.conversation is not None and self.is_working:
            await self.conversation.cancel()

    async def interrupt(self) -> None:
        """Cancel the turn under way, or leave at the second time."""
        if self.clock.elapsed() - self.interrupted_at < LEAVE_TWICE_S or self.conversation is None:
            self.leave()
            return
        self.interrupted_at = self.clock.elapsed()
        self.print_block("Ctrl-C again leaves")
        await self.cancel()


def measure_terminal() -> Size:
    columns, rows = get_terminal_size()
    return Size(rows=rows, columns=columns)


def make_key_bindings(screen: AgentScreen) -> KeyBindings:
    keys = KeyBindings()
    has_card = Condition(screen.takes_card_key)
    is_empty = Condition(lambda: not screen.buffer.text)

    @keys.add("enter")
    def submit(_: KeyPressEvent) -> None:
        screen.submit()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def break_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("escape")
    def cancel(event: KeyPressEvent) -> None:
        event.app.create_background_task(screen.cancel())

    @keys.add("c-c")
    def interrupt(event: KeyPressEvent) -> None:
        event.app.create_background_task(screen.interrupt())

    @keys.add("c-d", filter=is_empty)
    def leave(_: KeyPressEvent) -> None:
        screen.leave()

    @keys.add("tab")
    def complete(_: KeyPressEvent) -> None:
        screen.complete()

    @keys.add("c-o")
    async def show_detail(_: KeyPressEvent) -> None:
        pager, detail = choose_pager({}, os.environ), screen.conversation.detail if screen.conversation else ""
        if pager and detail:
            await run_in_terminal(lambda: show_in_pager(detail.encode("utf-8", "replace"), pager), in_executor=True)

    @keys.add("c-x", "c-e")
    def edit(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()

    @keys.add(Keys.BracketedPaste)
    def paste(event: KeyPressEvent) -> None:
        screen.add_paste(event.data)

    for letter in CARD_KEYS:

        @keys.add(letter, filter=has_card)
        def answer(event: KeyPressEvent) -> None:
            screen.press_card_key(event.data)

    for key, command in COMMAND_KEYS.items():

        @keys.add(key)
        def run_command(_: KeyPressEvent, command: str = command) -> None:
            if screen.conversation is not None:
                screen.conversation.submit(command)

    return keys
