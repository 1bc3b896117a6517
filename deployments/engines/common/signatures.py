"""Why a start failed, in the words of what all engines are built on. PURE.

Of two that stand in one line the first here counts, so what is more exact comes first. The texts are those of argparse,
torch, NCCL, Hugging Face, uvicorn, the shell and the kernel.
"""

from __future__ import annotations

from deployments.engines.signature import Signature, cause, harmless, vague

NETWORK: tuple[Signature, ...] = (
    cause(
        "The server socket has failed to listen on any local network address",
        says="The port on which the server's own worker processes meet ({port}) is already taken.",
        fix="Give another one (SGLang: --nccl-port, vLLM: the environment's MASTER_PORT), or stop what has it.",
        pattern=r"\bport: (?P<port>\d+)",
    ),
    cause(
        "Error while creating shared memory segment",
        says="The worker processes could not share memory at {what}: /dev/shm is too small there.",
        fix="Give the container more: --ipc=host, or --shm-size=16g and more.",
        pattern=r"shared memory segment (?P<what>\S+)",
    ),
    cause(
        "NCCL error in:",
        says="The cards could not talk to each other (NCCL).",
        fix="In a container: --ipc=host or a larger --shm-size. Else set NCCL_DEBUG=INFO and read what NCCL says.",
        pattern=r"unhandled (?:system|cuda) error|invalid usage|internal error",
    ),
    cause(
        "address already in use",
        "Address already in use",
        says="Port {port} is already taken by another process.",
        fix="Stop the other server, or give this deployment another port.",
        pattern=r"bind on address \('[^']*', (?P<port>\d+)",
    ),
    cause(
        "address already in use",
        "Address already in use",
        "EADDRINUSE",
        says="The port is already taken by another process.",
        fix="Stop the other server, or give this deployment another port.",
    ),
    harmless(
        "Setup Custom allreduce failed",
        "peer access is not supported between these two devices",
        "Custom allreduce is disabled because",
        says="These cards cannot read each other's memory; the engine takes a slower way.",
        fix="--disable-custom-all-reduce silences it.",
    ),
    vague(
        "Watchdog caught collective operation timeout",
        says="One of the worker processes waited in vain for another, which was stuck, dead or still loading.",
        fix="Look in the log for the first worker that failed. Slow storage: raise --dist-timeout.",
    ),
    vague(
        "NCCL error in:",
        "Connection closed by peer",
        "Connection reset by peer",
        says="A worker process lost another one, which had ended before.",
        fix="Look in the log for the first worker that failed.",
        pattern=r"[Gg]loo|NCCL|TCPStore|c10d",
    ),
)

