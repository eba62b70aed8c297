"""Five outcomes: each a label and a text, in words, with or without color."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dltutor.lessons.engine.outcomes import (
    Outcome,
    Rejected,
    Result,
    correct,
    could_not_check,
    error_in_your_code,
    not_attempted,
    not_yet,
)


def told(make: Callable[[str], Result], text: str) -> Result:
    """What a maker makes: Correct is returned, all others are raised."""
    if make is correct:
        return make(text)
    with pytest.raises(Rejected) as rejected:
        make(text)
    return rejected.value.result


makers = pytest.mark.parametrize(
    ("make", "outcome", "shown"),
    [
        (correct, Outcome.CORRECT, "Correct. 8 of 8."),
        (not_yet, Outcome.NOT_YET, "Not yet. 8 of 8."),
        (not_attempted, Outcome.NOT_ATTEMPTED, "Not attempted: 8 of 8."),
        (error_in_your_code, Outcome.ERROR, "Error in your code: 8 of 8."),
        (could_not_check, Outcome.COULD_NOT_CHECK, "Could not check here: 8 of 8."),
    ],
)


@makers
def test_an_outcome_is_a_label_and_a_text(
    make: Callable[[str], Result], outcome: Outcome, shown: str
) -> None:
    result = told(make, "8 of 8.")
    assert (result.outcome, result.text) == (outcome, "8 of 8.")
    assert str(result) == repr(result) == shown


@makers
def test_html_has_the_label_in_words_too(
    make: Callable[[str], Result], outcome: Outcome, shown: str
) -> None:
    html = told(make, "Is `a < b` so?")._repr_html_()
    assert outcome.value in html
    assert "<code>a &lt; b</code>" in html


def test_there_are_five_and_their_labels_are_what_the_course_says() -> None:
    assert [outcome.value for outcome in Outcome] == [
        "Correct",
        "Not yet",
        "Not attempted",
        "Error in your code",
        "Could not check here",
    ]


def test_right_and_wrong_differ_in_color_also() -> None:
    assert len({told(make, "x")._repr_html_().split(";")[0] for make in (correct, not_yet)}) == 2


def test_a_sentence_begins_with_a_capital_letter_wherever_a_grader_began_it() -> None:
    assert told(not_yet, "with 2 workers it hangs.").text == "With 2 workers it hangs."
