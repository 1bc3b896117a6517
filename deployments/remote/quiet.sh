# Have a unit or container stop for good that LAUNCH has started, also one that its manager is about to start again. One
# that it never came to start is somebody else's. THROUGH: the command. SECONDS_MAX: how long it may take.
same_boot
take_fence
[ -e "$BASE/launches/$LAUNCH/ordered" ] || { say quiet 0; exit 0; }
TEXT=$(timeout -k 2 "$SECONDS_MAX" sh -c "$THROUGH" 2>&1 < /dev/null 3<&- 9>&-)
STATUS=$?
case $TEXT in *"o such container"*) STATUS=0 ;; esac # what is not there starts nothing
say quiet "$STATUS" "$(printf '%s' "$TEXT" | tail -n 1)"
