"""The errors of the course: one hierarchy, whose facts are fields. No code parses another error's message.

Standard library only, and no syntax newer than Python 3.6: the set-up's refusals are among them.
"""


class CourseError(RuntimeError):
    """Something that the person at the keyboard can fix.

    `wrong` says what is wrong, with the values; `fix` is the command that fixes it, "" if there is none; `line` is
    the line of the learner's source, None if there is none.
    """

    def __init__(self, wrong, fix="", line=None):
        super().__init__(sentence(wrong, fix))
        self.wrong, self.fix, self.line = wrong, fix, line


class ToolchainError(CourseError):
    """Something needed for compiling is missing from this machine, or does not match."""


def sentence(wrong, fix=""):
    """What is wrong and the command that fixes it, as every error and the doctor word it."""
    return "{}. To fix it: {}".format(wrong.rstrip("."), fix) if fix else wrong
