# What a unit, container or service of compose would start, before it is asked to. Changes nothing.
# KIND: unit, container, compose or run (IMAGE is what it would be made of). NAME. TOOL: how its tool is called here, words. AS_ROOT: "sudo -n", or empty.
# A text is said as "log NAME LENGTH" with its bytes after it, for its blanks count.
LC_ALL=C
export LC_ALL
within() { timeout -k 2 10 "$@" < /dev/null 2>&1; }

tell_text() {
    say log "$1" "${#2}"
    printf '%s\n' "$2"
}

# docker prints an empty list, before or after its reason.
trouble() {
    say trouble "$(printf '%s\n' "$1" | sed '/^\[\]$/d' | sed -n '$p')"
    exit 0
}

tell_unit() {
    TEXT=$(within $TOOL show -p LoadState -p NeedDaemonReload -p StandardOutput -p Type -p MainPID -p EnvironmentFiles \
        -p User -p DynamicUser \
        -- "$NAME") || trouble "$TEXT"
    tell_text shown "$TEXT"
    FILES=$(printf '%s\n' "$TEXT" | sed -n 's/^EnvironmentFiles=\(.*\) (ignore_errors=.*$/\1/p')
    TEXT=$(within $TOOL cat -- "$NAME") || trouble "$TEXT"
    tell_text file "$TEXT"
    printf '%s\n' "$FILES" | while IFS= read -r FILE; do
        # Secrets that the panel has given are not read back.
        case $FILE in */relaunch.secrets) continue ;; esac
        [ -n "$FILE" ] && $AS_ROOT test -e "$FILE" || continue
        say reads "$FILE"
        TEXT=$(within $AS_ROOT cat -- "$FILE") && tell_text environment "$TEXT" || say unread "$TEXT"
    done
    while IFS= read -r LINE; do say init "$LINE"; done < /proc/1/cgroup
    grep -hsE 'docker[-/]|libpod|cri-containerd|kubepods|lxc' /proc/[0-9]*/cgroup | sort -u | head -n 40 |
        while IFS= read -r LINE; do say group "$LINE"; done
}

tell_container() {
    if [ "$KIND" = compose ]; then
        ID=$(within $TOOL ps -a -q --no-trunc --filter "label=com.docker.compose.project=${NAME%%/*}" \
            --filter "label=com.docker.compose.service=${NAME#*/}") || trouble "$ID"
        ID=$(printf '%s\n' "$ID" | head -n 1)
        [ -n "$ID" ] || trouble "compose has made no container of $NAME yet: start it once on the host."
    else
        ID=$NAME
    fi
    if [ "$KIND" = run ]; then
        TEXT=$(within $TOOL image inspect -f '{{.Id}}' "$IMAGE") && say image "$TEXT" || say noimage "$TEXT"
    fi
    TEXT=$(within $TOOL inspect "$ID") || trouble "$TEXT"
    tell_text inspect "$TEXT"
}

case $KIND in
unit) tell_unit ;;
container | compose | run) tell_container ;;
esac
