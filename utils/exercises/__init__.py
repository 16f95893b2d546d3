"""Exercises: `check("02-guard", answer)` judges a learner's answer; lesson_NN.py has the exercises of a lesson."""

from utils.exercises.judging import check, progress_line

__all__ = ["check", "progress_line"]
