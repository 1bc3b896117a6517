# One question to the driver at a time on this machine, whoever asks: the probe, the scripts that act, and NVML (nvml.py,
# which does the same in Python). For a driver may hang, and whatever asks it hangs with it: the others must not queue up
# behind that, but say so.

# Sets CARD_LOCK to the file; empty where there is no flock, or no place for it. Nobody needs to write it.
find_card_lock() {
  CARD_LOCK=
  command -v flock >/dev/null 2>&1 || return 0
  for place in /run/lock /tmp; do
    file=$place/relaunch-nvidia-smi.lock
    [ -e "$file" ] || (set -C; umask 022; : >"$file") 2>/dev/null
    if [ -f "$file" ] && [ -r "$file" ]; then
      CARD_LOCK=$file
      return 0
    fi
  done
}

# Takes it as file 8 of this shell, which nvidia-smi inherits: one that hangs keeps it, even when its shell has ended.
# $1: seconds to wait for it. Fails when another has it for longer.
lock_cards() {
  find_card_lock
  [ -n "$CARD_LOCK" ] || return 0
  command exec 8<"$CARD_LOCK" || return 0
  if [ "$1" -gt 0 ] && flock -w "$1" 8 2>/dev/null; then return 0; fi
  flock -n 8 2>/dev/null
}
