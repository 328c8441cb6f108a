"""The tables of the page Chat."""

from remit.console.pages.page import Page, PageWrite
from remit.core.acts import Act
from remit_agent.pages import chat

PAGES = (
    Page("/r/{repository}/chat", "chat", "Chat", "chat.html", chat.read_chat),
    Page("/r/{repository}/chat/{run}", "chat", "Chat", "chat_run.html", chat.read_chat_run),
)
WRITES = (
    PageWrite("/r/{repository}/chat", chat.BeginBody, chat.begin_run, Act.START_AGENTS),
    PageWrite("/r/{repository}/chat/{run}/words", chat.SayBody, chat.say_words, Act.STEER),
    PageWrite("/r/{repository}/chat/{run}/stop", chat.StopBody, chat.stop_run, Act.STOP_AGENTS),
)
NAVIGATION = (("chat", "Chat", "message-square", "e", "chat"),)
