"""The labels of features that nobody gave one: what a program or a person told by its name, all else by its own name in plain words."""

from django.utils.translation import gettext


def plain_name(feature: str) -> str:
    """`--max-num-seqs` of `flag_max_num_seqs`; a variable, a description, an annotation or another name in words."""
    match feature.partition("_"):
        case "flag", _sign, name if name:
            return f"--{name.replace('_', '-')}"
        case "told", _sign, name if name:
            return gettext("{name}, as the program says").format(name=name.replace("_", " "))
        case "note", _sign, name if name:
            return gettext("annotation {name}").format(name=name)
        case "env", _sign, name if name:
            return gettext("environment variable {name}").format(name=name)
    return feature.replace("_", " ")
