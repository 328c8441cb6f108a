"""The tables of the page Chat."""

from remit.console.pages.page import Page, PageWrite
from remit.core.acts import Act
from remit_agent.pages.chat import (
    BeginBody,
    SayBody,
    StopBody,
    begin_run,
    read_chat,
    read_chat_run,
    say_words,
    stop_run,
)

PAGES = (
    Page("/r/{repository}/chat", "chat", "Chat", "chat.html", read_chat),
    Page("/r/{repository}/chat/{run}", "chat", "Chat", "chat_run.html", read_chat_run),
)
WRITES = (
    PageWrite("/r/{repository}/chat", BeginBody, begin_run, Act.START_AGENTS),
    PageWrite("/r/{repository}/chat/{run}/words", SayBody, say_words, Act.STEER),
    PageWrite("/r/{repository}/chat/{run}/stop", StopBody, stop_run, Act.STOP_AGENTS),
)
NAVIGATION = (("chat", "Chat", "message-square", "e", "chat"),)
