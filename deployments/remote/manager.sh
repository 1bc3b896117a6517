# What looks after a server says of it, by its own tools, before anything is stopped. Changes nothing.
# KIND: unit, container, supervisor or waiting; published: which container has the port NAME. NAME. TOOL. GROUP: control group. OWNER: uid of a login's own systemd;
# BECOME: how root becomes that user.
# ABOVE: pid of a supervisor, or of a parent that waits. AS_ROOT: "sudo -n", or empty.
within() { timeout -k 2 10 "$@" < /dev/null 2>&1; }

# Each line of $2 after the word $1; where the tool has failed, its last words.
tell() {
    if [ "$STATUS" != 0 ]; then
        say trouble "$(printf '%s\n' "$2" | sed -n '$p') (exit status $STATUS)"
        return
    fi
    printf '%s\n' "$2" | while IFS= read -r LINE; do say "$1" "$LINE"; done
}

if [ -n "$GROUP" ]; then
    for FILE in $(grep -lsF ":$GROUP" /proc/[0-9]*/cgroup); do
        FILE=${FILE#/proc/}
        say member "${FILE%/cgroup}"
    done
fi

case $KIND in
    unit)
        WHERE=$AS_ROOT
        [ -z "$OWNER" ] || WHERE="${BECOME:+$AS_ROOT} $BECOME env XDG_RUNTIME_DIR=/run/user/$OWNER"
        TEXT=$(within $WHERE systemctl ${OWNER:+--user} show -p Restart -p UnitFileState -p TriggeredBy \
            -p TimeoutStopUSec -- "$NAME")
        STATUS=$?
        tell unit "$TEXT"
        ;;
    container)
        [ -n "$TOOL" ] || exit 0
        TEXT=$(within $AS_ROOT "$TOOL" inspect -f '{{.Name}} {{.HostConfig.RestartPolicy.Name}}' "$NAME")
        STATUS=$?
        tell container "$TEXT"
        ;;
    published)
        TEXT=$(within $AS_ROOT docker ps --filter "publish=$NAME" --format '{{.Names}} ({{.ID}})')
        STATUS=$?
        tell published "$TEXT"
        ;;
    supervisor)
        SETTINGS=$(tr '\0' '\n' < "/proc/$ABOVE/cmdline" |
            sed -n -e '/^-c$/{n;p;q;}' -e '/^--configuration$/{n;p;q;}' -e 's/^-c\(..*\)/\1/p' -e 's/^--configuration=//p')
        [ -z "$SETTINGS" ] || say settings "$SETTINGS"
        [ -n "$TOOL" ] || exit 0
        TEXT=$(within $AS_ROOT "$TOOL" ${SETTINGS:+-c "$SETTINGS"} status)
        STATUS=$?
        # 3: all answered, and one of the programs does not run.
        [ "$STATUS" = 3 ] && STATUS=0
        tell program "$TEXT"
        ;;
    waiting)
        say command "$(tr '\0\n' '  ' 2> /dev/null < "/proc/$ABOVE/cmdline" | head -c 4000)"
        ;;
esac
