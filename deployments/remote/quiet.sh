# Have a unit or container stop for good, also one that its manager is about to start again. THROUGH: the command.
# SECONDS_MAX: how long it may take.
same_boot
take_fence
TEXT=$(timeout -k 2 "$SECONDS_MAX" sh -c "$THROUGH" 2>&1 < /dev/null 3<&- 9>&-)
say quiet "$?" "$(printf '%s' "$TEXT" | tail -n 1)"
