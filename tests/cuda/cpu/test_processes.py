"""The engine's threads of the CPU: in a process that forks, and in one that is interrupted, the next launch runs."""

import multiprocessing
import os
import platform

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
SOURCE += "\n__global__ void look(int* x) { int i = 0; while (x[i] != 1) i = (i + 1) % 32; x[32] = i; }"
for name in ("spin", "meet", "vote", "look"):
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
INTERRUPTED = [f"{name} {blocks}" for name in ("spin", "meet", "vote", "look") for blocks in (1, 100)]


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


ALARMS = r"""
class TimeOut(Exception):
    pass
def stops(*_):
    raise TimeOut
calls, never, flags = [], torch.zeros(32, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
spin, announced = compile_kernel(SOURCE, "spin"), compile_kernel(SOURCE, "announced")
works()
signal.signal(signal.SIGALRM, stops)
for case, run in {"launch": lambda: spin[4, 32](never), "interval": lambda: spin[1, 32](never)}.items():
    signal.setitimer(signal.ITIMER_REAL, 0.3, 0.4 if case == "interval" else 0)
    try:
        run()
    except TimeOut:
        signal.setitimer(signal.ITIMER_REAL, 0)
        tell(case, works=works())
signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
def ends_soon():
    while not flags[1]:  # it does not run yet
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGALRM)
    time.sleep(0.05)
    flags[0] = 1
threading.Thread(target=ends_soon).start()
announced[4, 32](flags)
left = signal.getitimer(signal.ITIMER_REAL)
time.sleep(1.2)
tell("in time", calls=len(calls), left=left, works=works())
"""


@pytest.mark.alone
def test_an_alarm_ends_a_kernel_that_does_not_end_by_itself():
    told = cases(ALARMS)
    assert told["launch"]["works"] and told["interval"]["works"], told
    assert told["in time"] == {"calls": 1, "left": [0, 0], "works": True}


ELSEWHERE = r"""
announced, never, found = compile_kernel(SOURCE, "announced"), torch.zeros(64, dtype=torch.int32), []
def launch():
    try:
        announced[4, 32](never)
    except Exception as error:
        found.append(repr(error))
thread, raised = threading.Thread(target=launch), None
try:
    thread.start()
    while not never[1]:  # it runs
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    thread.join()
except KeyboardInterrupt:
    raised = "KeyboardInterrupt"
thread.join(HANGS)
tell("thread", raised=raised, found=found, works=works())
"""
ELSEWHERE += r'''
from utils import load_cuda
module = load_cuda("""#include <torch/types.h>
#include <chrono>
#include <dlfcn.h>
#include <unistd.h>
__global__ void add(int* x) { atomicAdd(x + threadIdx.x % 32, 1); }
void without_end(torch::Tensor x, int64_t told) {
    write(told, "it runs\\n", 8);
    for (;;) add<<<64, 1024>>>(x.data_ptr<int>());
}
torch::Tensor with_result(torch::Tensor x, int64_t told) { without_end(x, told); return x; }
void asks_loader() {  // which locks itself while it answers
    Dl_info found;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
    while (std::chrono::steady_clock::now() < end) dladdr(reinterpret_cast<void*>(&without_end), &found);
}
""", "void without_end(torch::Tensor x, int64_t told); torch::Tensor with_result(torch::Tensor x, int64_t told);"
"void asks_loader();", ["without_end", "with_result", "asks_loader"])
import subprocess, sys
class Interrupts:  # this process, 0.1 s after something was written to `told`
    def __enter__(self):
        text = f"read told && sleep 0.1 && kill -INT {os.getpid()}"
        self.process = subprocess.Popen(["sh", "-c", text], stdin=subprocess.PIPE)
        self.told = self.process.stdin.fileno()
        return self
    def __exit__(self, *_):
        self.process.communicate()
raised = []
for _ in range(100):  # what a launch holds, such as its share of all stacks, it gives back
    with Interrupts() as interrupts:
        try:
            module.without_end(never, interrupts.told)
        except KeyboardInterrupt:
            raised.append("KeyboardInterrupt")
tell("host", raised=raised, works=works())
heard = []
others = signal.signal(signal.SIGINT, lambda *_: heard.append(None))
often = f"import os, time\nfor _ in range(5000): os.kill({os.getpid()}, {signal.SIGINT}), time.sleep(0.0005)"
storm = subprocess.Popen([sys.executable, "-c", often])
while storm.poll() is None:
    try:
        module.asks_loader()
    except RuntimeError:  # the function itself was running, not the loader
        pass
signal.signal(signal.SIGINT, others)
tell("loader", heard=len(heard), works=works())
def call():
    try:
        found.append(module.with_result(never, interrupts.told))
    except Exception as error:
        found.append(repr(error))
thread, raised = threading.Thread(target=call), None
with Interrupts() as interrupts:
    try:
        thread.start()
        thread.join()
    except KeyboardInterrupt:
        raised = "KeyboardInterrupt"
    thread.join(HANGS)
tell("host in a thread", raised=raised, found=found[1:], works=works())
'''


