# TOOL: how docker is called here. OLD: a container that must not run yet, or empty. START: the command that starts
# it, FIND: one that then tells its id, both for eval. CHANGE, TEXT: a file that is written first.

BY_ROOT_TEXT='
cat > "$1.new" && mv "$1.new" "$1"'

# Sets PID (0: it does not run), CODE, SINCE of container $1.
look() {
    SHOWN=$($TOOL inspect -f '{{.State.Pid}} {{.State.ExitCode}} {{.State.StartedAt}}' "$1" 2>&1) || SHOWN='0 unknown'
    read -r PID CODE SINCE << END
$SHOWN
END
}

if [ -n "$OLD" ]; then
    look "$OLD"
    [ "$PID" = 0 ] || fail "The container runs already: it was started by somebody else."
fi
if [ -n "$CHANGE" ]; then
    SAID=$(printf '%s' "$TEXT" | $AS_ROOT sh -c "$BY_ROOT_TEXT" sh "$CHANGE" 2>&1) ||
        fail "$CHANGE could not be written: $SAID"
fi
: > "$DIR/ordered"
SAID=$(eval "$START" 2>&1) || fail "The container was not started: $SAID"
rm -f "$DIR/secrets" # docker has read it
ID=$(eval "$FIND" 2>&1 | head -n 1)
[ -n "$ID" ] || fail "The container was started, and cannot be found: $SAID"
look "$ID"
if look_at "$PID"; then
    SERVER=$PID STARTED=$START
else
    # It has ended already, and under which number it ran is told by nobody: it is one that no process has.
    SERVER=$$ STARTED=1
fi
keep_record "$SERVER" "$STARTED" "$ID" || exit 0
copy_output $TOOL logs -f --since "$SINCE" "$ID"
wait_for_end "$SERVER" "$STARTED"
end_copy 50
look "$ID"
# It may have been started again since, and what it tells is of that start.
[ "$PID" = 0 ] || CODE=unknown
keep_exit "$CODE"
