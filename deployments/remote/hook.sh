# Run a person's COMMAND as the login for at most LIMIT seconds; tell what it printed ("out", at most 40 lines of it) and
# its exit status. It runs in /: nothing of ours is in its way, and what it leaves behind does not hold our lock.
tell_hook() {
    take_fence
    cd /
    umask "$UMASK"
    TEXT=$({
        timeout -k 2 "$LIMIT" sh -c "$COMMAND" 2>&1 < /dev/null 3<&- 9>&-
        printf '\n%s\n' "$?"
    } | tail -c 4000)
    STATUS=$(printf '%s\n' "$TEXT" | tail -n 1)
    printf '%s\n' "$TEXT" | sed '$d' | grep -v '^[[:space:]]*$' | tail -n 40 | while IFS= read -r LINE; do
        say out "$LINE"
    done
    say status "$STATUS"
}
tell_hook
