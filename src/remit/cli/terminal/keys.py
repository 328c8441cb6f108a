"""The keys of the agent's terminal."""

import os
from typing import TYPE_CHECKING

from prompt_toolkit.application.run_in_terminal import run_in_terminal
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from remit.cli.screen import choose_pager, show_in_pager

if TYPE_CHECKING:
    from remit.cli.terminal.screen import AgentScreen

CARD_KEYS = "ysin"
COMMAND_KEYS = {"s-tab": "/mode", "c-t": "/todo"}


def make_key_bindings(screen: "AgentScreen") -> KeyBindings:
    """Return the bindings; what they do is in the screen."""
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
