# The wrapper of one launch: records who it is, becomes the server, and keeps its exit code. $1: the launch's directory.
# $2: the unit of systemd that was made for it, if it is in one.
if [ -r "$1/environment" ]; then
    . "$1/environment"
    rm -f "$1/environment"
fi
DIR=$1 UNIT=$2
# Made once: by us, or by a script that has given this launch up.
mkdir "$DIR/begun" || exit 0
# systemd signals all of a unit, and we have an exit code to keep. What is caught, a subshell does not inherit.
trap : TERM
(
    read -r STAT < /proc/self/stat
    PID=${STAT%% *}
    set -- ${STAT##*) }
    shift 19
    # A server that nobody could find again must not run: no record, no start.
    read -r BOOT < /proc/sys/kernel/random/boot_id
    printf 'pid %s\nstart %s\nboot %s\npidns %s\n' "$PID" "$1" "$BOOT" "$(readlink /proc/self/ns/pid)${UNIT:+
unit $UNIT}" \
        > "$DIR/record.new" && mv "$DIR/record.new" "$DIR/record" || exit 125
    exec < /dev/null >> "$DIR/log" 2>&1
@COMMAND@
)
CODE=$?
rm -f "$DIR/secrets" "$DIR/settings.yaml"
rm -rf "/run/relaunch-${DIR##*/}"
printf '%s\n' "$CODE" > "$DIR/exit.new"
mv "$DIR/exit.new" "$DIR/exit"
