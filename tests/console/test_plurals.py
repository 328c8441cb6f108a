"""Numbers on the console's pages stand with the right form of their words, by one pair of filters."""

import re

import pytest

from remit.console.render import FOLDER, choose_form, format_count

TEMPLATES = sorted((FOLDER / "templates").glob("*.html"))
BY_HAND = re.compile(
    r'"s" if [^}]*[!>=]=? ?1|[!=]= 1 else "|\{\{ [^}|]*(?:\| length )?\}\}(?:</b>)? (?:more )?[a-z]+s\b(?! with)'
)
"""A plural form that is chosen in a template, or that is always there after a number."""

NO_PLURALS = ("}} ms", "}} has", "}} goes", "}} is")


def test_a_number_has_the_form_that_fits() -> None:
    assert [format_count(number, "file") for number in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert [choose_form(number, "is", "are") for number in (0, 1, 2)] == ["are", "is", "are"]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_no_template_chooses_a_plural_by_itself(template: object) -> None:
    text = (FOLDER / "templates" / str(template)).read_text()
    found = [match[0] for match in BY_HAND.finditer(text)]
    assert [each for each in found if not each.replace("</b>", "").endswith(NO_PLURALS)] == []
