# Ask the interpreter of an engine's command which flags the engine has. Nothing of the engine is run, unless MODE is
# help. PROGRAM: the command's own first word; KIND: python, script (whose first line names its interpreter), binary.
say() { printf '@%s %s\n' "$TOKEN" "$*"; }

# The interpreter in the first line of the script $1, also as pip writes it where the path is too long for one.
interpreter_of() {
    FIRST=$(head -c 2000 "$1" 2>/dev/null | tr -d '\000' | head -n 1)
    case $FIRST in '#!'*) ;; *) return 1 ;; esac
    set -f
    set -- "$1" ${FIRST#'#!'}
    set +f
    case ${2##*/} in
        env)
            [ "$3" = -S ] && shift
            command -v "$3"
            ;;
        python*) printf '%s\n' "$2" ;;
        *) head -n 2 "$1" | sed -n "2s/^'''exec' *\(.*\) \"[\$]0\" \"[\$]@\".*/\1/p" | tr -d "\"'" ;;
    esac
}

read_flags() {
    RELAUNCH_ENGINE=$ENGINE RELAUNCH_FORM=$FORM RELAUNCH_KNOWN=$KNOWN RELAUNCH_TOKEN=$TOKEN RELAUNCH_SCRIPT=$SCRIPT
    export RELAUNCH_ENGINE RELAUNCH_FORM RELAUNCH_KNOWN RELAUNCH_TOKEN RELAUNCH_SCRIPT
    # shellcheck disable=SC2086
    "$PLACE" $OPTIONS -B - 2>"$ERRORS" <<'READER'
@READER@
READER
}

# Without cards in sight: what an engine imports must not take memory of a card.
read_help() {
    command -v timeout >/dev/null 2>&1 || { say none "There is no timeout command (coreutils) on the host."; return; }
    say help
    # shellcheck disable=SC2086
    CUDA_VISIBLE_DEVICES= COLUMNS=160 timeout -k 2 "$SECONDS_FOR_HELP" "$PLACE" $OPTIONS $HELP 2>/dev/null </dev/null |
        head -c 800000
    printf '\n'
}

main() {
    [ -z "$WORKDIR" ] || cd "$WORKDIR" 2>/dev/null || { say none "There is no directory $WORKDIR."; return; }
    PLACE=$(command -v "$PROGRAM" 2>/dev/null)
    [ -n "$PLACE" ] || { say none "There is no program $PROGRAM."; return; }
    SCRIPT=
    if [ "$MODE" = help ]; then read_help; return; fi
    if [ "$KIND" = script ]; then
        SCRIPT=$PLACE
        PLACE=$(interpreter_of "$PLACE")
        [ -n "$PLACE" ] || { say none "$PROGRAM does not say which Python runs it."; return; }
    fi
    ERRORS=/dev/null
    read_flags || say none "The Python of $PROGRAM could not read the engine's source."
}

main
say end
