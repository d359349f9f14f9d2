"""The labels that other boxes make for this one, as far as a budget counts on them. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: They are counted on where they came in so many windows, as many as in the one with the fewest.
_WINDOWS = 2


@dataclass(frozen=True)
class LabelsElsewhere:
    """`made` of the window that runs, `before` of each of the last ones."""

    made: int = 0
    before: tuple[int, ...] = (0,) * _WINDOWS

    def more(self, labels: int) -> LabelsElsewhere:
        """After other boxes made so many labels of the window that runs."""
        return replace(self, made=self.made + labels)

    def window_over(self) -> LabelsElsewhere:
        """After a window's end."""
        return LabelsElsewhere(0, (*self.before[1:], self.made))

    @property
    def expected(self) -> int:
        """The labels of a window that other boxes are expected to make."""
        return min(self.before)
