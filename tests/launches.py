"""A kernel launch written down once, to be run on the CPU engine and on a GPU from the same words.

    from tests.launches import Launch, build, empty, floats

    COPY = Launch(
        name="copy_behind_the_end",                      # letters, digits, '_', '-' and '.'; unique in its list
        source=r'''
    __global__ void copy(const float* x, float* out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i <= n) out[i] = x[i];
    }
    ''',
        kernel="copy",                                   # as compile_kernel takes it: a template is 'copy<4>'
        grid=4,                                          # int or tuple up to 3, like block
        block=256,
        args=lambda: [floats(1000), empty(1000), 1000],  # made when they are needed, so that an import costs nothing
        outputs=[1],                                     # args[1] has to be written in full
    )

Both ways read the same list of arguments, made anew by every call of `args`: torch CPU tensors, contiguous, of any
dtype, a `tensor_map` of one, and Python's int, float and bool. What is random in them has a seed. Two tensors that
share memory on purpose are two views of one tensor, made inside the same `args` (a `def` is easier to read there than
a lambda):

    def misaligned():
        x = floats(1025)
        return [x[1:], empty(1024), 1024]                # x[1:] starts 4 bytes behind a multiple of 512

(a) On the engine, on any machine:  COPY.trace()  which is
    compile_kernel(COPY.source, COPY.kernel).trace[COPY.grid, COPY.block, COPY.shared_bytes](*args, outputs=[...])
    COPY.trace(order="reversed") passes its keywords on.

(b) On a GPU, as a small program of its own, under any of NVIDIA's tools:
    program = build(launches, folder)                    # writes the .cu and the inputs, runs nvcc for this GPU
    compute-sanitizer --tool racecheck <program> copy_behind_the_end
    ncu <program> all
    The program runs the launch that its argument names, or `all` in their order, and prints a line for each: its name
    and 'ok' or CUDA's error; with an error it exits with 1. An error of CUDA spoils the launches behind it, so bugs
    are run one a process. The tools name the place as line L of '<name>.cu', where <name> is the launch's (the first
    one's, where several have the same source text), and L counts in `source`, as the engine's lines do. Kernels are
    called 'source_of_<name>::copy' there, '-' and '.' turned into '_'.

A tensor gets a cudaMalloc of exactly its bytes, so that compute-sanitizer knows its end. A view that begins at a byte
of its storage keeps that place modulo 512 (its allocation is longer by as much, in front), because alignment is what
many launches are about. Tensors that overlap share one allocation, others never do. Constant memory is initialised
in the source, since nothing but the kernel's arguments is passed.
"""

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from utils.cuda.common.chosen import chosen_kernel
from utils.cuda.common.targets import target
from utils.cuda.common.tensor_map import TensorMap

__all__ = ["Launch", "build", "bytes_", "empty", "floats", "integers", "program", "write_inputs"]

_ALIGNMENT = 512  # what torch's allocator on the GPU gives every tensor; cudaMalloc gives 256 at least


@dataclass(frozen=True)
class Launch:
    """One launch of one kernel; the module's docstring shows how to write one. `shared_bytes` is dynamic memory, and
    `together` names kernels of the source that share one build on the engine, this one among them."""

    name: str
    source: str
    kernel: str
    grid: int | tuple
    block: int | tuple
    args: Callable[[], list]
    shared_bytes: int = 0
    outputs: tuple = ()
    together: tuple = ()

    def __post_init__(self):
        if not re.fullmatch(r"[\w.-]+", self.name):
            raise ValueError(f"a launch's name has letters, digits, '_', '-' and '.', but this one is {self.name!r}")

    def trace(self, **options):
        """The Trace of this launch on the engine; keywords go to `trace`."""
        from utils.cuda.kernel import Tracer

        args = self.args()
        outputs = [args[i] for i in self.outputs]
        return Tracer(self.source, self.kernel, together=self.together)[self.grid, self.block, self.shared_bytes](
            *args, outputs=outputs, **options
        )


# ---- arguments ------------------------------------------------------------------------------------------------------


