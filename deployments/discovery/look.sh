# Looks at the servers that run on a machine and changes nothing on it. Sent on stdin after lines that set TOKEN, ASK
# and PIDS. ASK: commands (of every process), or servers (more of each of PIDS). Frames as the probe's (probe.sh).
LC_ALL=C
export LC_ALL
MAX_COMMANDS=4194304
MAX_ENVIRON=1048576

begin() { printf '\n@relaunch %s section %s\n' "$TOKEN" "$1"; }
done_with() { printf '\n@relaunch %s status %s\n' "$TOKEN" "$1"; }

look_at_commands() {
    begin commands
    grep -azH '' /proc/[0-9]*/cmdline 2> /dev/null | head -c "$MAX_COMMANDS"
    done_with 0
}

# Where process $1 found the program that its command line names: by its own PATH, from its own directory.
program_of() {
    WORD=$(head -c 4096 "/proc/$1/cmdline" | tr '\0' '\n' | head -n 1)
    case $WORD in
        /*) printf '%s\n' "$WORD" ;;
        */*) printf '%s/%s\n' "$CWD" "$WORD" ;;
        *)
            SEARCHED=$(tr '\0' '\n' 2> /dev/null < "/proc/$1/environ" | sed -n 's/^PATH=//p' | head -n 1)
            OLD=$IFS
            IFS=:
            set -f
            for PLACE in $SEARCHED; do
                [ -f "$PLACE/$WORD" ] && [ -x "$PLACE/$WORD" ] && { printf '%s\n' "$PLACE/$WORD"; break; }
            done
            set +f
            IFS=$OLD
            ;;
    esac
}

look_at_server() {
    CWD=$(readlink "/proc/$1/cwd" 2> /dev/null)
    begin "cwd.$1"
    printf '%s' "$CWD"
    [ -n "$CWD" ]
    done_with $?
    begin "environ.$1"
    head -c "$MAX_ENVIRON" "/proc/$1/environ" 2> /dev/null
    done_with $?
    PROGRAM=$(program_of "$1")
    begin "program.$1"
    printf '%s' "$PROGRAM"
    # The very file that runs: a name that leads elsewhere by now would start another program.
    [ -n "$PROGRAM" ] && [ "$PROGRAM" -ef "/proc/$1/exe" ]
    done_with $?
}

printf '\n@relaunch %s begin\n' "$TOKEN"
case $ASK in
    commands) look_at_commands ;;
    servers) for PID in $PIDS; do look_at_server "$PID"; done ;;
esac
printf '\n@relaunch %s end\n' "$TOKEN"
exit
