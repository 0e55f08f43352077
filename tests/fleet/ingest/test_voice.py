"""A clock that is set back shows in the numbers of the batches; a backlog and a resend do not look like one."""

from fleet.ingest.voice import Voice

NOW = 1_750_000_000.0


def voice() -> Voice:
    """Of a boot that has told of three seconds."""
    made = Voice(None)
    made.begins("one")
    for seq in range(3):
        step = made.follow(seq, NOW + seq)
        assert (step.set_back, step.again) == (False, False)
    return made


def test_a_higher_number_with_an_earlier_time_is_a_clock_that_was_set_back() -> None:
    """Once; the seconds that are lived through again are those up to the latest that was told of."""
    made = voice()
    steps = [made.follow(3 + second, NOW + second) for second in range(5)]

    assert [step.set_back for step in steps] == [True, False, False, False, False]
    assert [step.again for step in steps] == [True, True, True, False, False]


def test_a_lower_number_is_a_backlog_or_a_resend() -> None:
    """Whatever its time."""
    made = voice()
    steps = [made.follow(seq, NOW + seq) for seq in (0, 2, 1)]

    assert not any(step.set_back or step.again for step in steps)


def test_a_new_boot_on_a_clock_that_was_set_back_lives_through_known_seconds() -> None:
    """Numbers begin anew, so nothing is set back within the boot; what it tells of was told before."""
    made = voice()
    made.begins("two")
    step = made.follow(0, NOW)

    assert (step.set_back, step.again) == (False, True)


def test_a_jump_ahead_is_no_step_back() -> None:
    """Nothing is lived through twice."""
    step = voice().follow(3, NOW + 3600)

    assert (step.set_back, step.again) == (False, False)
