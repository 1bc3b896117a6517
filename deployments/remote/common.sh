# Shared by the scripts of this folder. POSIX sh; needs coreutils, flock and setsid (util-linux).
# Every line for the panel is "@TOKEN word ..." with a token of this call, so that no output can pass for one.

HOME=${HOME:-/root}
BASE=$HOME/.relaunch/$PANEL/$DEPLOYMENT

LEASH=''
READING=''
at_end() {
    say end
    [ -z "$READING" ] || rm -f "$READING.new" "$READING"
    [ -z "$LEASH" ] || kill "$LEASH" 2> /dev/null
}
trap at_end EXIT

# For a script that goes on: when the panel hangs up, its end of our stdin closes, and we end at once.
end_with_stdin() {
    (read -r _; kill $$) <&3 > /dev/null 2>&1 &
    LEASH=$!
}

say() {
    printf '@%s %s\n' "$TOKEN" "$*"
}

refuse() {
    say refused "$*"
    exit 0
}

# Seconds x 100 since boot, without a fork.
now() {
    read -r NOW _ < /proc/uptime
    NOW=${NOW%.*}${NOW#*.}
}

# Is process $1 still the one that started at $2?
is_same() {
    look_at "$1" && [ "$START" = "$2" ]
}

# Where /proc hides other users' processes from this login (hidepid, proc(5)), process 1 is not there either.
HIDES=''
read -r STAT 2> /dev/null < /proc/1/stat || HIDES=1

# Is there a process $1 that cannot be looked at? Only kill tells then.
is_hidden() {
    [ -n "$HIDES" ] || return 1
    case $(LC_ALL=C; kill -0 "$1" 2>&1) in *ermitted*) return 0 ;; *) return 1 ;; esac
}

same_boot() {
    read -r BOOT_NOW < /proc/sys/kernel/random/boot_id
    [ -z "$BOOT" ] || [ "$BOOT" = "$BOOT_NOW" ] || { say rebooted "$BOOT_NOW"; exit 0; }
}

# Refuse an older worker: the fence on the host never falls. Holds the deployment's lock until the script ends.
FENCED=''
take_fence() {
    [ -z "$FENCED" ] || return 0
    command -v flock > /dev/null || refuse "flock is missing on the host (package util-linux)"
    : "${UMASK:=$(umask)}"  # the login's own, which the server gets back
    umask 077
    [ -d "$BASE/launches" ] || mkdir -p "$BASE/launches" 2> /dev/null || refuse "cannot write below $HOME/.relaunch: $(df -P "$HOME" | tail -n 1)"
    exec 9>> "$BASE/lock"
    # It may be an earlier copy of ours whose answer was lost: what it will do is not known.
    flock -w 10 9 || { say busy; exit 0; }
    HAVE=0
    read -r HAVE 2> /dev/null < "$BASE/fence" || HAVE=0
    if [ "${HAVE:-0}" -gt "$FENCE" ]; then
        say fenced "$HAVE"
        exit 0
    fi
    FENCED=1
    [ "$HAVE" != "$FENCE" ] || return 0
    { printf '%s\n' "$FENCE" > "$BASE/fence.new"; } 2> /dev/null && mv "$BASE/fence.new" "$BASE/fence" ||
        refuse "cannot write below $BASE: the disk may be full"
}

# The inodes of the sockets that listen on port $1. ss asks for listeners only; to read the files under /proc/net the
# kernel walks over all connections that there could be.
listening_on() {
    if SOCKETS=$(ss -Hltne "sport = :$1" 2> /dev/null); then
        [ -z "$SOCKETS" ] || printf '%s\n' "$SOCKETS" | sed -n 's/.* ino:\([0-9]*\) .*/\1/p'
    else
        cat /proc/net/tcp /proc/net/tcp6 2> /dev/null |
            awk -v p=":$(printf '%04X' "$1")\$" '$2 ~ p && $4 == "0A" { print $10 }'
    fi
}

# The memory of the cards, a line each, for the curve. Never waits for the driver, which may hang: a reading is made
# in the background and told by a later call, and there is one at a time on the machine, probes included.
tell_memory() {
    [ -n "$CARDS" ] || return 0
    if [ -n "$READING" ]; then
        tell_reading
        [ -z "$READING" ] || return 0
    fi
    READING=$BASE/memory.$$
    read_memory < /dev/null > "$READING.new" 2> /dev/null 3<&- 4<&- 9>&- &
}

# The reading that was begun, as soon as it is there.
tell_reading() {
    [ -r "$READING" ] || return 0
    while read -r UUID USED; do
        say gpu "${UUID%,}" "$USED"
    done < "$READING"
    rm -f "$READING"
    READING=''
}

read_memory() {
    lock_cards 0 &&
        timeout -k 1 5 nvidia-smi --query-gpu=uuid,memory.used --format=csv,noheader,nounits
    mv "$READING.new" "$READING"
}
