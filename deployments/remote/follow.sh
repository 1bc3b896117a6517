# Follow one launch: its log from OFFSET, whether it lives, who listens on PORT, the memory of CARDS.
# Ends when the server ended, when nobody reads any more (SIGPIPE), or after SECONDS_MAX.
# FILE: device:inode of the log that was read up to OFFSET; empty when nothing was. OVERLAP: bytes before OFFSET that are
# sent again with each frame, for whoever reads them to know by them a log that was cut and has grown past OFFSET since.
same_boot
DIR=$BASE/launches/$LAUNCH
CHUNK=262144
LISTENS=''
HELD=''  # the log is open as 4
TOLD=''  # that it was moved
AGAIN=$OFFSET  # what was read so far is shown again at first, also when nothing is new

look_at_log() {
    LOOK=$(stat -L -c '%d:%i %s' /proc/self/fd/4 2> /dev/null) || return 1
    ID=${LOOK% *} SIZE=${LOOK#* }
}

# Open $1 as 4 and keep it open: renamed or deleted, it is still the one that the server writes into.
# A name that leads elsewhere is not the log, whoever has put it there; those of /proc lead to what the server has open.
hold() {
    case $1 in /proc/*) ;; *) [ ! -L "$1" ] || return 1 ;; esac
    [ -f "$1" ] && [ -r "$1" ] && { command exec 4< "$1"; } 2> /dev/null && look_at_log
}

# Does the server write into $1? No also when its files are closed to us.
writes_into() {
    [ "$1" -ef "/proc/$PID/fd/1" ] || [ "$1" -ef "/proc/$PID/fd/2" ]
}

# Is $1 a link to this launch's log, whatever it is called now? A server may also have sent its output elsewhere.
is_log() {
    case $(readlink "$1" 2> /dev/null) in */launches/"$LAUNCH"/log*) return 0 ;; esac
    return 1
}

open_log() {
    if hold "$DIR/log"; then
        [ "$ID" != "$FILE" ] || { HELD=1; return 0; }
        if [ -z "$FILE" ] && { writes_into "$DIR/log" || ! is_log "/proc/$PID/fd/1"; }; then
            HELD=1 FILE=$ID
            return 0
        fi
    elif [ -n "$TOLD" ]; then
        return 1
    fi
    # It was moved: the server has it open, and when that has ended a name may be left.
    for AT in "/proc/$PID/fd/1" "/proc/$PID/fd/2" "$DIR"/log?*; do
        hold "$AT" || continue
        if [ "$ID" = "$FILE" ] || { [ -z "$FILE" ] && is_log "$AT"; }; then
            HELD=1 FILE=$ID TOLD=1
            say moved
            return 0
        fi
    done
    hold "$DIR/log" || { TOLD=1; say nolog; return 1; }
    if [ "$ALIVE" = 0 ] || writes_into "$DIR/log"; then say replaced; else say lost; fi
    HELD=1 FILE=$ID OFFSET=0
}

send_bytes() {
    if [ "$SIZE" -lt "$OFFSET" ]; then
        say truncated "$OFFSET" "$SIZE"
        OFFSET=0
    fi
    while [ "$SIZE" -gt "$OFFSET" ] || { [ "$AGAIN" != 0 ] && [ "$OFFSET" -gt 0 ]; }; do
        AGAIN=0
        FROM=$((OFFSET - OVERLAP))
        [ "$FROM" -ge 0 ] || FROM=0
        [ $((SIZE - OFFSET)) -le "$CHUNK" ] && OFFSET=$SIZE || OFFSET=$((OFFSET + CHUNK))
        N=$((OFFSET - FROM))
        say log "$FROM" "$N" "$FILE"
        # Exactly N bytes, also if the file was cut short since: what is missing comes as NULs.
        { tail -c "+$((FROM + 1))" /proc/self/fd/4; head -c "$N" /dev/zero; } 2> /dev/null | head -c "$N"
        printf '\n'
    done
}

send_log() {
    if [ -n "$HELD" ]; then look_at_log; else open_log; fi || return 0
    send_bytes
    [ "$DIR/log" -ef /proc/self/fd/4 ] && return 0
    [ -n "$TOLD" ] || { TOLD=1; say moved; }
    writes_into "$DIR/log" || return 0
    # The server itself has begun another one. What it wrote into the first before that has come now.
    look_at_log && send_bytes
    hold "$DIR/log" || { HELD=''; return 0; }
    FILE=$ID OFFSET=0 TOLD=''
    say renewed
    send_bytes
}

