# Follow one launch: its log from OFFSET, whether it lives, who listens on PORT, the memory of CARDS.
# Ends when the server ended, when nobody reads any more (SIGPIPE), or after SECONDS_MAX.
same_boot
DIR=$BASE/launches/$LAUNCH
HEX=$(printf '%04X' "$PORT")
CHUNK=65536
LISTENS=''

send_log() {
    SIZE=$(stat -c %s "$DIR/log" 2> /dev/null) || { say nolog; return; }
    if [ "$SIZE" -lt "$OFFSET" ]; then
        say truncated "$OFFSET" "$SIZE"
        OFFSET=0
    fi
    while [ "$SIZE" -gt "$OFFSET" ]; do
        N=$((SIZE - OFFSET))
        [ "$N" -le "$CHUNK" ] || N=$CHUNK
        say log "$OFFSET" "$N"
        # Exactly N bytes, also if the file was cut short since: what is missing comes as NULs.
        { tail -c "+$((OFFSET + 1))" "$DIR/log"; head -c "$N" /dev/zero; } 2> /dev/null | head -c "$N"
        printf '\n'
        OFFSET=$((OFFSET + N))
    done
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

tell_listener() {
    INODES=$(cat /proc/net/tcp /proc/net/tcp6 2> /dev/null | awk -v p=":$HEX\$" '$2 ~ p && $4 == "0A" { print $10 }')
    [ "$INODES" != "$LISTENS" ] || return 0
    LISTENS=$INODES
    [ -n "$INODES" ] || { say listen nobody; return 0; }
    FILES=''
    for ENTRY in /proc/[0-9]*; do
        is_below "${ENTRY#/proc/}" && FILES="$FILES $(ls -l "$ENTRY/fd" 2> /dev/null)"
    done
    # One that is another's is enough: it may take what is sent to the server.
    for INODE in $INODES; do
        case $FILES in *"socket:[$INODE]"*) ;; *) say listen other; return 0 ;; esac
    done
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
