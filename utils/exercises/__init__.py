"""Exercises: `check("02-guard", answer)` judges a learner's answer, `progress_line("02")` says what has been solved.

`exercise` defines an exercise and how to write one, `lesson_NN` holds those of a lesson, and `lessons` finds them.
`judging` judges an answer, with `running` (limits, simulated kernels), `watched` (memory that notices what threads do)
and `verdicts` (the words for the result). Notebooks call it; it may import `lesson`, `cuda`,
`cuda.common` and `kernels`.
"""

from utils.exercises.judging import check
from utils.exercises.lessons import progress_line

__all__ = ["check", "progress_line"]
