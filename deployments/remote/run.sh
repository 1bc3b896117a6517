# The wrapper of one launch: records who it is, becomes the server, and keeps its exit code. $1: the launch's directory.
DIR=$1
(
    read -r STAT < /proc/self/stat
    PID=${STAT%% *}
    set -- ${STAT##*) }
    shift 19
    {
        printf 'pid %s\nstart %s\n' "$PID" "$1"
        printf 'boot %s\n' "$(cat /proc/sys/kernel/random/boot_id)"
        printf 'pidns %s\n' "$(readlink /proc/self/ns/pid)"
    } > "$DIR/record.new"
    mv "$DIR/record.new" "$DIR/record"
    exec < /dev/null >> "$DIR/log" 2>&1
@COMMAND@
)
printf '%s\n' "$?" > "$DIR/exit.new"
mv "$DIR/exit.new" "$DIR/exit"
