# Send SIGNAL to exactly one process. SUDO: 1 = as root where this login may not, by sudo without a password.

# A pid that was compared may be another process's when the signal is sent. A pidfd stays the process it was opened for:
# opened first, compared then, and sent through. The shell has none, but the system's Python does (3.9 or newer), in some
# 10 ms for all of them together; a python3 of the login's own may take ten times that. util-linux has it from 2.42 on
# (kill PID:INODE), where that Python is as good as always there. The boot is the kernel's, which has not changed since
# same_boot asked for it. (_signal, for the module "signal" takes half of that time to load.)
# For Python: signal, "pid:start" words. Says of each "sent" or "gone"; nothing of those that it cannot look at or may
# not signal, and nothing at all where there are no pidfds: these go the other way.
SYSTEM_PYTHON=/usr/bin/python3
BY_PIDFD='
import os, sys, _signal

def start_of(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    dead = fields[0] == b"X" or (fields[0] == b"Z" and int(fields[17]) <= 1)
    return None if dead else int(fields[19])

def send(number, pid, start):
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return "gone"
    try:
        if start_of(pid) != start:
            return "gone"
        _signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return "gone"
    finally:
        os.close(handle)
    return "sent"

number = getattr(_signal, "SIG" + sys.argv[1])
for word in sys.argv[2:]:
    pid, start = map(int, word.split(":"))
    try:
        print("", send(number, pid, start), word, "", flush=True)
    except OSError:
        pass
'

# $1: signal; then "pid:start" words.
by_pidfd() {
    [ ! -x "$SYSTEM_PYTHON" ] || timeout -k 1 5 "$SYSTEM_PYTHON" -I -S -c "$BY_PIDFD" "$@" 2> /dev/null
}

# For a shell of root's: who it is is looked at once more there, for sudo may have taken its time. $1 signal, $2 process,
# $3 when it started, $4 BY_PIDFD, $5 Python. Ends with 3 when that one is gone, with 4 when not even root may.
BY_ROOT="$LOOK_AT"'
case $([ ! -x "$5" ] || timeout -k 1 5 "$5" -I -S -c "$4" "$1" "$2:$3" 2> /dev/null) in
*sent*) exit 0 ;;
*gone*) exit 3 ;;
esac
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

# To each of the "pid:start" words.
send_signals() {
    [ $# -gt 0 ] || return 0
    TOLD=$(by_pidfd "$SIGNAL" "$@")
    for WORD; do
        case $TOLD in
        *" sent $WORD "*) say sent "$SIGNAL" "${WORD%:*}" pidfd ;;
        *" gone $WORD "*) say gone "${WORD%:*}" ;;
        *) send_signal "${WORD%:*}" "${WORD#*:}" ;;
        esac
    done
}

# Compares and sends at once, as near together as a shell can. $1: process, $2: when it started.
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
    TEXT=$(sudo -n sh -c "$BY_ROOT" sh "$SIGNAL" "$1" "$2" "$BY_PIDFD" "$SYSTEM_PYTHON" 2>&1)
    case $? in
    0) say sent "$SIGNAL" "$1" ;;
    3) say gone "$1" ;;
    4) say denied "$1" ;;
    *) say nosudo "$1" "$(printf '%s' "$TEXT" | tail -n 1)" ;;
    esac
}
