# The wrapper of a launch whose server somebody else starts, a unit or a container: orders the start once, records who
# the server is, copies its output into the launch's log and keeps its exit code. $1: the launch's directory.
# It carries no marker and has its own output nowhere: nobody may take it for a part of the server.
# AS_ROOT: "sudo -n", or empty. The file "ordered" tells that from then on the unit or container may run by this launch.
DIR=$1
# Made once: by us, or by a script that has given this launch up.
mkdir "$DIR/begun" || exit 0

keep_exit() {
    printf '%s\n' "$1" > "$DIR/exit.new"
    mv "$DIR/exit.new" "$DIR/exit"
    rm -f "$DIR/output" "$DIR/secrets" "$DIR/settings.yaml"
}

# Nothing was started: say why where everybody looks for it.
fail() {
    printf '%s\n' "$*" >> "$DIR/log"
    keep_exit 125
    exit 0
}

# The pipe tells those who look at the launch that the output is still on its way: it is there before the record.
# Who the server is: process $1, started at $2, in unit or container $3. One that ended at once is known by these too.
keep_record() {
    read -r BOOT < /proc/sys/kernel/random/boot_id
    SPACE=$($AS_ROOT readlink "/proc/$1/ns/pid" 2> /dev/null) || SPACE=$(readlink /proc/self/ns/pid)
    mkfifo "$DIR/output" 2> /dev/null
    printf 'pid %s\nstart %s\nboot %s\npidns %s\nunit %s\n' "$1" "$2" "$BOOT" "$SPACE" "$3" > "$DIR/record.new" &&
        mv "$DIR/record.new" "$DIR/record"
}

# The output of a command, as long as it runs, into the log. By tee, whose own output is not the log.
copy_output() {
    [ -p "$DIR/output" ] || return 0
    "$@" > "$DIR/output" 2>&1 < /dev/null &
    SOURCE=$!
    tee -a "$DIR/log" < "$DIR/output" > /dev/null 2>&1 &
    SINK=$!
}

# Its last words may be on their way: up to $1 tenths of a second, if it does not end by itself.
end_copy() {
    [ -n "$SINK" ] || return 0
    LEFT=$1
    while [ "$LEFT" -gt 0 ] && kill -0 "$SOURCE" 2> /dev/null; do
        sleep 0.1
        LEFT=$((LEFT - 1))
    done
    kill "$SOURCE" 2> /dev/null
    wait "$SINK"
}
SOURCE='' SINK=''

# Until process $1, which started at $2, is gone.
wait_for_end() {
    while look_at "$1" && [ "$START" = "$2" ]; do
        sleep 1
    done
}