def floats(*shape, seed=0, dtype=torch.float32):
    """A tensor of standard normal values."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def integers(*shape, below, seed=0, dtype=torch.int32):
    """A tensor of integers from 0 up to `below`, which is left out."""
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def bytes_(*shape, seed=0):
    """A uint8 tensor of values from 0 to 255."""
    return integers(*shape, below=256, seed=seed, dtype=torch.uint8)


def empty(*shape, dtype=torch.float32):
    """A tensor for a kernel to write, full of what no kernel writes by chance: NaN, or the bytes 0xA5."""
    numel = torch.Size(shape).numel()
    if dtype.is_floating_point:
        return torch.full(shape, float("nan"), dtype=dtype)
    return torch.full((numel * dtype.itemsize,), 0xA5, dtype=torch.uint8).view(dtype).reshape(shape)


def write_inputs(launches, folder):
    """Write each launch's arguments to `folder`/<name>.args: a header in text, then the allocations' bytes.

    The header's lines: 'bytes place' for each allocation (place: its first byte modulo 512), then an argument a line,
    'pointer allocation offset', 'number value' or 'map allocation offset' with the type, the swizzle, the number of
    dimensions and then the sizes, the strides and the box of a tensor map; before both, how many there are.
    """
    for launch in launches:
        args = launch.args()
        tensors = [arg for arg in map(_tensor, args) if arg is not None]
        blocks = _allocations(launch, tensors)
        lines = [f"{len(blocks)} {len(args)}"]
        lines += [f"{end - start} {start % _ALIGNMENT}" for _, start, end in blocks]
        for arg in args:
            if (tensor := _tensor(arg)) is not None:
                key, start, end = _extent(tensor)
                at = next(
                    k for k, block in enumerate(blocks) if block[0] == key and block[1] <= start <= end <= block[2]
                )
                kind, more = "pointer", []
                if tensor is not arg:
                    kind, more = "map", [arg.type, arg.swizzle_number, len(arg.sizes), *arg.sizes, *arg.strides]
                    more += arg.box
                lines.append(" ".join(map(str, [kind, at, start - blocks[at][1], *more])))
            elif isinstance(arg, int | float):
                lines.append(f"number {arg if isinstance(arg, float) else int(arg)!r}")
            else:
                raise TypeError(f"{launch.name}: an argument is a torch tensor, int, float or bool, not {type(arg)}")
        storages = {_extent(tensor)[0]: tensor.untyped_storage() for tensor in tensors}
        with open(Path(folder) / f"{launch.name}.args", "wb") as file:
            file.write(("\n".join(lines) + "\n").encode())
            for key, start, end in blocks:
                whole = torch.empty(0, dtype=torch.uint8).set_(storages[key])
                file.write(whole[start:end].numpy().tobytes())


def _tensor(arg):
    """The tensor that an argument is or is a map of; None for a number."""
    return arg.tensor if isinstance(arg, TensorMap) else arg if torch.is_tensor(arg) else None


def _extent(tensor):
    """The storage that holds a tensor, and its first byte there and the one behind its last."""
    start = tensor.storage_offset() * tensor.itemsize
    return tensor.untyped_storage().data_ptr(), start, start + tensor.numel() * tensor.itemsize


def _allocations(launch, tensors):
    """(storage, first byte, end) of every allocation: one a tensor, but one for all that overlap."""
    blocks = []
    for tensor in tensors:
        if tensor.device.type != "cpu" or not tensor.is_contiguous():
            raise ValueError(f"{launch.name}: tensors are contiguous and on the CPU, but one is not: {tensor.shape}")
    for key, start, end in sorted(_extent(tensor) for tensor in tensors):
        if blocks and blocks[-1][0] == key and start < blocks[-1][2]:
            blocks[-1] = (key, blocks[-1][1], max(end, blocks[-1][2]))
        else:
            blocks.append((key, start, end))
    return blocks


# ---- the program for the GPU ----------------------------------------------------------------------------------------

_HEAD = r"""// Runs one kernel launch, or all, on arguments read from the files beside the program.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
"""

_RUN = r"""
namespace run {

struct Argument {
    char* pointer = nullptr;
    std::string number;
    CUtensorMap map = {};

    // The value for a kernel's parameter of type P.
    template <class P>
    P as() const {
        if constexpr (std::is_pointer_v<P>)
            return (P)pointer;
        else if constexpr (std::is_same_v<P, CUtensorMap>)
            return map;
        else if constexpr (std::is_floating_point_v<P>)
            return (P)strtod(number.c_str(), nullptr);
        else if constexpr (std::is_integral_v<P> && std::is_unsigned_v<P>)
            return (P)strtoull(number.c_str(), nullptr, 10);
        else if constexpr (std::is_integral_v<P>)
            return (P)strtoll(number.c_str(), nullptr, 10);
        else
            return P(strtof(number.c_str(), nullptr));  // half and its kin
    }
};

inline void check(cudaError_t error) {
    if (error != cudaSuccess) throw error;
}

[[noreturn]] inline void refuse(const std::string& why) {
    fprintf(stderr, "%s\n", why.c_str());
    exit(2);
}

// A tensor map as write_inputs describes it.
struct Map {
    int type, swizzle, rank;
    cuuint64_t sizes[5], strides[5];
    cuuint32_t box[5], steps[5] = {1, 1, 1, 1, 1};

