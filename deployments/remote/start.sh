# How the wrapper of a launch, $DIR/run, is started, for launch.sh: exactly one process that does not end with us.
# WAY: wrapper or transient. RUNNER: how systemd-run is called here. UNIT: of this launch. STOP_SECONDS: how long
# systemd waits after SIGTERM. OPEN_FILES, LOCKED_MEMORY: "soft hard", in files and bytes; empty: the login's own.

start_wrapper() {
    # Raised and lowered for the server only, after the last file that we write ourselves.
    set_limit n $OPEN_FILES
    set_limit l $LOCKED_MEMORY
    umask "$UMASK"
    case $WAY in
    transient) start_transient ;;
    *) start_detached ;;
    esac
}

# ulimit takes KiB where the kernel says bytes.
set_limit() {
    [ $# = 3 ] || return 0
    SOFT=$2 HARD=$3
    if [ "$1" = l ]; then
        [ "$SOFT" = unlimited ] || SOFT=$((SOFT / 1024))
        [ "$HARD" = unlimited ] || HARD=$((HARD / 1024))
    fi
    # The soft one is never above the hard one, neither on the way up nor down.
    ulimit -S "-$1" "$SOFT" 2> /dev/null
    ulimit -H "-$1" "$HARD" 2> /dev/null
    ulimit -S "-$1" "$SOFT" 2> /dev/null || say limit "$1" "$2"
}

# -f and no "&": a background job of a shell would ignore SIGINT and SIGQUIT for ever, and its children too. Where we
# are below one ourselves (the panel's own machine, a panel started with "&"), only env can undo it, since coreutils 8.31.
start_detached() {
    RESET=''
    while read -r KEY MASK; do [ "$KEY" != SigIgn: ] || break; done < /proc/self/status
    MASK=${MASK:-6} # of signals; SIGINT is the second, SIGQUIT the third
    if [ $((0x${MASK#"${MASK%?}"} & 6)) != 0 ]; then
        RESET='env --default-signal=INT,QUIT'
        $RESET true 2> /dev/null || RESET=''
    fi
    $RESET setsid -f sh "$DIR/run" "$DIR" < /dev/null > /dev/null 2>&1 3<&- 9>&- ||
        { forget_secrets "$DIR"; refuse "setsid -f failed (package util-linux)"; }
}

# A service of systemd gets none of the login's environment and limits: it is given both.
start_transient() {
    (umask 077 && export -p > "$DIR/environment") ||
        { forget_secrets "$DIR"; refuse "cannot write in $DIR: the disk may be full"; }
    TEXT=$(timeout -k 2 20 $RUNNER --quiet --collect --unit="$UNIT" \
        -p Type=exec -p KillMode=control-group -p SendSIGKILL=yes -p "TimeoutStopSec=$STOP_SECONDS" \
        -p "UMask=$UMASK" -p "WorkingDirectory=$PWD" \
        -p "LimitNOFILE=$(limits n 1)" -p "LimitMEMLOCK=$(limits l 1024)" \
        -- sh "$DIR/run" "$DIR" "$UNIT" 2>&1 < /dev/null 3<&- 9>&-) && return 0
    # It may have been started all the same, and only the answer is lost: then its wrapper has begun.
    ! forbid "$DIR" || refuse "systemd-run: $(printf '%s\n' "$TEXT" | sed -n '$p')"
}

# "soft:hard" of limit $1 as systemd takes it; ulimit counts in units of $2 bytes.
limits() {
    for KIND in S H; do
        VALUE=$(ulimit "-$KIND" "-$1")
        [ "$VALUE" = unlimited ] && VALUE=infinity || VALUE=$((VALUE * $2))
        [ "$KIND" = S ] && printf '%s:' "$VALUE" || printf '%s' "$VALUE"
    done
}
