"""First-phase statuses against the recorded cases: agreement by status, and every disagreement listed with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from conformance import outcomes

LISTED = Path(__file__).parent / "conformance_disagreements.txt"


def listed() -> dict[int, str]:
    """Case number -> operator and reason, as the file has them: ``12: aclnnName, reason``."""
    lines = LISTED.read_text(encoding="utf-8").splitlines()
    rows = (line.split(":", 1) for line in lines if line and not line.startswith("#"))
    return {int(number): text.strip() for number, text in rows}


def test_agreement(shared: Path, record_property: Callable[[str, object], None]) -> None:
    results = list(outcomes(shared / "conformance" / "phase1_status.jsonl.gz"))
    total = Counter(str(o.expected) for o in results)
    agreeing = Counter(str(o.expected) for o in results if o.agrees)
    share = {status: agreeing[status] / total[status] for status in total}
    record_property("agreement", sum(agreeing.values()) / len(results))
    assert len(results) == 3452
    assert share["161001"] == 1.0
    assert share["161002"] >= 0.95
    assert share["0"] >= 0.95
    assert sum(agreeing.values()) / len(results) >= 0.98
    wrong = {o.number: f"{o.operator}: expected {o.expected}, got {o.got} {o.detail}" for o in results if not o.agrees}
    assert set(wrong) == set(listed()), {n: wrong.get(n, "agrees now") for n in set(wrong) ^ set(listed())}


def test_every_listed_disagreement_has_a_reason() -> None:
    for number, text in listed().items():
        operator, _, reason = text.partition(",")
        assert operator.startswith("acl") and len(reason.strip()) > 20, f"{number}: {text}"
