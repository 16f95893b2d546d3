"""The engine's threads of the CPU: in a process that forks, and in one that is interrupted, the next launch runs."""

import multiprocessing
import os

import pytest
import torch

from tests.cuda.cpu.limits import CORES, HANGS, SOURCE, cases
from utils import compile_kernel

pytestmark = pytest.mark.usefixtures("on_cpu")


# ---- threads that are kept ------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="only Linux lists a process's threads there")
def test_the_threads_that_help_with_a_launch_are_kept_for_the_next():
    barriers, y = compile_kernel(SOURCE, "barriers"), torch.zeros(1024, dtype=torch.int32)
    barriers[32, 32](y, 1024)
    threads = sorted(os.listdir("/proc/self/task"))
    for _ in range(100):
        barriers[32, 32](y.zero_(), 1024)
        assert (y == 1).all()
    assert sorted(os.listdir("/proc/self/task")) == threads


# ---- forks ----------------------------------------------------------------------------------------------------------

FORKS = r"""
def in_child(run):  # how it ended; what hangs ends with SIGALRM
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    signal.alarm(300)
    os._exit(0 if run() else 1)

barriers, announced = compile_kernel(SOURCE, "barriers"), compile_kernel(SOURCE, "announced")
over = threading.Event()
def launch(y):
    barriers[32, 32](y, 1024)
    return bool((y == 1).all())
def launches():  # as short as can be: nearly all of such a launch is what a mutex guards
    y = torch.zeros(1, dtype=torch.int32)
    while not over.is_set():
        barriers[1, 1](y, 1)
works()
tell("idle", ended=[in_child(works) for _ in range(3)])

thread = threading.Thread(target=launches)
thread.start()
tell("busy", ended=[in_child(lambda: launch(torch.zeros(1024, dtype=torch.int32))) for _ in range(300)])
over.set()
thread.join()

def wait_for(flag):
    while not flag[1]:
        time.sleep(0.01)
def interrupted():
    flag = torch.zeros(2, dtype=torch.int32)
    def interrupt():
        wait_for(flag)
        os.kill(os.getpid(), signal.SIGINT)
    try:
        threading.Thread(target=interrupt).start()
        announced[1, 32](flag)
    except KeyboardInterrupt:
        return works()
flag = torch.zeros(2, dtype=torch.int32)
thread = threading.Thread(target=lambda: announced[4, 32](flag))
thread.start()
wait_for(flag)
tell("interrupted", ended=[in_child(interrupted)])
flag.fill_(1)
thread.join()
tell("afterwards", ended=[0 if works() else 1])
"""


@pytest.fixture(scope="module")
def forks():
    return cases(FORKS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("case", ["idle", "busy", "interrupted", "afterwards"])
def test_a_forked_process_launches_kernels(forks, case):
    assert case in forks, f"no answer, and the process ended with {forks['process']}"
    assert not any(forks[case]["ended"]), [os.waitstatus_to_exitcode(status) for status in forks[case]["ended"]]


def _launch_and_answer(name, answers):
    x = torch.zeros(100, dtype=torch.int32)
    compile_kernel(SOURCE, name)[4, 32](x, 100)
    answers.put(x.tolist())


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_multiprocessing_by_fork():
    kernel, fork = compile_kernel(SOURCE, "barriers"), multiprocessing.get_context("fork")
    kernel[32, 32](torch.zeros(1024, dtype=torch.int32), 1024)
    answers = fork.SimpleQueue()
    child = fork.Process(target=_launch_and_answer, args=["barriers", answers])
    child.start()
    child.join(HANGS)
    hangs = child.is_alive()
    child.kill()
    child.join()
    assert not hangs and child.exitcode == 0
    assert answers.get() == [1] * 100


# ---- interruptions ---------------------------------------------------------------------------------------------------

INTERRUPTIONS = r"""
never = torch.zeros(32, dtype=torch.int32)
def interrupted(case, run):
    sent = []
    try:  # CPU seconds of this process: they do not depend on what else the machine runs
        threading.Timer(0.3, lambda: (sent.append(time.process_time()), os.kill(os.getpid(), signal.SIGINT))).start()
        run()
        raised = None
    except KeyboardInterrupt:
        raised = "KeyboardInterrupt"
    except BaseException as error:
        raised = repr(error)
    tell(case, raised=raised, seconds=time.process_time() - sent[0] if sent else None, works=works())
works()
for name in ("spin", "meet", "vote"):
    kernel = compile_kernel(SOURCE, name)
    for blocks, threads in ((1, 32), (100, 64)):
        interrupted(f"{name} {blocks}", lambda: kernel[blocks, threads](never))
for name in ("spin", "meet"):
    trace = compile_kernel(SOURCE, name).trace
    trace[1, 1](never, max_steps=10)
    interrupted(f"trace of {name}", lambda: trace[4, 64](never, max_steps=10**15))
    x.zero_()
    tell(f"after trace of {name}", ok=compile_kernel(SOURCE, "barriers").trace[8, 128](x, 1024).ok)
"""
INTERRUPTED = [f"{name} {blocks}" for name in ("spin", "meet", "vote") for blocks in (1, 100)]


@pytest.fixture(scope="module")
def interruptions():
    return cases(INTERRUPTIONS)


@pytest.mark.parametrize("case", [*INTERRUPTED, "trace of spin", "trace of meet"])
def test_an_interruption_ends_a_kernel_and_the_next_runs(interruptions, case):
    assert case in interruptions, f"no answer, and the process ended with {interruptions['process']}"
    told = interruptions[case]
    assert told["raised"] == "KeyboardInterrupt" and told["works"]
    assert told["seconds"] < 2 * CORES
    if case.startswith("trace"):
        assert interruptions[f"after {case}"]["ok"]
