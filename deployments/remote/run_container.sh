# TOOL: how docker is called here. OLD: a container that must not run yet, or empty. START: the command that starts
# it, FIND: one that then tells its id, both for eval. CHANGE, TEXT: a file that is written first. SECRETS_DIR: where a
# service of compose finds its secrets; they come in files of the launch. Empty: docker run is told of those itself.

BY_ROOT_TEXT='
cat > "$1.new" && mv "$1.new" "$1"'

# Nobody but who makes the container enters the directory; a file in it is read inside, whoever the server is there.
BY_ROOT_SECRET='
umask 077
mkdir -p "$1" && chmod 700 "$1" && cat > "$1/$2.new" && chmod "$3" "$1/$2.new" && mv "$1/$2.new" "$1/$2"'
give() {
    [ -e "$DIR/$1" ] || { $AS_ROOT rm -f "$SECRETS_DIR/$2"; return 0; }
    SAID=$($AS_ROOT sh -c "$BY_ROOT_SECRET" sh "$SECRETS_DIR" "$2" "$3" 2>&1 < "$DIR/$1") && rm -f "$DIR/$1"
}

# Of a docker run: the file has to stay where it is bound from, as docker may start the container again by itself.
keep_inside() {
    [ ! -e "$DIR/settings.yaml" ] || { mv "$DIR/settings.yaml" "$DIR/inside.yaml" && chmod 444 "$DIR/inside.yaml"; }
}

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
if [ -n "$SECRETS_DIR" ]; then
    give secrets environment 600 && give settings.yaml settings.yaml 444 ||
        fail "$SECRETS_DIR could not be written: $SAID"
else
    keep_inside || fail "$DIR/inside.yaml could not be written"
fi
: > "$DIR/ordered"
SAID=$(eval "$START" 2>&1)
DONE=$?
rm -f "$DIR/secrets" # docker has read it
if [ -n "$SECRETS_DIR" ]; then
    $AS_ROOT rm -f "$SECRETS_DIR/environment"
    $AS_ROOT rmdir "$SECRETS_DIR" 2> /dev/null
fi
[ "$DONE" = 0 ] || fail "The container was not started: $SAID"
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
[ "$($TOOL inspect -f '{{.HostConfig.RestartPolicy.Name}}' "$ID" 2>&1)" != no ] || rm -f "$DIR/inside.yaml"
keep_exit "$CODE"
