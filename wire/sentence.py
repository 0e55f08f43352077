"""`Sentence`: an English sentence that knows the text it was made of and its values, so that the command line can say it in another language."""


def _(text: str) -> str:
    """`text` as it is, marked for translation."""
    return text


class Sentence(str):
    """`text` with its `{name:format}` fields filled in; wherever a string goes, it goes."""

    text: str
    values: dict[str, object]

    def __new__(cls, text: str, /, **values: object) -> "Sentence":
        """The English of it."""
        made = super().__new__(cls, text.format(**values))
        made.text, made.values = text, values
        return made


def of(error: BaseException) -> str:
    """The sentence that an error was raised with; else what it says."""
    return error.args[0] if error.args and isinstance(error.args[0], Sentence) else str(error)
