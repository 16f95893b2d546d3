"""The exercises of each lesson; utils/exercises.py says how to write one."""
