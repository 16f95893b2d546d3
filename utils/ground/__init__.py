"""What every room may use: progress bars, colours, errors, and questions about the machine. Imports no other room.

`system` and `errors` need the standard library only: `manage/install` runs on them before there is a .venv.
"""
