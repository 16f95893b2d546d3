"""Sentences about the host's code: launches that are refused, calls that fail, memory that is not for it."""

import re

from utils.cuda.cpu.trace.words import at, does_to, element, in_line

__all__ = ["HOST", "about_host"]


def about_host(p):
    """The sentence and the hint for a `Record` of one of the kinds `HOST`."""
    return HOST[p.kind](p)


def _refused_launch(p):
    return f"{p.text}{at(p)}", "A refused kernel does not run at all: check the numbers of blocks, threads and bytes."


def _untraced_launch(p):
    return (
        f"{p.text}{at(p)}",
        "Launch it from the thread that called the function, or that runs `main`, or leave out the trace.",
    )


def _host_access(p):
    hint = "Copy it to an array of the host first: `cudaMemcpy(h, d, bytes, cudaMemcpyDeviceToHost)`."
    if p.op != "load":
        hint = "Fill an array of the host, then copy it: `cudaMemcpy(d, h, bytes, cudaMemcpyHostToDevice)`."
    if p.text == "tensor":
        hint = "Read a copy: `x.cpu()` copies the whole tensor, `x[0].item<float>()` one element."
        if p.op != "load":
            hint = "Let a kernel write it, or torch: `x.fill_(1)`, `x[i] = 1`, `x.copy_(of_host)`."
        said = f"the host {does_to(p.op, element(p))}{at(p)}"
        return f"{said}, but a kernel uses that tensor, so it is in the GPU's memory", hint
    if p.region:
        does = does_to(p.op, element(p))
        if p.copied:
            hint = "`cudaMemcpyAsync` does not wait for its copy: before this line, call "
            hint += "`cudaStreamSynchronize(stream);`."
            return f"the host {does}{at(p)} without waiting for the copy that reads it", hint
        hint = "Neither a launch nor `cudaMemcpyAsync` waits until its work is done: before this line, call "
        hint += "`cudaDeviceSynchronize();`, or `cudaStreamSynchronize` for the stream of that work."
        return f"the host {does}{at(p)} without waiting for what writes to it", hint
    return f"the host {does_to(p.op, 'memory of the device')}: {p.text}{at(p)}", hint


def _failed_call(p):
    calls = re.findall(r"\b(cu(?:da|blas)[A-Z]\w*)\s*\(", p.source or "")
    what = f"`{calls[0]}`" if len(calls) == 1 else "a CUDA call"
    hint = "The call did nothing. Check what each CUDA call returns."
    if "cudaFree" in (p.source or ""):
        hint = "Was it freed before? What malloc gave is for `free`, what cudaMallocHost gave for `cudaFreeHost`."
    elif "invalid argument" in p.text:
        hint = "Is the size in bytes, no larger than what was allocated, and is each address on the side it should be?"
    elif "out of memory" in p.text:
        hint = "Nothing was allocated, and the pointer is unchanged. Is the size what you meant, in bytes?"
    elif "invalid resource handle" in p.text:
        hint = "Does the event or the stream still exist, and has the event been recorded?"
    return f"{what} returns {p.text}{at(p)}", hint


def _host_error(p):
    hint = ""
    if "time of an event" in p.text:
        hint = "A GPU returns cudaErrorNotReady until that work is done: call `cudaEventSynchronize(stop);` first."
    return f"{p.text}{at(p)}", hint


def _stream_race(p):
    other = p.other
    where = " in the default stream" if p.text == "default before" else " in another stream"
    does = {"load": "reads", "store": "writes", "atomic": "updates"}[other.op]
    started = f", started{in_line(other)}{where}," if other.line else where
    said = f"{p.by} {does_to(p.op, element(p))}{at(p)}, which {other.by}{started} {does}"
    hint = "After the earlier work, write `cudaEventRecord(event, earlier);`, and before the later, "
    hint += "`cudaStreamWaitEvent(later, event);`. Or let the host wait in between: `cudaStreamSynchronize(earlier);`."
    if p.text:
        hint += " A stream made with `cudaStreamNonBlocking` and the default stream do not wait for each other."
    return f"{said}: nothing makes one wait for the other", hint


HOST = {
    "stream_race": _stream_race,
    "refused_launch": _refused_launch,
    "untraced_launch": _untraced_launch,
    "failed_call": _failed_call,
    "host_error": _host_error,
    "host_access": _host_access,
}
