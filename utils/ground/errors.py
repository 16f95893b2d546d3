"""The errors of the course: one hierarchy, whose facts are fields. No code reads another error's sentence."""


class CourseError(RuntimeError):
    """Something that the person at the keyboard can put right.

    `wrong` says what is wrong, with the values; `fix` is the command that fixes it, "" where there is none; `line` is
    the line of the learner's source, None where there is none.
    """

    def __init__(self, wrong, fix="", line=None):
        super().__init__(sentence(wrong, fix))
        self.wrong, self.fix, self.line = wrong, fix, line


def sentence(wrong, fix=""):
    """What is wrong and the command that fixes it, in the words of every error and of the doctor."""
    return "{}. To fix it: {}".format(wrong.rstrip("."), fix) if fix else wrong
