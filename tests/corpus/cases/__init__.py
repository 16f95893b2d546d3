from tests.corpus.cases.case import *  # noqa: F403
