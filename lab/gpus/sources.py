"""What is compiled for the simulated GPUs: output, sources below lab/, extra flags (for `lab.build`)."""

_STATE = ("gpus/state.c", "gpus/context.c")
_HOLD = (*_STATE, "gpus/hold.c", "gpus/device.c", "gpus/watcher.c")
_SMI = tuple(f"gpus/{name}.c" for name in ("smi", "smi_args", "smi_query", "smi_apps", "smi_table", "process", "fault"))
_NVML = tuple(
    f"gpus/{name}.c" for name in ("nvml", "nvml_facts", "nvml_health", "nvml_mig", "nvml_process", "process", "fault")
)

SOURCES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("nvidia-smi", (*_SMI, *_HOLD), ()),
    (
        "libnvidia-ml.so.1",
        (*_NVML, *_HOLD),
        ("-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"),
    ),
    ("libfakegpu.so", _HOLD, ("-shared", "-fPIC", "-Wl,-soname,libfakegpu.so")),
    ("gpu-hold", (*_HOLD, "gpus/gpu_hold.c"), ()),
    ("gpu-odd", (*_HOLD, "gpus/gpu_odd.c"), ("-pthread",)),
    ("standin", (*_HOLD, "engines/standin.c"), ()),
)
