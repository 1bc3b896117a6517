# NAME: the unit. TOOL: how systemctl is called here. JOURNAL: how journalctl is. CHANGE: a file that is written first.
# SECRETS_FILE: from which the unit reads its secrets; they come in a file of the launch. Empty: it is given none.
# SETTINGS_FILE: the engine's own, with its key, for OWNER alone; it comes in a file of the launch, too.
# LINES: those of an environment file, each NAME=value; TEXT: all of a drop-in, after which systemd reads its files.

# Sets STATE, PID, RUN (of this start), CODE, KIND.
look() {
    STATE='' PID=0 RUN='' CODE='' KIND='' LAST=0 OUTPUT=''
    SHOWN=$($TOOL show -p ActiveState -p MainPID -p InvocationID -p ExecMainPID -p ExecMainStatus -p ExecMainCode \
        -p ExecMainStartTimestampMonotonic -p StandardOutput -- "$NAME" 2>&1)
    while IFS='=' read -r KEY VALUE; do
        case $KEY in
        ActiveState) STATE=$VALUE ;;
        MainPID) PID=$VALUE ;;
        InvocationID) RUN=$VALUE ;;
        ExecMainPID) LAST=$VALUE ;;
        ExecMainStatus) CODE=$VALUE ;;
        ExecMainCode) KIND=$VALUE ;;
        ExecMainStartTimestampMonotonic) SINCE=$VALUE ;;
        StandardOutput) OUTPUT=$VALUE ;;
        esac
    done << END
$SHOWN
END
}

# Each assignment once, at the end of the file; whoever owns the file and may read it stays as it is.
BY_ROOT_LINES='
FILE=$(readlink -f "$1") && cp -p "$FILE" "$FILE.relaunch" || exit 1
LINES=$(cat)
NAMES=$(printf "%s\n" "$LINES" | sed "s/=.*//")
{
    while IFS= read -r LINE || [ -n "$LINE" ]; do
        KEY=${LINE%%=*}
        KEY=$(printf "%s" "$KEY" | tr -d " \t")
        printf "%s\n" "$NAMES" | grep -qxF -- "$KEY" || printf "%s\n" "$LINE"
    done < "$FILE"
    printf "%s\n" "$LINES"
} > "$FILE.relaunch" && mv "$FILE.relaunch" "$FILE"'
BY_ROOT_TEXT='
mkdir -p "${1%/*}" && cat > "$1.new" && chmod 644 "$1.new" && mv "$1.new" "$1"'

write_change() {
    if [ -n "$LINES" ]; then
        SAID=$(printf '%s\n' "$LINES" | $AS_ROOT sh -c "$BY_ROOT_LINES" sh "$CHANGE" 2>&1)
    else
        SAID=$(printf '%s' "$TEXT" | $AS_ROOT sh -c "$BY_ROOT_TEXT" sh "$CHANGE" 2>&1) &&
            SAID=$($TOOL daemon-reload 2>&1)
    fi
}

# For root alone. What the unit was given before and is given no more goes out of the file; systemd still wants it there.
BY_ROOT_SECRETS='
mkdir -p "${1%/*}" && umask 077 && cat > "$1.new" && mv "$1.new" "$1"'
write_secrets() {
    GIVEN=$DIR/secrets
    [ -e "$GIVEN" ] || { $AS_ROOT test -s "$SECRETS_FILE" && GIVEN=/dev/null; } || return 0
    SAID=$($AS_ROOT sh -c "$BY_ROOT_SECRETS" sh "$SECRETS_FILE" 2>&1 < "$GIVEN") && rm -f "$DIR/secrets"
}

BY_ROOT_SETTINGS='
mkdir -p "${1%/*}" && umask 077 && cat > "$1.new" && chown "$2" "$1.new" && mv "$1.new" "$1"'
write_settings() {
    GIVEN=$DIR/settings.yaml
    [ -e "$GIVEN" ] || { $AS_ROOT rm -f "$SETTINGS_FILE"; return 0; }
    SAID=$($AS_ROOT sh -c "$BY_ROOT_SETTINGS" sh "$SETTINGS_FILE" "${OWNER:-root}" 2>&1 < "$GIVEN") && rm -f "$GIVEN"
}

look
case $STATE in
inactive | failed) ;;
*) fail "The unit $NAME is ${STATE:-not known} already: it was started by somebody else. $SHOWN" ;;
esac
BEFORE=$LAST:$SINCE
case $OUTPUT in append:*) SIZE=$(wc -c 2> /dev/null < "${OUTPUT#*:}") ;; *) SIZE=0 ;; esac
[ -z "$SECRETS_FILE" ] || write_secrets || fail "$SECRETS_FILE could not be written: $SAID"
[ -z "$SETTINGS_FILE" ] || write_settings || fail "$SETTINGS_FILE could not be written: $SAID"
[ -z "$CHANGE" ] || write_change || fail "$CHANGE could not be written: $SAID"
$TOOL reset-failed -- "$NAME" > /dev/null 2>&1
: > "$DIR/ordered"
# A unit may count as started only when the server is ready: that is not waited for.
SAID=$($TOOL start --no-block -- "$NAME" 2>&1) || fail "$NAME was not started: $SAID"
TRIES=0
while look; do
    [ "$PID" = 0 ] || break
    # It has ended already.
    [ "$LAST:$SINCE" = "$BEFORE" ] || [ "$LAST" = 0 ] || break
    TRIES=$((TRIES + 1))
    [ "$TRIES" -lt 80 ] || fail "$NAME has no process 8 s after its start. $SHOWN"
    sleep 0.1
done
# The kernel counts a process's start in hundredths of a second since boot.
look_at "$PID" || PID=$LAST START=$((SINCE / 10000))
SERVER=$PID STARTED=$START
keep_record "$SERVER" "$STARTED" "$NAME" || exit 0
case $OUTPUT in
journal* | kmsg* | syslog* | inherit | '') copy_output $JOURNAL -f -o cat --no-tail "_SYSTEMD_INVOCATION_ID=$RUN" ;;
# "file:" writes over what is there, from its beginning: what an earlier start has left would be taken for this one's.
append:* | truncate:*) copy_output $AS_ROOT tail -c "+$((SIZE + 1))" -F "${OUTPUT#*:}" ;;
# The plan refuses such a one (plan/unit_change.py); it was changed since.
*) printf '%s\n' "The unit $NAME writes its output to $OUTPUT, where it cannot be read." >> "$DIR/log" ;;
esac
wait_for_end "$SERVER" "$STARTED"
$JOURNAL --sync > /dev/null 2>&1
end_copy 5
look
# The unit may have been started again since, and what it tells is of that start.
[ "$LAST" = "$SERVER" ] || CODE=unknown
case $KIND in 2 | 3) [ "$CODE" = unknown ] || CODE=$((CODE + 128)) ;; esac
keep_exit "${CODE:-unknown}"
