"""Any other command: the profile says which text in its log means ready. PURE."""

from __future__ import annotations

from deployments.engines.base import Engine
from deployments.engines.common.signatures import COMMON_SIGNATURES

CUSTOM = Engine(
    key="custom",
    label="Any other command",
    default_port=8000,
    signatures=COMMON_SIGNATURES,
)
