# Send SIGNAL to exactly one process. SUDO: 1 = as root where this login may not, by sudo without a password.

# For a shell of root's: who it is is looked at once more there, for sudo may have taken its time. $1 signal, $2 process,
# $3 when it started. Ends with 3 when that one is gone, with 4 when not even root may.
BY_ROOT="$LOOK_AT"'
look_at "$2" && [ "$START" = "$3" ] || exit 3
kill -s "$1" "$2" 2> /dev/null || exit 4
exit 0'

# For a shell of root's: which of the "pid:start" words live, as "pid:state" words.
SEEN_BY_ROOT="$LOOK_AT"'
SEEN=
for WORD; do
    look_at "${WORD%:*}" && [ "$START" = "${WORD#*:}" ] && SEEN="$SEEN ${WORD%:*}:$STATE"
done
echo "seen:$SEEN"'

# Sets SEEN to those of "pid:start" words that live, where /proc hides them from this login. What cannot be seen has not
# ended: then this says so, and the script ends.
look_as_root() {
    TEXT=''
    [ -z "$SUDO" ] || TEXT=$(sudo -n sh -c "$SEEN_BY_ROOT" sh "$@" 2>&1)
    case $TEXT in
    *seen:*) SEEN=${TEXT##*seen:} ;;
    *) say hidden "${1%:*}" "$(printf '%s' "$TEXT" | tail -n 1)"; exit 0 ;;
    esac
}

# $1: process, $2: when it started.
send_signal() {
    if ! is_same "$1" "$2"; then
        if is_hidden "$1"; then send_as_root "$1" "$2"; else say gone "$1"; fi
    elif kill -s "$SIGNAL" "$1" 2> /dev/null; then
        say sent "$SIGNAL" "$1"
    elif ! is_same "$1" "$2"; then
        say gone "$1"
    elif [ -n "$SUDO" ]; then
        send_as_root "$1" "$2"
    else
        say denied "$1"
    fi
}

send_as_root() {
    TEXT=$(sudo -n sh -c "$BY_ROOT" sh "$SIGNAL" "$1" "$2" 2>&1)
    case $? in
    0) say sent "$SIGNAL" "$1" ;;
    3) say gone "$1" ;;
    4) say denied "$1" ;;
    *) say nosudo "$1" "$(printf '%s' "$TEXT" | tail -n 1)" ;;
    esac
}
