"""What rules say in docstrings and comments: found, said in another language, filled in or not."""

import pytest

from advisor.prose import comments, placeholders, texts, why, with_comments
from advisor.rule import Rule, load
from tests.advisor.test_rule_texts import said

CHINESE = "用中文说"


@pytest.mark.parametrize("rule", load(), ids=lambda rule: rule.id)
def test_a_rule_says_why_and_its_comments_can_be_said_otherwise(rule: Rule) -> None:
    """Each reason is one line; and with the values of a finding filled in, every comment is known again and the code stays."""
    known = set(texts())

    def chinese(text: str) -> str:
        return CHINESE if text in known else text

    assert why(rule.id)
    assert all(part and "\n" not in part for part in why(rule.id))
    for step in said(rule).change:
        other = with_comments(step.text, chinese)
        assert set(comments(other)) <= {CHINESE}
        assert [line.split("# ")[0] for line in other.split("\n")] == [line.split("# ")[0] for line in step.text.split("\n")]


def test_a_comment_is_said_with_its_values() -> None:
    """The translation places and repeats them as it likes; a comment that nobody knows stays as it is."""
    step = "- hidden = 7\n+ opt = AdamW8bit(params)  # 31 GiB a GPU, which fits\n#SBATCH --x  # mine"
    german = {"{lean_planned_gib:.0f} GiB a GPU, which fits": "{lean_planned_gib:.0f} GiB je GPU"}

    told = with_comments(step, lambda text: german.get(text, text))

    assert told == "- hidden = 7\n+ opt = AdamW8bit(params)  # 31 GiB je GPU\n#SBATCH --x  # mine"


@pytest.mark.parametrize(
    ("step", "names"),
    [
        ("torchrun --nproc-per-node=8 train.py", ("train.py",)),
        ("- loader = DataLoader(ds, batch_size=B)\n+ loader = DataLoader(ds, batch_size=2 * B)", ("B",)),
        ("vllm serve MODEL --max-model-len N  # a MODEL of yours", ("MODEL", "N")),
        ("kubectl cordon NODE", ("NODE",)),
        ("systemctl set-property NAME.service CPUWeight=10", ("NAME",)),
        ("#SBATCH --requeue --signal=B:USR1@300", ()),
        ("numactl --cpunodebind=$NODE ./mytrain.py", ()),
        ("OMP_NUM_THREADS=1", ()),
    ],
)
def test_placeholders_are_named(step: str, names: tuple[str, ...]) -> None:
    """Those of the code, each once; a part of a longer name, a variable of the shell and a comment are none."""
    assert placeholders(step) == names
