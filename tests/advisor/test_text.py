"""Where a value may stand in a command: what its quoting would be undone by."""

import pytest

from advisor.text import within_quotes


@pytest.mark.parametrize(
    "template",
    [
        'run --name "{job}"',
        "run --name '{job}'",
        "f'{job}'",
        "echo 'a' \"b {job} c\"",
        r"echo \{job}",
        "see `kill {job}`",
        "cat <<END\n{job}\nEND",
        '{busy:.0%} "{job}"',
    ],
)
def test_a_field_that_undoes_its_quoting_is_found(template: str) -> None:
    """Within quotes of either kind, backticks or a here-document, and after a backslash."""
    assert within_quotes(template, ["job"]) == "job"


@pytest.mark.parametrize(
    "template",
    [
        "run --name {job}",
        "run --name={job} 'else'",
        'echo "a" {job} "b"',
        r"echo it\'s {job}",
        "ask the job's owner about {job}",
        "ask the users' group about {job}",
        "Don't end the owner's run: {job}",
        '{{"name": {job}}}',
        'wait "{busy:.0f}"',
    ],
)
def test_a_field_that_stands_as_a_word_may_stand(template: str) -> None:
    """Beside quotes that are closed, after an apostrophe; and what is no text is not quoted anywhere."""
    assert within_quotes(template, ["job"]) is None
