from tests.nsight.cases.shared_memory import LAUNCHES as LAUNCHES
