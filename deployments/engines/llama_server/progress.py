"""The stages of llama-server's start. PURE."""

from __future__ import annotations

from deployments.engines.stage import stage

STAGES = (
    stage("opening the model file", "main: loading model", "load_model: loading model"),
    stage("loading the weights", "load_tensors: "),
    stage("setting up the memory for requests", "llama_kv_cache", "llama_context: "),
    stage("warming up", "warming up the model"),
    stage("opening its port", "model loaded"),
    stage("ready", "server is listening on ", "main: listening on "),
)
