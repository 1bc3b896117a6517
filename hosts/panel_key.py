"""Where the panel's own key is, and its public half. The web process knows no more than this: no SSH library."""

from pathlib import Path

PANEL_KEY = Path("keys", "panel_ed25519")


def public_line(data_dir: Path) -> str:
    """The line for a host's authorized_keys; empty until the worker or the monitor has made the key (keys.py)."""
    public = (data_dir / PANEL_KEY).with_suffix(".pub")
    return public.read_text().strip() if public.exists() else ""
