"""Which commands put into files what the text does not show: the output of a filter or a formatter."""

import pytest

from remit.policy.commands import analyse

STORE_REWRITTEN = [
    "sed -i 's/a[0-9]*/b/' f.py",
    "perl -pi -e 's/(a)/$1b/' f",
    "for f in a b; do sed -i s/x/y/ $f; done",
    "sed s/a/b/ f > f2 && mv f2 f",
    "find src -name '*.py' -exec sed -i s/a/b/ {} +",
    "grep -l a *.py | xargs sed -i s/a/b/",
    "awk '{print $1}' f > g",
    "tr a b < f > g",
    "sort -o f f",
    "cat a | sort | tee b",
    'echo "$(sed s/a/b/ f)" > g',
    "ruff check --fix f.py",
    "black f.py",
    "ruff format f.py",
]

TELL_EVERYTHING = [
    "cat > f <<'E'\nx\nE",
    "echo x > f",
    "echo x | tee f",
    "sed -n 1,3p f && echo x > g",
    "cp a b && mv b c",
    "mkdir d",
    "grep a f > g",
    "sort f",
    "black --check f.py",
    "ruff format --diff f.py",
]

ONLY_LAY_OUT = ["black f.py", "ruff format src", "cd src && gofmt -w f.go", "for f in a b; do shfmt -w $f; done"]

WRITE_MORE = [
    "sed -i s/a/b/ f.py && black f.py",
    "cat > f.py <<'E'\nx\nE\nblack f.py",
    "ruff check --fix f.py",
    "black -q f.py > log",
]


@pytest.mark.parametrize("command", STORE_REWRITTEN)
def test_a_file_gets_what_a_program_made_of_other_text(command: str) -> None:
    found = analyse(command)
    assert (found.outcome, found.stores_rewritten) == ("literal_writes", True)


@pytest.mark.parametrize("command", TELL_EVERYTHING)
def test_a_file_gets_what_stands_in_the_text_or_in_another_file(command: str) -> None:
    assert not analyse(command).stores_rewritten


@pytest.mark.parametrize("command", ONLY_LAY_OUT)
def test_a_formatter_of_files_only_lays_them_out(command: str) -> None:
    assert analyse(command).only_lays_out


@pytest.mark.parametrize("command", WRITE_MORE)
def test_a_command_that_also_writes_text_does_more_than_lay_out(command: str) -> None:
    assert not analyse(command).only_lays_out


REPEATABLE = [
    "sed -i 's/a[0-9]*/b/' f.py",
    "perl -pi -e 's/(a)/$1b/' f",
    "for f in a b; do sed -i s/x/y/ $f; done",
    "find src -name '*.py' -exec sed -i s/a/b/ {} +",
    "grep -l a *.py | xargs sed -i s/a/b/",
    "awk '{print $1}' f > g && mv g f",
    "cat a | sort | tee b",
    "cd src && black f.py && ruff format g.py",
    "cat > f.py <<'E'\nx\nE\nblack f.py",
]

NOT_REPEATABLE = [
    "sed -i 's/a/date/e' f",
    "sed -i 's/a/b/w other' f",
    "sed -i '1e date' f",
    "perl -pi -e 'system(\"date\")' f",
    "perl -pi -e 's/a/`date`/e' f",
    "awk '{system(\"date\")}' f > g",
    "awk '{print | \"sh\"}' f > g",
    "awk '{print > \"other\"}' f > g",
    "curl -o g https://example.org && sed -i s/a/b/ g",
    "git add f && sed -i s/a/b/ f",
    "sed -i s/a/b/ f && make",
    "find . -name '*.py' -exec curl -o g https://example.org/{} \\; -exec sed -i s/a/b/ {} +",
    "kill 1 && sed -i s/a/b/ f",
    "cp a b",
]


@pytest.mark.parametrize("command", REPEATABLE)
def test_a_command_of_filters_and_formatters_is_repeatable(command: str) -> None:
    assert analyse(command).is_repeatable


@pytest.mark.parametrize("command", NOT_REPEATABLE)
def test_a_command_that_does_more_than_make_files_of_files_is_not(command: str) -> None:
    assert not analyse(command).is_repeatable


UNPROVED_FORMATTERS = [
    "prettier --write a.ts",
    "npx --yes prettier -w a.ts",
    "yarn prettier -w .",
    "python -m black f.py",
    "uv run ruff format f.py",
    "black --fast f.py",
    "rustfmt a.rs",
    "cd crates/one && cargo fmt",
]


@pytest.mark.parametrize("command", UNPROVED_FORMATTERS)
def test_a_formatter_whose_settings_may_run_programs_proves_nothing_and_is_known_for_what_it_is(command: str) -> None:
    found = analyse(command)
    assert (found.outcome, found.writes, found.git_verbs) == ("unknown", None, ())
    assert found.only_lays_out
    assert found.is_repeatable


UNKNOWN_PROGRAMS = [
    "npm run format",
    "cargo build",
    "python -m evil",
    "npx --package=evil prettier -w .",
    "find . -name '*.ts' -exec prettier --write {} +",
    "npx prettier -w a.ts && make",
    "sed -i 's/a/date/e' f && npx prettier -w f",
]


@pytest.mark.parametrize("command", UNKNOWN_PROGRAMS)
def test_what_else_is_unknown_is_neither_run_again_nor_a_layout(command: str) -> None:
    found = analyse(command)
    assert (found.outcome, found.only_lays_out, found.is_repeatable) == ("unknown", False, False)


def test_git_beside_an_unproved_formatter_is_not_known_by_its_verbs() -> None:
    found = analyse("npx prettier -w a.ts && git pull")
    assert (found.outcome, found.git_verbs, found.is_repeatable) == ("unknown", (), False)


def test_a_danger_beside_an_unproved_formatter_is_one() -> None:
    found = analyse("npx prettier -w a.ts; rm -rf /")
    assert (found.outcome, found.is_repeatable) == ("dangerous", False)
