"""Any other command: the profile says which text in its log means ready. PURE."""

from __future__ import annotations

from deployments.engines.base import COMMON_SIGNATURES, Engine, completion_request

CUSTOM = Engine(
    key="custom",
    label="Any other command",
    default_port=8000,
    completion=completion_request(),
    signatures=COMMON_SIGNATURES,
)
