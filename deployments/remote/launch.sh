# Start one server, once. Sent again with the same LAUNCH it only tells what became of it.
# MUSTS: as NEEDS, of a launch whose risk a person took.
# RUN: text of the wrapper, which start.sh starts. LIMITS: "uuid=MiB" words, memory in use at most. NEEDS: of the cards
# that have co-tenants, memory free at least. PORT. PROGRAM. WORKDIR. FORCE: 1 = a person took the risk.
# SECRETS: what the wrapper sets in the server's environment alone. SETTINGS: the engine's own file, with its key.
same_boot
take_fence
DIR=$BASE/launches/$LAUNCH

# Wait until the launch in directory $1 has told who it is. Our wrapper does so within milliseconds; a unit or container
# may take its time to start.
case $WAY in unit | container | compose | run) PATIENCE=3000 ;; *) PATIENCE=1000 ;; esac
wait_for_record() {
    now
    END=$((NOW + PATIENCE))
    while [ ! -r "$1/record" ] && [ ! -r "$1/exit" ] && [ "$NOW" -lt "$END" ]; do
        sleep 0.01
        now
    done
}

# Forbid the start of the launch in directory $1 for ever. Fails when its wrapper has begun.
forbid() {
    mkdir "$1/begun" 2> /dev/null && : > "$1/abandoned" && forget_secrets "$1"
}

forget_secrets() {
    rm -rf "$1/secrets" "$1/settings.yaml" "$1/inside.yaml" "/run/relaunch-${1##*/}"
}

# Text $2, if any, as file $1 of this launch; 0600 by the umask. printf is the shell's own: nothing of it is in argv.
keep() {
    [ -z "$2" ] || printf '%s\n' "$2" > "$DIR/$1"
}

tell_record() {
    [ "$MODE_LAUNCH" = abandon ] && forbid "$DIR"
    [ -r "$DIR/abandoned" ] && { say abandoned; exit 0; }
    wait_for_record "$DIR"
    [ -r "$DIR/record" ] && while read -r WORDS; do say record "$WORDS"; done < "$DIR/record"
    [ -r "$DIR/exit" ] && { read -r CODE < "$DIR/exit"; say exit "$CODE"; }
    [ -r "$DIR/exit" ] && [ ! -r "$DIR/record" ] && say why "$(tail -n 3 "$DIR/log" | tr '\n' ' ')"
    say "$1" "$DIR"
    exit 0
}

