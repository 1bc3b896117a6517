"""The stages of SGLang's start (0.5.9 to 0.5.23). PURE."""

from __future__ import annotations

from deployments.engines.stage import DOWNLOADING, LOADING_SHARDS, counted, stage

STAGES = (
    stage("starting its worker processes", "server_args="),
    stage("connecting the cards", "Init torch distributed begin"),
    DOWNLOADING,
    stage("loading the weights", "Load weight begin"),
    LOADING_SHARDS,
    stage("setting up the memory for requests", "Load weight end", "KV Cache is allocated", "Memory pool end"),
    stage("compiling code for the cards", "DeepGEMM JIT", "DeepGEMM warmup", "flashinfer.jit"),
    counted("compiling", "Compiling num tokens"),
    stage("capturing CUDA graphs", "Capture cuda graph begin", "CUDA graph begin"),
    counted("capturing CUDA graphs", "Capturing batches", "Capturing num tokens"),
    stage("opening its port", "max_total_num_tokens=", "Waiting for application startup"),
    stage("answering its first request to itself", "Uvicorn running on"),
    stage("ready", "The server is fired up and ready to roll!"),
)
