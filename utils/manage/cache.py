"""Shows what the course has built and kept, or removes it:  python -m utils.manage.cache [--clear]"""

import argparse
import sys

from utils.cuda.common.cache import clear, print_table
from utils.ground.errors import CourseError


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m utils.manage.cache", description=__doc__.partition(":")[0])
    parser.add_argument("--clear", action="store_true", help="remove it; what is needed again is built again")
    try:
        clear() if parser.parse_args().clear else print_table()
    except CourseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