def test_an_interruption_of_a_launch_elsewhere_is_no_silence_and_no_loop_without_end():
    told = cases(f"HANGS = {HANGS}\n{ELSEWHERE}")
    thread = told["thread"]
    assert thread["raised"] == "KeyboardInterrupt" and thread["works"]
    assert thread["found"] == ["RuntimeError('announced was interrupted before all of its blocks had run')"]
    assert told["host"] == {"raised": ["KeyboardInterrupt"] * 100, "works": True}
    assert told["loader"]["heard"] >= 20 and told["loader"]["works"]  # Python hears of some once, as a call ends
    interrupted = ["RuntimeError('with_result was interrupted')"]
    assert told["host in a thread"] == {"raised": "KeyboardInterrupt", "found": interrupted, "works": True}


ONCE = r"""
import subprocess, sys
announced, flag = compile_kernel(SOURCE, "announced"), torch.zeros(2, dtype=torch.int32)
def end_and_interrupt():  # at the same time
    while not flag[1]:
        pass
    flag[0] = 1
    os.kill(os.getpid(), signal.SIGINT)
def interruptions():
    count, thread = 0, threading.Thread(target=end_and_interrupt)
    flag.zero_()
    try:
        try:
            thread.start()
            announced[100, 64](flag)
            thread.join()
        except KeyboardInterrupt:
            count += 1
        thread.join()
        works()
    except KeyboardInterrupt:
        count += 1
    return count
works()
others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
try:
    tell("once", counts=[interruptions() for _ in range(80)])
finally:
    for other in others:
        other.kill()
"""


def test_one_interruption_is_one_also_where_a_kernel_ends_at_that_moment():
    assert cases(ONCE).get("once") == {"counts": [1] * 80}


# ---- what the launching thread has set ------------------------------------------------------------------------------

SETTINGS = r'''
text = """__global__ void halve(const float* x, float* y) { int i = 256 * blockIdx.x + threadIdx.x; y[i] = x[i] / 2; }
__global__ void far(float* x) { x[1000000000LL * (1 + blockIdx.x)] = 1; }"""
halve, far = compile_kernel(text, "halve"), compile_kernel(text, "far")
x = torch.full((256 * 256,), 1e-38)
def zeros():
    y = torch.full_like(x, 1)
    halve[256, 256](x, y)
    return int((y == 0).sum())
def with_signals_blocked():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGSEGV, signal.SIGINT})
    torch.set_flush_denormal(True)
    flushed.append(zeros())
    torch.set_flush_denormal(False)
flushed = []
thread = threading.Thread(target=with_signals_blocked)
thread.start()
thread.join()
kept, errors = [zeros() for _ in range(20)], 0
for _ in range(20):
    try:
        far[64, 32](x)
    except RuntimeError:
        errors += 1
tell("settings", flushed=flushed, kept=kept, errors=errors)
'''


def test_threads_that_help_compute_and_take_signals_as_the_one_that_launches():
    told = cases(SETTINGS)
    assert "settings" in told, f"the process ended with {told['process']}"
    assert told["settings"]["kept"] == [0] * 20 and told["settings"]["errors"] == 20
    if platform.machine() == "x86_64":
        assert told["settings"]["flushed"] == [256 * 256]
