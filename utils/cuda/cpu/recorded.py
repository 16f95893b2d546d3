"""How device code is built for a player: without optimization, so variables stay in memory and frames can be walked.

Certain calls of such a module reach trace/recorder_hooks.cpp first, which passes them on.
"""

__all__ = ["WRAPS", "recorded_flags"]

_ACCESSES = [
    f"__tsan_{aligned}{volatile}{what}{size}"
    for aligned in ("", "unaligned_")
    for volatile in ("", "volatile_")
    for what in ("read", "write")
    for size in (1, 2, 4, 8, 16)
]
_PLACES = ["__tsan_read_range", "__tsan_write_range", "__tsan_func_entry", "__tsan_func_exit"]
_PLACES += ["__sanitizer_cov_trace_pc"]
_RUNTIME = ["7barrierEPKc", "11barrier_sumEmPKc", "4meetEjPKc", "12grid_barrierEv", "7shuffleEjmjPKc", "6ballotEjbPKc"]
_RUNTIME += [
    "13named_barrierEjjNS_10BarrierUseEbbPKc",
    "5matchEjmPKc",
    "5touchEPKvmNS_6AccessES1_b",
    "10async_copyEPvPKvmm",
    "10async_waitEm",
    "8multiplyERKNS_3ptx7ProductEPvPKvS6_S6_PKc",
    "16transpose_matrixEj",
    "13load_matricesEPjjbj",
    "14store_matricesEjPKjjb",
    "13load_fragmentERKNS_4TileEPvPKvjbPKc",
    "14store_fragmentERKNS_4TileEPKvPvjbPKc",
    "10phase_initEPKvyPKc",
    "11phase_invalEPKvPKc",
    "12phase_arriveEPKvRKNS_7ArrivalEPKc",
    "12phase_expectEPKvyPKc",
    "14phase_completeEPKvyPKc",
    "22phase_waits_for_copiesEPKvPKc",
    "10phase_waitEPKvyPKc",
    "17phase_wait_parityEPKvbPKc",
    "10phase_overEPKvyPKcb",
    "17phase_over_parityEPKvbPKcb",
    "9bulk_loadEPvPKvjS2_jPKc",
    "10bulk_storeEPvPKvjPKc",
    "11bulk_reduceEPvPKvjS2_iiPKc",
    "11async_storeEPvPKvjS2_PKc",
    "12async_reduceEPvPKvjiiS2_PKc",
    "9bulk_waitEjb",
    "11tensor_loadEPvPKvPKiiS2_jPKc",
    "12tensor_storeEPKvPKiiS1_PKc",
    "13tensor_reduceEPKvPKiiS1_iPKc",
]  # in namespace cuda_on_cpu

#: For the linker.
WRAPS = [f"-Wl,--wrap={name}" for name in (*_ACCESSES, *_PLACES, *(f"_ZN11cuda_on_cpu{name}" for name in _RUNTIME))]


def recorded_flags(traced) -> list[str]:
    """The compiler's flags, from those for a trace: no optimization, debug information, a hook at each comparison."""
    kept = [flag for flag in traced if flag not in ("-O2", "-g1")]
    return ["-O0", "-g", "-DCUDA_ON_CPU_RECORDED", *kept, "-fno-omit-frame-pointer", "-fsanitize-coverage=trace-cmp"]
