# Card locks: shared by all panels and users of the machine, from stop to ready.
# MODE: take | release. CARDS: uuids. HOLDER: "panel|deployment|job|person|time". LIVE: the panel's jobs that go on.

lock_places() {
    [ -d /run/lock ] || mkdir -p /run/lock 2> /dev/null
    for PLACE in /run/lock/relaunch /tmp/relaunch-locks; do
        [ -d "$PLACE" ] || { mkdir -m 1777 "$PLACE" && chmod 1777 "$PLACE"; } 2> /dev/null
    done
    PLACE=/tmp/relaunch-locks
    [ -w /run/lock/relaunch ] && PLACE=/run/lock/relaunch
}

# Ours is a lock of the same panel and deployment, whatever the job; and what an ended job of the panel has left. A job
# that replaces one deployment by another holds all of its locks in the name of the one that comes.
is_ours() {
    case $1 in
    "${HOLDER%|*|*|*}|"*) return 0 ;;
    "${HOLDER%%|*}|"*) ;;
    *) return 1 ;;
    esac
    JOB_OF=${1#*|*|}
    case " $LIVE " in *" ${JOB_OF%%|*} "*) return 1 ;; *) return 0 ;; esac
}

# This very job has taken it before, in the place where it would do so now.
is_taken() {
    HELD=''
    read -r HELD 2> /dev/null < "$PLACE/$1" || return 1
    case $HELD in "${HOLDER%|*|*}|"*) return 0 ;; esac
    return 1
}

# Another has one of the cards: what this very call has taken is given back. What an earlier one took stays.
give_back() {
    [ -z "$TAKEN" ] || rm -f $TAKEN
}

take_locks() {
    lock_places
    TAKEN=''
    for CARD in $CARDS; do
        is_taken "$CARD" && continue
        for FILE in "/run/lock/relaunch/$CARD" "/tmp/relaunch-locks/$CARD"; do
            HELD=''
            [ -e "$FILE" ] || continue
            read -r HELD 2> /dev/null < "$FILE" || HELD=''
            # A lock is linked into its place whole; an empty one was left by a full disk or a power cut.
            [ -z "$HELD" ] || is_ours "$HELD" || { give_back; say locked "$CARD" "$HELD"; exit 0; }
            rm -f "$FILE"
        done
        if ! (umask 022; printf '%s\n' "$HOLDER" > "$PLACE/.$CARD.$$" && ln "$PLACE/.$CARD.$$" "$PLACE/$CARD") 2> /dev/null; then
            rm -f "$PLACE/.$CARD.$$"
            give_back
            HELD=''
            read -r HELD 2> /dev/null < "$PLACE/$CARD"
            [ -n "$HELD" ] || refuse "cannot write below $PLACE: the disk may be full"
            say locked "$CARD" "$HELD"
            exit 0
        fi
        rm -f "$PLACE/.$CARD.$$"
        TAKEN="$TAKEN $PLACE/$CARD"
    done
}

release_locks() {
    GONE=''
    for CARD in $CARDS; do
        for FILE in "/run/lock/relaunch/$CARD" "/tmp/relaunch-locks/$CARD"; do
            HELD=''
            read -r HELD 2> /dev/null < "$FILE" || continue
            is_ours "$HELD" && GONE="$GONE $FILE"
        done
    done
    [ -z "$GONE" ] || rm -f $GONE
}

# An older worker must neither take what a newer one has given back, nor give back what it holds.
take_fence
case $MODE in
take) take_locks ;;
release) release_locks ;;
esac
say "$MODE"
