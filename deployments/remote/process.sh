# How a process is looked at, by the scripts of this folder and, as a text, by the shells of root's that they start.
# Sets STATE, PARENT, THREADS and START (clock ticks since boot) of process $1. Fails when it is gone.
# A zombie whose other threads live is not gone: it still holds its files.
# The name may hold anything, also ") R (" and a line break: the fields start after the last ")" of all lines.
LOOK_AT='
look_at() {
    STATE= PARENT= THREADS= START= STAT=
    while read -r LINE || [ -n "$LINE" ]; do STAT="$STAT $LINE"; done 2> /dev/null < "/proc/$1/stat"
    set -- ${STAT##*) }
    [ $# -ge 20 ] || return 1
    STATE=$1 PARENT=$2
    shift 17
    THREADS=$1 START=$3
    [ "$STATE" != X ] && { [ "$STATE" != Z ] || [ "$THREADS" -gt 1 ]; }
}'
eval "$LOOK_AT"
