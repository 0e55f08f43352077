"""uncorrectable-ecc: memory errors that could not be corrected."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestUncorrectableEcc(RuleCases):
    """Memory errors that could not be corrected."""

    rule = "uncorrectable-ecc"
    fires: ClassVar[dict[str, Any]] = {"ecc_uncorrected_volatile": 2.0, "ecc_uncorrected_new": 1.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"note_maintenance": True}, {"ecc_uncorrected_volatile": 0.0}]
    lacks = ("ecc_uncorrected_volatile",)
