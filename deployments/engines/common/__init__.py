"""What all engines have in common: Python, torch, Hugging Face, the kernel. PURE."""
