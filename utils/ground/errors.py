"""The errors of the course: one hierarchy, whose facts are fields. No code reads another error's sentence.

Standard library only, and nothing newer than Python 3.6 can read: the set-up's refusals are among them.
"""


class CourseError(RuntimeError):
    """Something that the person at the keyboard can put right.

    `wrong` says what is wrong, with the values; `fix` is the command that fixes it, "" where there is none; `line` is
    the line of the learner's source, None where there is none.
    """

    def __init__(self, wrong, fix="", line=None):
        super().__init__(sentence(wrong, fix))
        self.wrong, self.fix, self.line = wrong, fix, line


class ToolchainError(CourseError):
    """Something that compiling needs is missing from this machine, or does not fit."""


def sentence(wrong, fix=""):
    """What is wrong and the command that fixes it, in the words of every error and of the doctor."""
    return "{}. To fix it: {}".format(wrong.rstrip("."), fix) if fix else wrong