    explicit Map(FILE* file) {
        bool good = fscanf(file, "%d %d %d", &type, &swizzle, &rank) == 3 && rank >= 1 && rank <= 5;
        for (int d = 0; good && d < rank; ++d) good = fscanf(file, "%lu", &sizes[d]) == 1;
        for (int d = 0; good && d + 1 < rank; ++d) good = fscanf(file, "%lu", &strides[d]) == 1;
        for (int d = 0; good && d < rank; ++d) good = fscanf(file, "%u", &box[d]) == 1;
        if (!good) refuse("cannot understand a tensor map");
    }
    CUtensorMap of(void* tensor) const {
        static_assert(sizeof(cuuint64_t) == sizeof(unsigned long));
        void* encode = nullptr;
        cudaDriverEntryPointQueryResult found;
        check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
        CUtensorMap map;
        if (CUresult error = ((decltype(&cuTensorMapEncodeTiled))encode)(
                &map, (CUtensorMapDataType)type, rank, tensor, sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
            refuse("cuTensorMapEncodeTiled: error " + std::to_string(error));
        return map;
    }
};

// A launch's arguments in the GPU's memory, for as long as the launch lasts.
struct Arguments {
    std::vector<char*> allocations;
    std::vector<Argument> list;

    explicit Arguments(const std::string& path) {
        FILE* file = fopen(path.c_str(), "rb");
        if (!file) refuse("cannot read " + path);
        size_t blocks, count, bytes, place, at, offset;
        char kind[16], value[64];
        bool good = fscanf(file, "%zu %zu", &blocks, &count) == 2;
        std::vector<std::pair<size_t, size_t>> sizes;
        for (size_t k = 0; good && k < blocks; ++k)
            if ((good = fscanf(file, "%zu %zu", &bytes, &place) == 2)) sizes.push_back({bytes, place});
        std::vector<std::tuple<size_t, size_t, std::string, std::vector<Map>>> entries;
        for (size_t k = 0; good && k < count; ++k) {
            good = fscanf(file, "%15s", kind) == 1;
            if (good && strcmp(kind, "number")) {
                if ((good = fscanf(file, "%zu %zu", &at, &offset) == 2)) entries.push_back({at, offset, "", {}});
                if (good && !strcmp(kind, "map")) std::get<3>(entries.back()).push_back(Map(file));
            } else if (good && (good = fscanf(file, "%63s", value) == 1)) {
                entries.push_back({0, 0, value, {}});
            }
        }
        if (!good || fgetc(file) != '\n') refuse("cannot understand " + path);
        for (auto [bytes, place] : sizes) {
            std::vector<char> data(bytes);
            if (fread(data.data(), 1, bytes, file) != bytes) refuse(path + " is too short");
            char* memory = nullptr;
            if (bytes) check(cudaMalloc(&memory, place + bytes));
            allocations.push_back(memory);
            if (bytes) check(cudaMemcpy(memory + place, data.data(), bytes, cudaMemcpyHostToDevice));
        }
        fclose(file);
        for (auto& [at, offset, number, maps] : entries) {
            bool pointer = number.empty() && allocations[at];
            list.push_back({pointer ? allocations[at] + sizes[at].second + offset : nullptr, number});
            for (const Map& map : maps) list.back().map = map.of(list.back().pointer);
        }
    }

    ~Arguments() {
        for (char* memory : allocations) cudaFree(memory);
    }
};

template <class... P, size_t... I>
void start(void (*kernel)(P...), const Arguments& args, dim3 grid, dim3 block, size_t shared, bool cooperative,
           std::index_sequence<I...>) {
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = cooperative;
    cudaLaunchConfig_t config = {grid, block, shared, nullptr, &together, 1};
    check(cudaLaunchKernelEx(&config, kernel, args.list[I].template as<P>()...));
}

template <class... P>
void launch(void (*kernel)(P...), const std::string& path, dim3 grid, dim3 block, size_t shared, bool cooperative) {
    Arguments args(path);
    if (args.list.size() != sizeof...(P))
        refuse(path + ": the kernel takes " + std::to_string(sizeof...(P)) + " arguments, here are " +
               std::to_string(args.list.size()));
    if (shared > 48 * 1024)  // more than this has to be asked for
        check(cudaFuncSetAttribute((const void*)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    start(kernel, args, grid, block, shared, cooperative, std::index_sequence_for<P...>());
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
}

}  // namespace run
"""

_MAIN = r"""
int main(int count, char** words) {
    std::string self = words[0], wanted = count > 1 ? words[1] : "";
    std::string folder = self.find('/') == std::string::npos ? "." : self.substr(0, self.rfind('/'));
    bool known = false, failed = false;
    for (auto& [name, launch] : launches) {
        if (wanted != "all" && wanted != name) continue;
        known = true;
        const char* error = "ok";
        try {
            launch(folder + "/" + name + ".args");
        } catch (cudaError_t code) {
            error = cudaGetErrorString(code);
            failed = true;
        }
        printf("%s: %s%s\n", name.c_str(), failed && strcmp(error, "ok") ? "CUDA error: " : "", error);
        fflush(stdout);
    }
    if (!known) fprintf(stderr, "usage: %s NAME, a launch's or all; there is no '%s'\n", words[0], wanted.c_str());
    return known ? failed : 2;
}
"""

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)


def program(launches):
    """The CUDA C++ text of one program that can run each of the launches; their sources are in namespaces."""
    names = [_word(launch.name) for launch in launches]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:  # '-' and '.' become '_' in C++
        raise ValueError(f"launches need names of their own, but several are called {', '.join(twice)}")
    by_source = {}
    for launch in launches:
        by_source.setdefault(launch.source, []).append(launch)
    includes = dict.fromkeys(line.strip() for source in by_source for line in _INCLUDE.findall(source))
    parts = [_HEAD, "\n".join(includes), _RUN]
    for source, group in by_source.items():
        first = group[0].name
        space = _namespace(first)
        body = _INCLUDE.sub("", source)  # hoisted; the empty line keeps the numbers
        parts.append(f'namespace {space} {{\n#line 1 "{first}.cu"\n{body}\n#line 1 "launches of {first}"')
        for launch in group:
            cooperative = str(chosen_kernel(source, launch.kernel).cooperative).lower()  # it waits for the whole grid
            sizes = f"{_dim3(launch.grid)}, {_dim3(launch.block)}, {launch.shared_bytes}, {cooperative}"
            parts.append(
                f"void launch_{_word(launch.name)}(const std::string& path) "
                f"{{ ::run::launch({launch.kernel}, path, {sizes}); }}"
            )
        parts.append(f"}}  // namespace {space}")
        parts += [f"#undef {macro}" for macro in dict.fromkeys(_MACRO.findall(source))]
    rows = [
        f'    {{"{launch.name}", {_namespace(group[0].name)}::launch_{_word(launch.name)}}},'
        for launch in launches
        for group in [by_source[launch.source]]
    ]
    table = "static const std::vector<std::pair<std::string, void (*)(const std::string&)>> launches = {"
    return "\n".join([*parts, '#line 1 "main"', table, *rows, "};", _MAIN])


def _word(name):
    return re.sub(r"\W", "_", name)


def _namespace(name):
    return f"source_of_{_word(name)}"


def _dim3(size):
    return f"dim3({', '.join(map(str, size if isinstance(size, tuple | list) else (size,)))})"


def build(launches, folder, nvcc="nvcc", arch="native"):
    """Write the launches' program and inputs to `folder` and build it there with nvcc: the program's path.

    `arch` is the GPU's, 'sm_90' for instance, which becomes sm_90a where a source needs it; 'native' asks the GPU of
    this machine. Lines are kept (-lineinfo).
    Raises RuntimeError with nvcc's words if it does not build.
    """
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_inputs(launches, folder)
    (folder / "launches.cu").write_text(program(launches))
    built_for = [f"-arch={arch}"]
    if arch == "sm_90":
        number = target(90, *(launch.source for launch in launches))
        built_for = [f"-gencode=arch=compute_{number},code=sm_{number}"]
    # -w: a planted bug is often warned about
    command = [nvcc, "-std=c++17", "-O3", "-w", "-lineinfo", *built_for, "launches.cu", "-o", "launches"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed in {folder}:\n{done.stdout}{done.stderr}")
    return folder / "launches"