# Is $1 the launch's process or below it?
is_below() {
    UP=$1
    while [ "$UP" -gt 1 ]; do
        [ "$UP" = "$PID" ] && return 0
        look_at "$UP" || return 1
        UP=$PARENT
    done
    return 1
}

# docker's own process that passes a port of the host on to the launch's container, known by the container's address.
passes_on() {
    COMM=''
    read -r COMM 2> /dev/null < "/proc/$1/comm"
    [ "$COMM" = docker-proxy ] || return 1
    ADDRESS=$(tr '\0' '\n' 2> /dev/null < "/proc/$1/cmdline" | sed -n '/^-container-ip$/{n;p;q;}')
    [ -n "$ADDRESS" ] && grep -qwF -- "$ADDRESS" "/proc/$PID/net/fib_trie" 2> /dev/null
}

# Are all of these sockets among FILES? One that is another's is enough: it may take what is sent to the server.
have_all() {
    for INODE; do
        case $FILES in *"socket:[$INODE]"*) ;; *) return 1 ;; esac
    done
}

tell_listener() {
    INODES=$(listening_on "$PORT")
    [ "$INODES" != "$LISTENS" ] || return 0
    LISTENS=$INODES
    [ -n "$INODES" ] || { say listen nobody; return 0; }
    FILES=$(ls -lq "/proc/$PID/fd" 2> /dev/null)
    if ! have_all $INODES; then
        for ENTRY in /proc/[0-9]*; do
            { is_below "${ENTRY#/proc/}" || passes_on "${ENTRY#/proc/}"; } && FILES="$FILES $(ls -lq "$ENTRY/fd" 2> /dev/null)"
        done
        have_all $INODES || { say listen other; return 0; }
    fi
    # It has read its settings long ago: the file with its key is not needed any more.
    [ ! -e "$DIR/settings.yaml" ] || rm -rf "$DIR/settings.yaml" "/run/relaunch-${DIR##*/}"
    say listen ours
}

end_with_stdin
now
BEGIN=$NOW END=$((NOW + SECONDS_MAX * 100)) BEAT=$NOW READ=0 LISTEN=0
while :; do
    ALIVE=1
    is_same "$PID" "$START_WAS" || ALIVE=0
    HAD=$OFFSET
    send_log
    # The table of sockets is dear on a busy machine: after each line of the log, else four times a second.
    if [ "$OFFSET" != "$HAD" ] || [ "$NOW" -ge "$LISTEN" ]; then
        tell_listener
        LISTEN=$((NOW + 25))
    fi
    now
    [ -z "$READING" ] || tell_reading
    if [ "$NOW" -ge "$READ" ]; then
        tell_memory
        # Often at first, so that a quick start leaves a curve too.
        if [ $((NOW - BEGIN)) -lt 300 ]; then READ=$((NOW + 10)); else READ=$((NOW + 50)); fi
    fi
    if [ "$ALIVE" = 0 ]; then
        CODE=unknown
        [ -r "$DIR/exit" ] || sleep 0.2
        # The output of a unit or container is copied by follower.sh: its last words come a moment later.
        LEFT=80
        while [ -p "$DIR/output" ] && [ ! -r "$DIR/exit" ] && [ "$LEFT" -gt 0 ]; do
            sleep 0.1
            LEFT=$((LEFT - 1))
        done
        [ -r "$DIR/exit" ] && read -r CODE < "$DIR/exit"
        send_log
        say exited "$CODE"
        break
    fi
    [ "$NOW" -lt "$END" ] || { say deadline; break; }
    if [ $((NOW - BEAT)) -ge 50 ]; then
        say beat
        BEAT=$NOW
    fi
    # Close watch at first, then calmer: a model that loads for minutes needs no 20 ms grid.
    if [ $((NOW - BEGIN)) -lt 300 ]; then sleep 0.02; elif [ $((NOW - BEGIN)) -lt 3000 ]; then sleep 0.1; else sleep 0.5; fi
done