CARDS: tuple[Signature, ...] = (
    cause(
        "torch.OutOfMemoryError",
        "CUDA out of memory",
        says="A card ran out of memory while the server started: it wanted {what} more.",
        fix="Lower the memory fraction or the context length, use more cards, or free the card first.",
        pattern=r"Tried to allocate (?P<what>[\d.]+ [KMGT]iB)",
        about_memory=True,
    ),
    cause(
        "torch.OutOfMemoryError",
        "torch.cuda.OutOfMemoryError",
        "CUDA out of memory",
        "CUDA error: out of memory",
        says="A card ran out of memory while the server started.",
        fix="Lower the memory fraction or the context length, use more cards, or free the card first.",
        about_memory=True,
    ),
    cause(
        "CUDA error: an illegal memory access was encountered",
        says="A calculation on a card touched memory that is not its own: a fault of the engine or of the card.",
        fix="Try another attention backend, or without speculative decoding or CUDA graphs; tell the engine's makers.",
    ),
    cause(
        "CUDA error: no kernel image is available for execution on the device",
        says="This build of the engine does not support this kind of card.",
        fix="Use a build that supports it, or another card.",
    ),
    cause(
        "CUDA error: invalid device ordinal",
        says="The server wants more cards than it can see.",
        fix="Tick as many cards as the command uses (--tp-size, --tensor-parallel-size), or correct the command.",
    ),
    cause(
        "No CUDA GPUs are available",
        "no CUDA-capable device is detected",
        says="The server sees no card at all.",
        fix="Look at CUDA_VISIBLE_DEVICES in the profile, and whether the container was given the cards.",
    ),
    cause(
        "The NVIDIA driver on your system is too old",
        says="The NVIDIA driver of this host is too old for this engine: it knows CUDA {major}.{minor} at most.",
        fix="Install a newer driver on the host, or use an older build of the engine.",
        pattern=r"found version (?P<major>\d{2})0(?P<minor>\d)\d",
    ),
    cause(
        "The NVIDIA driver on your system is too old",
        "CUDA driver version is insufficient",
        says="The NVIDIA driver of this host is too old for this engine.",
        fix="Install a newer driver on the host, or use an older build of the engine.",
    ),
    cause(
        "libcudart.so.",
        says="The engine was built for CUDA {what}, which this host does not have.",
        fix="Install a newer driver and that CUDA on the host, or use another build of the engine.",
        pattern=r"libcudart\.so\.(?P<what>\d+)[\d.]*: cannot open shared object file",
    ),
    cause(
        "Could not find nvcc",
        "Ninja build failed",
        "curand_kernel.h: No such file",
        says="The engine wanted to compile code for the card and could not.",
        fix="Install the CUDA toolkit on the host and set CUDA_HOME, clear ~/.cache/flashinfer, or choose an attention "
        "backend that needs no compiler (triton, pytorch).",
    ),
    cause(
        "CalledProcessError",
        says="The engine wanted to compile code for the card and could not.",
        fix="Install the CUDA toolkit on the host and set CUDA_HOME, clear ~/.cache/flashinfer, or choose an attention "
        "backend that needs no compiler (triton, pytorch).",
        pattern=r"ninja",
    ),
)

MODEL: tuple[Signature, ...] = (
    cause(
        "are not supported for now",
        "are not supported. Supported architectures",
        "has no vLLM implementation",
        says="This version of the engine does not know the model's architecture: {what}.",
        fix="Use a newer version of the engine on this host.",
        pattern=r"(?:Model architectures )?\[?'?(?P<what>[\w', ]+?)'?\]? (?:are not supported|has no vLLM)",
    ),
    cause(
        "Transformers does not recognize this architecture",
        says="The engine's Transformers library is too old for this kind of model: {what}.",
        fix="Use a newer version of the engine on this host.",
        pattern=r"model type `(?P<what>[^`]+)`",
    ),
    cause(
        "Repo id must be in the form",
        says="The model was not found at {what}: the path is not there, or this container does not see it.",
        fix="Correct the model path in the profile, or mount the directory into the container.",
        pattern=r"namespace/repo_name': '(?P<what>[^']+)'",
    ),
    cause(
        "Repo id must be in the form",
        "Incorrect path_or_model_id",
        says="The model was not found at the path given.",
        fix="Correct the model path in the profile, or mount the directory into the container.",
    ),
    cause(
        "Cannot find any model weights with",
        says="The model's directory holds no weights: {what}.",
        fix="Finish downloading the model on this host.",
        pattern=r"weights with [`'\"]?(?P<what>[^`'\"]+)",
    ),
    cause(
        "does not appear to have a file named",
        says="The model is not complete: {what} is missing.",
        fix="Download the model again, and compare the sizes of its files.",
        pattern=r"file named (?P<what>[\w./-]+\w)",
    ),
    cause(
        "SafetensorError",
        says="A file with the model's weights is damaged or not complete.",
        fix="Download the model again, and compare the sizes of its files.",
    ),
    cause(
        "FileNotFoundError:",
        says="A file is missing: {what}",
        fix="Correct the path in the profile, or mount or finish downloading the model on this host.",
        pattern=r"No such file or directory: '(?P<what>[^']+)'",
    ),
    cause(
        "param_data.shape == loaded_weight.shape",
        says="The weights in the checkpoint have another shape than the engine expects: most often the quantization "
        "does not match.",
        fix="Correct --quantization, add the checkpoint's hf_quant_config.json, or set the draft model's to unquant.",
    ),
    cause(
        "is not divisible by weight quantization block",
        "please make sure (moe_intermediate_size=",
        says="The model's quantized weights cannot be cut into so many parts: {what}.",
        fix="Use another number of cards (--tp-size, --ep-size).",
        pattern=r"(?P<what>Weight output_partition_size = \d+|moe_intermediate_size=\d+)",
    ),
    cause(
        "is not divisible by",
        "must be divisible by tensor parallel size",
        says="The model cannot be cut into so many parts: {what}.",
        fix="Use another number of cards (--tp-size, --tensor-parallel-size).",
        pattern=r"(?:AssertionError|ValueError): (?P<what>.{3,160}?(?:is not|must be) divisible by [\w ()]*\d+\)?)",
    ),
    cause(
        "User-specified context_length",
        "User-specified max_model_len",
        says="The context asked for ({asked} tokens) is longer than the model was made for ({derived}).",
        fix="Lower --context-length (vLLM: --max-model-len), or give the model's own way to stretch it (YaRN).",
        pattern=r"\((?P<asked>\d+)\) is greater than the derived \S+ \((?:max_position_embeddings=)?(?P<derived>\d+)",
    ),
    cause(
        "Cannot access gated repo",
        "is gated. You must be authenticated",
        "You are trying to access a gated repo",
        says="The model may be downloaded only by people who have accepted its licence.",
        fix="Accept the licence on Hugging Face and give this deployment a token (HF_TOKEN), or use a local copy.",
    ),
    cause(
        "401 Client Error",
        says="The model's download was refused: no token, or not the right one.",
        fix="Give this deployment a token (HF_TOKEN) of somebody who may read the model, or use a local copy.",
        pattern=r"huggingface\.co|hf\.co",
    ),
)

