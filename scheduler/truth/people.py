"""The people's joint answers: a majority; a tie counts as no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from edge.core.truth import Agreed, Answer, Question, Verdict


def agreed(answers: Iterable[Answer]) -> Mapping[Question, Agreed]:
    """The joint answer to each question: the latest answer of each person (of those that another one brought in only
    where there is none of the person's own), "unsure" ones only where no person gave another, then the most frequent
    one. Two or more that are as frequent are a tie: "unsure".
    """
    latest: dict[Question, dict[str, Answer]] = {}
    for answer in sorted(answers, key=lambda a: (a.imported_by is None, a.utc_s)):
        latest.setdefault(answer.question, {})[answer.by] = answer
    return {question: _together(list(by_person.values())) for question, by_person in latest.items()}


def _together(answers: list[Answer]) -> Agreed:
    said: Counter[tuple[Verdict, int | None]] = Counter((a.verdict, a.missed) for a in answers if a.verdict != "unsure")
    if not said:
        return Agreed("unsure", None, len(answers), False)
    (first, votes), *others = said.most_common()
    contradicted = bool(others)
    if others and others[0][1] == votes:
        return Agreed("unsure", None, len(answers), True)
    return Agreed(first[0], first[1], len(answers), contradicted)
