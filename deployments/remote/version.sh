# Which version of an engine a program has, without starting it: the interpreter reads the package's metadata.
# PROGRAM: an interpreter, or a command of the package (its first line names the interpreter). PACKAGE. WORKDIR: or empty.
[ -z "$WORKDIR" ] || cd "$WORKDIR" 2> /dev/null || { say unknown "the directory $WORKDIR cannot be entered"; exit 0; }
FILE=$(command -v -- "$PROGRAM") || { say unknown "$PROGRAM is not there"; exit 0; }
case ${FILE##*/} in
    python*) set -- "$FILE" ;;
    *)
        IFS= read -r FIRST < "$FILE" 2> /dev/null
        case $FIRST in
            '#!'*python*) set -- ${FIRST#??} ;;
            *) say unknown "the first line of $FILE names no Python"; exit 0 ;;
        esac
        ;;
esac
TEXT=$(timeout -k 2 10 "$@" -c 'import importlib.metadata as m, sys; print(m.version(sys.argv[1]))' "$PACKAGE" \
    < /dev/null 2>&1)
STATUS=$?
TEXT=$(printf '%s\n' "$TEXT" | sed -n '$p' | head -c 200)
if [ "$STATUS" = 0 ]; then say version "$TEXT"; else say unknown "$TEXT (exit status $STATUS)"; fi
