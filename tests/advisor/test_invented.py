"""The advisor on programs that nobody recorded, made from what the counters would show."""

import pytest

from advisor.recorded import judge
from tests.advisor.invented import CASES
from tests.advisor.programs import record


@pytest.mark.parametrize("hz", [pytest.param(10.0, marks=pytest.mark.slow), 4.0, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_it_judges_a_program_it_has_never_seen(name: str, hz: float) -> None:
    """Label, rule and silence are what the program's author would say, at any sampling rate."""
    case = CASES[name]
    judgement = judge(record(case.program, hz=hz))
    findings = judgement.evaluation.findings
    fired = {finding.rule for finding in findings}

    assert judgement.diagnosis.bottleneck in case.labels
    assert not case.any_of or fired & set(case.any_of)
    assert not fired & set(case.never)
    if case.healthy:
        assert [f.rule for f in findings if f.severity in ("warn", "critical") or f.bottleneck not in case.labels] == []
