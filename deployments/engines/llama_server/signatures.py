"""Why llama-server did not start, in its own words. PURE."""

from __future__ import annotations

from deployments.engines.common.signatures import COMMON_SIGNATURES
from deployments.engines.signature import Signature, cause, vague

FREE_MEMORY = "Put fewer layers on the card (-ngl), shorten the context (-c), use more cards, or free the card first."

SIGNATURES: tuple[Signature, ...] = (
    cause(
        "cudaMalloc failed: out of memory",
        says="Card {card} ran out of memory: it wanted {what} more.",
        fix=FREE_MEMORY,
        pattern=r"allocating (?P<what>[\d.]+ MiB) on device (?P<card>\d+)",
        about_memory=True,
    ),
    cause(
        "cudaMalloc failed: out of memory",
        "failed to allocate CUDA",
        "unable to allocate CUDA",
        says="A card ran out of memory while the server started.",
        fix=FREE_MEMORY,
        about_memory=True,
    ),
    cause(
        "couldn't bind HTTP server socket",
        says="Port {port} is already taken by another process.",
        fix="Stop the other server, or give this deployment another port.",
        pattern=r"port: (?P<port>\d+)",
    ),
    cause(
        "failed to open",
        says="The model file is not there: {what}",
        fix="Correct the model path in the profile, or mount the directory into the container.",
        pattern=r"failed to open (?:GGUF file )?'?(?P<what>[^':]+)'?.*No such file or directory",
    ),
    cause(
        "unknown model architecture",
        says="This llama.cpp does not know the model's architecture: {what}.",
        fix="Use a newer llama.cpp on this host.",
        pattern=r"unknown model architecture: '(?P<what>[^']+)'",
    ),
    cause(
        "data is not within the file bounds",
        "invalid magic",
        says="The model file is damaged, not complete, or no GGUF file.",
        fix="Download the model again, and compare its size.",
    ),
    cause(
        "error: invalid argument:",
        says="The engine does not know a flag of this revision: {what}",
        fix="Remove or rename the flag: it may have changed with the engine's version.",
        pattern=r"error: invalid argument: (?P<what>.+)",
    ),
    vague(
        "exiting due to HTTP server error",
        says="Its port could not be had: most often another process has it.",
        fix="Stop the other server, or give this deployment another port.",
    ),
    vague(
        "failed to create context with model",
        "failed to initialize the context",
        says="There was no room for the context.",
        fix=FREE_MEMORY,
    ),
    vague(
        "error loading model",
        "failed to load model",
        "exiting due to model loading error",
        says="llama.cpp could not load the model file.",
        fix="Check that the GGUF file at the model path is there and complete.",
    ),
    *COMMON_SIGNATURES,
)
