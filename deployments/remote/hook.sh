# Run a person's COMMAND as the login for at most LIMIT seconds; tell what it printed ("out", at most 40 lines of it) and
# its exit status. It runs in /: nothing of ours is in its way. Its output goes into a file: whatever it leaves behind
# would keep a pipe, and our lock, for as long as it lives.
tell_hook() {
    take_fence
    : > "$BASE/hook.out" || refuse "cannot write below $BASE: the disk may be full"
    cd /
    (
        umask "$UMASK"
        exec timeout -k 2 "$LIMIT" sh -c "$COMMAND" > "$BASE/hook.out" 2>&1 < /dev/null 3<&- 9>&-
    )
    STATUS=$?
    TEXT=$(tail -c 4000 "$BASE/hook.out")
    rm -f "$BASE/hook.out"
    printf '%s\n' "$TEXT" | grep -v '^[[:space:]]*$' | tail -n 40 | while IFS= read -r LINE; do
        say out "$LINE"
    done
    say status "$STATUS"
}
tell_hook
