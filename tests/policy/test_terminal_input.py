"""Commands that wait for typed input, and commands that do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.policy.commands.background_and_input import waits_for_input


@pytest.mark.parametrize(
    "command",
    [
        "bash", "/bin/bash -i", "bash --norc", "bash -l", "sh -s", "sh -s x", "env X=1 bash", "exec zsh", "sudo -s",
        "sudo -u me bash", "su - me", "timeout 60 bash", "bash -c bash", "bash -lc 'cd x && python3'",
        "python3", "python3 -i", "python3 -q", "python3.12 -i a.py", "python3 -", "python -u", "node", "node -i",
        "deno repl", "ruby", "perl", "perl -de0", "sqlite3", "sqlite3 a.db", "psql", "irb", "ssh host",
        "ssh -p 22 host", "psql db", "git apply --index", "sudo " * 999 + "x",
        "cat", "cat > f", "cat -", "tee f", "dd of=f", "xargs rm", "ed f", "vim f", "cd x && bash", "(bash)",
        "{ bash; }", "if true; then bash; fi", "echo $(bash)", "x=1 bash", "$SHELL", "uv run python", "patch -p1",
        "git apply", "docker exec -it c bash", "ls; python3 2>&1", "bash # don't", "nohup bash &", "script",
        "less f", "cat f | less -R", "man ls", "more f", "top",
    ],
)  # fmt: skip
def test_a_program_without_input_waits(command: str) -> None:
    assert waits_for_input(command)


@pytest.mark.parametrize(
    "command",
    [
        "bash script.sh", "bash -c 'ls'", "bash -lc 'python3 a.py'", "python3 a.py", "python3 -m pytest",
        "python3 -c 1", "psql db -c 'select 1'", "su - me -c ls", "vim -es f", "gdb prog -batch",
        "python3 --version", "python3 -V", "node a.js", "node -e 1", "node --test", "ruby -e 1", "perl -pe s/a/b/ f",
        "sqlite3 a.db 'select 1'", "psql -c 'select 1'", "ssh host ls", "cat f", "cat <<'EOF' > f\ndon't\nEOF",
        "python3 <<'EOF'\nprint(1)\nEOF", "python3 - < a.py", "echo x | tee f", "ls | xargs rm", "echo 1 | python3",
        "dd if=a of=b", "patch -p1 < x", "patch -i x", "git apply x", "while read l; do cat; done < f",
        "ls | while read l; do cat > $l; done", "uv run pytest", "env", "timeout 5 ls", "echo bash", "ls",
        "git commit -m \"$(cat <<'EOF'\ndon't\nEOF\n)\"", "sudo ls", "docker exec c ls", "echo 'not closed",
        "less --version", "top -b -n1",
    ],
)  # fmt: skip
def test_a_command_that_ends_by_itself_does_not_wait(command: str) -> None:
    assert not waits_for_input(command)


@given(
    st.text() | st.lists(st.sampled_from(["bash ", "-c ", "'", '"', "$(", ")", "|", "<", "sudo ", "\n"])).map("".join)
)
def test_no_text_breaks_the_search(command: str) -> None:
    assert waits_for_input(command) in (True, False)
