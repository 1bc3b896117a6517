"""The stages of vLLM's start. PURE."""

from __future__ import annotations

from deployments.engines.stage import DOWNLOADING, LOADING_SHARDS, counted, stage

STAGES = (
    stage("starting its worker processes", "Initializing a V1 LLM engine", "vLLM API server version"),
    DOWNLOADING,
    stage("loading the weights", "Starting to load model"),
    LOADING_SHARDS,
    stage("measuring how much memory is left", "Model loading took"),
    stage("compiling", "for torch.compile", "Compiling a graph", "Dynamo bytecode transform"),
    stage("setting up the memory for requests", "Available KV cache memory", "GPU KV cache size"),
    counted("capturing CUDA graphs", "Capturing CUDA graphs", "Capturing CUDA graph shapes"),
    stage("opening its port", "Graph capturing finished", "init engine (profile", "Starting vLLM server on"),
    stage("ready", "Application startup complete."),
)
