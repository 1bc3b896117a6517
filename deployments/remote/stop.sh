# Signal exactly the given processes and watch until they are gone.
# SIGNAL: a name, or empty to watch only. TARGETS and WATCHED: "pid:start" words. SECONDS_MAX: how long to watch.
# SUDO: signal.sh. SPACE: the pid namespace in which the numbers hold; empty: not known.
# THROUGH: a command by which the server's manager ends it, instead of a signal.
# ANSWER: a name for what that command says, which stays for later calls that only watch.
same_boot
take_fence

# Not waited for: the manager has time-outs of its own, and what counts is who lives.
ASKED=${ANSWER:+$BASE/asked.$ANSWER}
ask_manager() {
    rm -f "$BASE"/asked.*
    {
        TEXT=$(sh -c "$THROUGH" 2>&1)
        echo "$? $(printf '%s' "$TEXT" | tail -n 1)" > "$ASKED.new"
        mv "$ASKED.new" "$ASKED"
    } < /dev/null > /dev/null 2>&1 3<&- 9>&- &
}

tell_manager() {
    [ -n "$ASKED" ] && [ -r "$ASKED" ] || return 0
    read -r STATUS TEXT < "$ASKED"
    ASKED=''
    say manager "$STATUS" "$TEXT"
}

# Sets ALIVE to those that live, with their states, and HIDDEN to those that only root may look at.
look_at_watched() {
    ALIVE='' HIDDEN=''
    for WORD in $WATCHED; do
        if is_same "${WORD%:*}" "${WORD#*:}"; then
            ALIVE="$ALIVE ${WORD%:*}:$STATE"
        elif is_hidden "${WORD%:*}"; then
            HIDDEN="$HIDDEN $WORD"
        fi
    done
    [ -z "$HIDDEN" ] || { look_as_root $HIDDEN && ALIVE="$ALIVE$SEEN"; }
}

[ -z "$HIDES" ] || look_at_watched # nobody is signalled whose end could not be seen
[ -z "$THROUGH" ] || ask_manager

# A container that was started again has other processes by these numbers.
SAME_SPACE=1
[ -z "$SPACE" ] || [ -z "$TARGETS" ] || [ "$(readlink /proc/self/ns/pid)" = "$SPACE" ] || SAME_SPACE=''
set --
for WORD in $TARGETS; do
    if [ -n "$SAME_SPACE" ] && [ "${WORD%:*}" -gt 1 ]; then set -- "$@" "$WORD"; else say gone "${WORD%:*}"; fi
done
send_signals "$@"
flock -u 9

end_with_stdin
now
END=$((NOW + SECONDS_MAX * 100)) BEAT=$NOW PAUSE=0.02 LAST=- READ=$((NOW + 25))
while :; do
    tell_manager
    look_at_watched
    now
    if [ "$ALIVE" != "$LAST" ] || [ $((NOW - BEAT)) -ge 50 ]; then
        say alive $ALIVE
        LAST=$ALIVE BEAT=$NOW
    fi
    [ -n "$ALIVE" ] || break
    [ "$NOW" -lt "$END" ] || break
    if [ "$NOW" -ge "$READ" ]; then
        tell_memory
        READ=$((NOW + 25))
    fi
    [ $((END - NOW)) -lt $((SECONDS_MAX * 90)) ] && PAUSE=0.1
    [ -z "$HIDDEN" ] || PAUSE=1 # sudo writes each use down
    sleep "$PAUSE"
done
tell_manager
# Where in the kernel the ones wait that are left; only root may know.
for WORD in $ALIVE; do
    WAITS=''
    read -r WAITS 2> /dev/null < "/proc/${WORD%:*}/wchan"
    case $WAITS in '' | 0) ;; *) say waits "${WORD%:*}" "$WAITS" ;; esac
done