# The port is taken: say who has it, by the inodes of its sockets, $1, as far as this login may see.
tell_port() {
    for INODE in $1; do
        ls -lq /proc/[0-9]*/fd 2> /dev/null | while read -r WORD REST; do
            case $WORD:$REST in
            /proc/*) ENTRY=${WORD%/fd:} ;;
            *"socket:[$INODE]") read -r COMM 2> /dev/null < "$ENTRY/comm" && say portowner "${ENTRY#/proc/}" "$COMM" ;;
            esac
        done
    done
    say portbusy "$PORT"
    exit 0
}

[ -d "$DIR" ] && tell_record exists
[ "$MODE_LAUNCH" = look ] && { say absent; exit 0; }
if [ "$MODE_LAUNCH" = abandon ]; then
    mkdir "$DIR" && : > "$DIR/abandoned" || refuse "cannot make $DIR: the disk may be full"
    say abandoned
    exit 0
fi

# Another launch of this deployment that lives: never a second server.
OTHER=''
read -r OTHER 2> /dev/null < "$BASE/live" || OTHER=''
if [ -n "$OTHER" ] && [ -d "$BASE/launches/$OTHER" ] && ! forbid "$BASE/launches/$OTHER"; then
    wait_for_record "$BASE/launches/$OTHER"
    [ -r "$BASE/launches/$OTHER/record" ] || [ -r "$BASE/launches/$OTHER/exit" ] ||
        refuse "launch $OTHER of this deployment has begun and does not say which process it is"
fi
if [ -n "$OTHER" ] && [ -r "$BASE/launches/$OTHER/record" ]; then
    PID='' START_WAS='' BOOT_WAS=''
    while read -r KEY VALUE; do
        case $KEY in pid) PID=$VALUE ;; start) START_WAS=$VALUE ;; boot) BOOT_WAS=$VALUE ;; esac
    done < "$BASE/launches/$OTHER/record"
    if [ "$BOOT_WAS" = "$BOOT_NOW" ] && is_same "$PID" "$START_WAS"; then
        say live "$OTHER" "$PID"
        exit 0
    fi
fi

cd "${WORKDIR:-$HOME}" 2> /dev/null || refuse "the working directory $WORKDIR is not there"
command -v "$PROGRAM" > /dev/null 2>&1 || refuse "the program $PROGRAM is not there or may not be run"

NEWLINE='
'
# Sets USED and FREE, in MiB, of card $1. Fails when $2, one of them, was not read; then nothing is started, unless a
# person took the risk.
measure() {
    USED='' FREE=''
    while IFS=', ' read -r UUID A B LAST REST; do
        [ "$UUID" = "$1" ] || continue
        # A line with something more or less (half a number at its cut end must not pass for a smaller one), or a card
        # that is there twice, says nothing.
        [ -n "$LAST" ] && [ -z "$REST$USED$FREE" ] || A='?' B='?'
        USED=$A FREE=$B
    done << END
$READING
END
    case $USED in *[!0-9]*) USED='' ;; esac
    case $FREE in *[!0-9]*) FREE='' ;; esac
    [ -z "$USED" ] || say memory "$1" "$USED"
    eval "[ -z \"\$$2\" ]" || return 0
    [ "$FORCE" = 1 ] || { say unmeasured "$1" "${READING%%"$NEWLINE"*}"; exit 0; }
    return 1
}

read_cards() {
    lock_cards "$CARDS_PATIENCE" || { echo 'another nvidia-smi is still running'; return; }
    timeout -k 2 10 nvidia-smi --query-gpu=uuid,memory.used,memory.free,index --format=csv,noheader,nounits 2>&1 9>&-
}

# Longer than the probe's own question may take: whoever looks on must not keep a launch from being made.
CARDS_PATIENCE=13
if [ -n "$LIMITS$NEEDS$MUSTS" ]; then
    READING=$(read_cards)
    for WORD in $LIMITS; do
        measure "${WORD%=*}" USED || continue
        [ "$USED" -le "${WORD#*=}" ] || [ "$FORCE" = 1 ] || { say notfree "${WORD%=*}" "$USED" "${WORD#*=}"; exit 0; }
    done
    # What it used when it served last: with less it cannot start, whoever takes the risk.
    for WORD in $MUSTS; do
        measure "${WORD%=*}" FREE || continue
        [ "$FREE" -ge "${WORD#*=}" ] || { say notenough "${WORD%=*}" "$FREE" "${WORD#*=}"; exit 0; }
    done
    for WORD in $NEEDS; do
        measure "${WORD%=*}" FREE || continue
        [ "$FREE" -ge "${WORD#*=}" ] || [ "$FORCE" = 1 ] || { say notenough "${WORD%=*}" "$FREE" "${WORD#*=}"; exit 0; }
    done
fi

# Trying finds whoever listens too. The list of listeners is for a host on which it cannot be tried.
TRIED=$(try_port "$PORT")
case $TRIED in
free* | left*) ;;
taken*) tell_port "$(printf '%s\n' "$TRIED" | sed -n 's/^socket .* //p; s/^ss .* ino:\([0-9]*\) .*/\1/p')" ;;
*) BUSY=$(listening_on "$PORT"); [ -z "$BUSY" ] || tell_port "$BUSY" ;;
esac

# Of a launch whose host went down before its wrapper could do this itself. None lives.
rm -f "$BASE"/launches/*/secrets "$BASE"/launches/*/settings.yaml "$BASE"/launches/*/inside.yaml
for OLD in "$BASE"/launches/*; do rm -rf "/run/relaunch-${OLD##*/}"; done
mkdir "$DIR" 2> /dev/null || refuse "cannot make $DIR: the disk may be full"
{ keep secrets "$SECRETS" && keep settings.yaml "$SETTINGS" && printf '%s' "$RUN" > "$DIR/run" && : > "$DIR/log" && printf '%s\n' "$LAUNCH" > "$BASE/live.new"; } 2> /dev/null &&
    mv "$BASE/live.new" "$BASE/live" || { rm -rf "$DIR"; refuse "cannot write in $DIR: the disk may be full"; }
SECRETS='' SETTINGS='' # a login that exports variables of these names would hand them on
start_wrapper
tell_record started