HOST: tuple[Signature, ...] = (
    cause(
        "No space left on device",
        "os error 28",
        says="The disk is full.",
        fix="Free space on the host (model cache, /tmp, compile cache), or move the cache (HF_HOME), and start again.",
    ),
    cause(
        "is installed with version",
        says="{package} is too old on this host: {have} is installed, {need} is needed.",
        fix="Reinstall the engine there with what it asks for.",
        pattern=r"(?P<package>[\w.-]+) is installed with version (?P<have>\S+), which is less than the minimum "
        r"required version (?P<need>[\w.+-]*\w)",
    ),
    cause(
        "No module named",
        "Error while finding module specification for",
        says="This Python does not have the engine: {what}",
        fix="Start the command with the full path of the Python in which the engine is installed.",
        pattern=r"(?:python[\d.]*: No module named|finding module specification for) '?(?P<what>[\w.]+)",
    ),
    cause(
        "not found",
        "Permission denied",
        "No such file or directory",
        "can't open file '",
        says="The command could not be started.",
        fix="Check the path of the program in the profile and that the login may run it.",
        # Only what a shell says of the program itself: servers print these words about many a harmless file.
        pattern=r"(?:^|[\s/])(?:exec|setsid|nohup|env|sh|bash): .*"
        r"(?:not found|Permission denied|No such file or directory)|can't open file '",
    ),
    vague(
        "Killed",
        says="The server was killed, by itself or from outside.",
        fix="Read the lines above it in the log. If nothing stands there, the host's memory (RAM) was full: ask who "
        "looks after the host to look for “Out of memory” in the kernel's log.",
        pattern=r"^Killed$|: Killed\b",
    ),
)

FLAGS: tuple[Signature, ...] = (
    cause(
        "error: unrecognized arguments:",
        says="The engine does not know a flag of this revision: {what}",
        fix="Remove or rename the flag: it may have changed with the engine's version.",
        pattern=r"error: unrecognized arguments: (?P<what>.+)",
    ),
    cause(
        "error: ambiguous option:",
        says="A shortened flag could mean several: {what}",
        fix="Write the flag in full.",
        pattern=r"error: ambiguous option: (?P<what>.+)",
    ),
    cause(
        "error: argument ",
        says="The engine refuses a flag's value: {what}",
        fix="Correct the value in a new revision of the profile.",
        pattern=r"error: argument (?P<what>.+)",
    ),
    cause(
        "error: the following arguments are required:",
        says="A flag is missing without which the engine does not start: {what}",
        fix="Add it in a new revision of the profile.",
        pattern=r"arguments are required: (?P<what>.+)",
    ),
)

COMMON_SIGNATURES: tuple[Signature, ...] = (*FLAGS, *NETWORK, *CARDS, *MODEL, *HOST)
