"""What every room may use: progress bars, colours, errors, and questions about the machine. Imports no other room.

Standard library only: `manage/install` runs on `system` and `errors` before there is a .venv.
"""
