# Take away what the panel has left on a machine for one deployment. The server is not touched, and what it needs stays:
# each such thing is told. WRITTEN: files that were written for its unit or container, one a line. AS_ROOT: "sudo -n".

# The processes that run the wrapper of the launch in directory $1, and nothing else: by their whole command line.
wrappers_of() {
    for FILE in $(grep -lsF "$1/run" /proc/[0-9]*/cmdline); do
        case $(tr '\0' ' ' 2> /dev/null < "$FILE") in
            "sh $1/run $1 "*) WRAPPER=${FILE#/proc/}; printf '%s\n' "${WRAPPER%/cmdline}" ;;
        esac
    done
}

# The follower $1 of a server that a unit or container has started, and what copies the output for it.
end_follower() {
    CHILDREN=''
    for FILE in /proc/[0-9]*/stat; do
        PID_OF=${FILE#/proc/}
        look_at "${PID_OF%/stat}" && [ "$PARENT" = "$1" ] && CHILDREN="$CHILDREN ${PID_OF%/stat}"
    done
    kill "$1" $CHILDREN 2> /dev/null
}

# Sets SERVER_PARENT: that of the launch's server, if it lives; fails when it does not.
server_lives() {
    PID='' START_WAS='' BOOT_WAS='' UNIT=''
    while read -r KEY VALUE; do
        case $KEY in pid) PID=$VALUE ;; start) START_WAS=$VALUE ;; boot) BOOT_WAS=$VALUE ;; unit) UNIT=$VALUE ;; esac
    done < "$1/record" 2> /dev/null
    read -r BOOT_NOW < /proc/sys/kernel/random/boot_id
    [ -n "$PID" ] && [ "$BOOT_WAS" = "$BOOT_NOW" ] && is_same "$PID" "$START_WAS" || return 1
    SERVER_PARENT=$PARENT
}

# Everything of a launch but the log into which its server writes.
strip() {
    for FILE in "$1"/* "$1"/.[!.]*; do
        case $FILE in */log | */inside.yaml) ;; *) rm -rf "$FILE" ;; esac
    done
    [ ! -e "$1/inside.yaml" ] || say kept written "$1/inside.yaml"
    [ ! -e "$1/log" ] || say kept log "$1/log"
}

release_launch() {
    NEEDED=''
    server_lives "$1" || { rm -rf "$1"; return 0; }
    for WRAPPER in $(wrappers_of "$1"); do
        if [ "$WRAPPER" = "$SERVER_PARENT" ]; then
            NEEDED=1
            say kept shell "$WRAPPER"
            [ -z "$UNIT" ] || say kept unit "$UNIT"
        else
            end_follower "$WRAPPER"
        fi
    done
    if [ -e "$1/inside.yaml" ]; then NEEDED=1; rm -f "$1/log"; fi
    if [ -n "$NEEDED" ]; then KEPT=1; strip "$1"; else rm -rf "$1"; fi
}

KEPT=''
if [ -d "$BASE" ]; then
    take_fence
    for LAUNCH in "$BASE"/launches/*; do
        [ -d "$LAUNCH" ] && release_launch "$LAUNCH"
    done
    if [ -n "$KEPT" ]; then rm -rf "$BASE"/fence* "$BASE"/live* "$BASE"/lock "$BASE"/memory.*; else rm -rf "$BASE"; fi
    [ -d "$BASE" ] && [ -z "$KEPT" ] && refuse "$BASE could not be removed"
    say removed "$BASE"
    rmdir "${BASE%/*}" "$HOME/.relaunch" 2> /dev/null
fi
# Of the readings while a job verified, by which a newer one ends an older one (probe.sh).
SLOT=watch.verify-$PANEL-$DEPLOYMENT
rm -f "${XDG_RUNTIME_DIR:-/tmp}/relaunch-$(id -u)/$SLOT" "/tmp/relaunch-$(id -u)/$SLOT"
[ -z "$AS_ROOT" ] || $AS_ROOT rm -f "/tmp/relaunch-0/$SLOT" 2> /dev/null
# Of all panels and deployments of this machine: whoever needs them makes them again.
rmdir /run/lock/relaunch /tmp/relaunch-locks 2> /dev/null
printf '%s\n' "$WRITTEN" | while IFS= read -r FILE; do
    [ -n "$FILE" ] && [ -e "$FILE" ] && say kept written "$FILE"
done
say released
