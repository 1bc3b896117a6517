# Looks at a machine and changes nothing on it but a lock file and the file of its slot. Sent on stdin to `sh -s -- SECTIONS [key=value ...]`, after a line
# that sets TOKEN: without the token nothing that a process on the host prints can pass for ours.
#
# Output: for each section a line "@relaunch TOKEN section NAME", its content, and "@relaunch TOKEN status N".
# What has no status line was cut off, and means nothing. A frame ends with "@relaunch TOKEN end".
#
# SECTIONS  comma-separated: host memory memory2 memory3 (read again, later) gpus apps devices procs uids nspids listeners port fds pids
#           (port: could a server have those on which nobody listens? Needs listeners, and port.sh before this)
#           users (names of the owners of pids) markers disk
#           usable (the kernel's log, the device files, more of each card), threads (files of threads that have a list of
#           their own; needs fds). These two and apps are dear, so a loop has them in its first look only
# keys      port=N pid=N path=P (each may be repeated), every=MS for=SECONDS slot=NAME (repeat until then),
#           eager=MS (the pause at first, for EAGER_SECONDS)

LC_ALL=C
export LC_ALL
SMI_SECONDS=10
LOCK_SECONDS=5
EAGER_SECONDS=5
MAX_PIDS=96
MAX_THREADS=256
MAX_COMMANDS=4194304
GPU_FIELDS=index,uuid,pci.bus_id,memory.total,memory.used,memory.free,memory.reserved,utilization.gpu
GPU_FIELDS=$GPU_FIELDS,temperature.gpu,power.draw,driver_version,mig.mode.current,display_active,name
# What counts is not last: of an answer that is cut short, half a number must not pass for a smaller one.
MEMORY_FIELDS=index,uuid,pci.bus_id,memory.used,memory.free,memory.total
APP_FIELDS=pid,gpu_uuid,used_memory,process_name
FABRIC_FIELDS=fabric.state,fabric.status
RECOVERY_FROM=580 # the driver that surely has gpu_recovery_action; 535 has reset_status instead
JOURNAL_SECONDS=5

WORDS=$IFS
LINES_ONLY='
'

begin() { printf '\n@relaunch %s section %s\n' "$TOKEN" "$1"; }
done_with() { printf '\n@relaunch %s status %s\n' "$TOKEN" "$1"; }
asked() { case ",$SECTIONS," in *",$1,"*) return 0 ;; esac; return 1; }

# --- the machine

# What does not change while this runs, asked once.
learn_host() {
  PID_NAMESPACE=$(readlink /proc/self/ns/pid 2>/dev/null)
}

look_at_host() {
  learn_now
  printf '%s\n' "$told"
}

# The section of the machine, in `told`.
learn_now() {
  boot= name= up=
  read -r boot </proc/sys/kernel/random/boot_id
  read -r name </proc/sys/kernel/hostname
  read -r up _ </proc/uptime
  # sudo_uid: whose login it is where sudo has made us root
  told="
@relaunch $TOKEN section host
boot_id $boot
hostname $name
uptime $up
pid_namespace $PID_NAMESPACE
sudo_uid $SUDO_UID"
  tell_lines Uid: </proc/self/status
  told="$told

@relaunch $TOKEN status 0"
}

# Adds the lines of stdin that begin with these words, in their order; reads no further than the last.
tell_lines() {
  while [ $# -gt 0 ] && read -r word rest; do
    [ "$word" = "$1" ] || continue
    told="$told
$word $rest"
    shift
  done
}

# --- the cards: one nvidia-smi at a time on this machine, whoever asks (cardlock.sh)

find_smi() {
  for SMI in nvidia-smi /usr/bin/nvidia-smi /usr/local/bin/nvidia-smi /usr/lib/wsl/lib/nvidia-smi; do
    command -v "$SMI" >/dev/null 2>&1 || continue
    # Put before the command, for a function in $(...) costs a fork more.
    command -v timeout >/dev/null 2>&1 && SMI="timeout -k 2 $SMI_SECONDS $SMI"
    return 0
  done
  SMI=
  return 1
}

# What the driver says of a card's own health goes into the query of its memory: another nvidia-smi would be dear.
choose_health_fields() {
  HEALTH_FIELDS=
  asked usable || return 0
  release=
  read -r release 2>/dev/null </proc/driver/nvidia/version
  # shellcheck disable=SC2086  # "... Kernel Module  550.54.14 ..." or "... Module for x86_64  590.48.01 ..."
  set -- ${release##*Module}
  [ "$1" = for ] && shift 2
  case ${1%%.*} in
    '' | *[!0-9]*) field=gpu_recovery_action ;;
    *) if [ "${1%%.*}" -ge "$RECOVERY_FROM" ]; then field=gpu_recovery_action; else field=reset_status.reset_required; fi ;;
  esac
  HEALTH_FIELDS=$field,$FABRIC_FIELDS,
}

query_gpus() {
  text=$($SMI "--query-gpu=$HEALTH_FIELDS$2" --format=csv,nounits 2>&1)
  status=$?
  if [ "$status" = 2 ] && [ -n "$HEALTH_FIELDS" ]; then
    HEALTH_FIELDS=
    text=$($SMI "--query-gpu=$2" --format=csv,nounits 2>&1)
    status=$?
  fi
  if [ "$status" = 2 ] && [ "$2" != "$MEMORY_FIELDS" ]; then
    text=$($SMI "--query-gpu=$MEMORY_FIELDS" --format=csv,nounits 2>&1)
    status=$?
  fi
  begin "$1"
  printf '%s\n' "$text"
  done_with "$status"
  case $text in *'device handle'* | *'Problem with GPU'*) query_each_gpu "$1" "$2" ;; esac
}

# One lost card silences all of them, unless each is asked for by its index.
query_each_gpu() {
  index=0
  for node in /dev/nvidia[0-9]*; do
    [ -e "$node" ] || continue
    text=$($SMI -i "$index" "--query-gpu=$HEALTH_FIELDS$2" --format=csv,nounits 2>&1)
    status=$?
    begin "$1.$index"
    printf '%s\n' "$text"
    done_with "$status"
    index=$((index + 1))
  done
}

query_cards() {
  for section in $wanted; do
    case $section in
      memory*) query_gpus "$section" "$MEMORY_FIELDS" ;;
      gpus) query_gpus gpus "$GPU_FIELDS" ;;
      apps) query_apps ;;
    esac
  done
}

query_apps() {
  text=$($SMI "--query-compute-apps=$APP_FIELDS" --format=csv,nounits 2>&1)
  status=$?
  tell_groups
  begin apps
  printf '%s\n' "$text"
  done_with "$status"
}

# Drivers from 535.113 to 570.133 tell the thread that opened the card for its process. /proc has threads by number too.
tell_groups() {
  named=
  set -f
  IFS=$LINES_ONLY
  for line in $text; do
    case ${line%%,*} in '' | *[!0-9]*) ;; *) named="$named /proc/${line%%,*}/status" ;; esac
  done
  IFS=$WORDS
  set +f
  [ -n "$named" ] || return 0
  begin groups
  # shellcheck disable=SC2086  # a list
  grep -H '^Tgid:' $named 2>/dev/null
  done_with 0
}

refuse_cards() {
  for section in $wanted; do
    begin "$section"
    echo "$1"
    done_with "$2"
  done
}

# Those of the given sections that were asked for.
look_at_cards() {
  wanted=
  for section; do
    asked "$section" && wanted="$wanted $section"
  done
  [ -n "$wanted" ] || return 0
  if ! find_smi; then
    refuse_cards 'nvidia-smi: not found' 127
    return 0
  fi
  choose_health_fields
  if lock_cards "$LOCK_SECONDS"; then
    query_cards
  else
    refuse_cards 'another nvidia-smi is still running' 75
  fi
  exec 8<&-
}

# Which device file is which card: nvidia-smi's index counts only the cards that can be opened from here.
look_at_minors() {
  begin minors
  grep -HE '^(GPU UUID|Device Minor):' /proc/driver/nvidia/gpus/*/information 2>/dev/null
  for node in /dev/nvidia[0-9]*; do
    [ -e "$node" ] && echo "$node"
  done
  done_with 0
}

look_at_devices() {
  begin devices
  for node in /dev/nvidia*; do
    [ -c "$node" ] && echo "$node"
  done
  done_with 0
}

# --- can the cards be used

# The driver's complaints since the boot, and the oldest line that is left, which tells how far back this goes.
# Where dmesg is for root only, those who may read the system's journal find the same there; to others it is empty.
look_at_kernel_log() {
  restricted=
  read -r restricted 2>/dev/null </proc/sys/kernel/dmesg_restrict
  begin kernel
  if [ "$restricted" = 0 ] || [ -O /proc/1 ]; then dmesg; else kernel_journal; fi 2>&1 | sed -n '1{p;d;};/NVRM: Xid/p'
  done_with 0
}

kernel_journal() {
  set -- journalctl -q -k -b --no-pager -o short-monotonic
  if command -v timeout >/dev/null 2>&1; then timeout "$JOURNAL_SECONDS" "$@"; else "$@"; fi
}

# After nvidia-smi, which makes missing device files when root runs it. A set-uid nvidia-modprobe makes them for anybody.
look_at_nodes() {
  begin nodes
  for node in /dev/nvidia*; do
    [ -e "$node" ] && echo "$node"
  done
  [ -u /usr/bin/nvidia-modprobe ] && echo nvidia-modprobe
  [ -d /proc/driver/nvidia ] && echo driver
  done_with 0
}

# --- processes

look_at_processes() {
  if asked procs; then
    # A name may hold a line break, so each line says which process's file it is of.
    procs=$(grep -H '' /proc/[0-9]*/stat 2>/dev/null)
    begin procs
    printf '%s\n' "$procs"
    done_with 0
  fi
  if asked uids; then
    begin uids
    ls -ldn /proc/[0-9]* 2>/dev/null
    done_with 0
  fi
  if asked nspids; then
    begin nspids
    grep -H '^NSpid:' /proc/[0-9]*/status 2>/dev/null
    done_with 0
  fi
}

look_at_markers() {
  begin markers
  grep -azH '^RELAUNCH_LAUNCH_ID=' /proc/[0-9]*/environ 2>&1
  done_with $?
}

# --- listeners, and one walk over all open files for those who hold a card or a port

look_at_listeners() {
  sockets= heard=
  # ss asks for listeners only. To read these files the kernel walks over all connections that there could be.
  if listening=$(ss -Hltne 2>/dev/null); then
    listening="ss -Hltne
$listening"
  else
    listening=$(grep -hsE 'local_address| 0A ' /proc/net/tcp /proc/net/tcp6)
  fi
  begin listeners
  printf '%s\n' "$listening"
  done_with 0
  [ -n "$PORTS" ] || return 0
  set -f # a cell may be "*:*"
  IFS=$LINES_ONLY
  for line in $listening; do
    IFS=$WORDS
    # shellcheck disable=SC2086  # cells of a line
    see_listener $line
  done
  IFS=$WORDS
  set +f
}

# The cells of a line of either list: one that listens on a port of ours is kept in `sockets`.
see_listener() {
  case $1:$4 in
    LISTEN:*) port=${4##*:} ;;
    *:0A) port=$((0x${2##*:})) ;;
    *) return 0 ;;
  esac
  case " $PORTS " in *" $port "*) ;; *) return 0 ;; esac
  heard="$heard $port"
  [ "$1" = LISTEN ] || { sockets="$sockets|${10}"; return 0; }
  keep_inode "$@"
}

keep_inode() {
  for cell; do
    case $cell in ino:*) sockets="$sockets|${cell#ino:}" ;; esac
  done
}

look_at_ports() {
  for port in $PORTS; do
    case " $heard " in *" $port "*) continue ;; esac
    tried=$(try_port "$port")
    begin "port.$port"
    printf '%s\n' "$tried"
    done_with 0
    set -f
    IFS=$LINES_ONLY
    for line in $tried; do
      IFS=$WORDS
      # shellcheck disable=SC2086  # words of a line
      see_socket $line
    done
    IFS=$WORDS
    set +f
  done
}

see_socket() {
  case $1 in
    socket) sockets="$sockets|$6" ;;
    ss) keep_inode "$@" ;;
  esac
}

look_at_files() {
  held=' -> /dev/nvidia| [12] -> /.*/\.relaunch/.*/log$'
  [ -n "$sockets" ] && held="$held| -> socket:.(${sockets#|})\]"
  threads=
  case $procs in '' | *') Z '*) see_headless ;; esac
  asked threads && see_apart
  # shellcheck disable=SC2086  # patterns and lists that are meant to be split
  # -q: a file's name may hold line breaks. -an: ".." is the process itself, with its user; the links' own user says
  # nothing, for whoever forbids that his memory is dumped makes them look like root's.
  walk=$(ls -alnq /proc/[0-9]*/fd $threads 2>&1 | grep -E "^/proc/.*:\$|ermission denied| \.\.\$|$held")
  begin fds
  printf '%s\n' "$walk"
  done_with 0
  here=
  IFS=$LINES_ONLY
  for line in $walk; do
    case $line in
      /proc/*:) here=${line#/proc/} here=${here%%/*} ;;
      *' -> '*) remember "$here" ;;
    esac
  done
  IFS=$WORDS
}

# Where the first thread has ended, the files are those of the others.
see_headless() {
  for leader in $(grep -ls ') Z ' /proc/[0-9]*/stat); do
    threads="$threads ${leader%/stat}/task/[0-9]*/fd"
  done
}

# A thread may have left the list of open files that its process shares (unshare(2)). How many there are in a list is the
# size of its directory (Linux 6.2): the threads whose number is another than their process's. All files of all threads
# would take seconds. What this misses, for an equal number or an older kernel, the driver's own list (apps) has.
see_apart() {
  threads="$threads $(stat -c '%s %n' /proc/[0-9]*/task/[0-9]*/fd 2>/dev/null | awk -F '[ /]' -v most="$MAX_THREADS" '
    $4 == $6 { whole[$4] = $1 }
    { size[$4 "/task/" $6] = $1 }
    END {
      for (thread in size) {
        split(thread, part, "/")
        if (size[thread] != whole[part[1]] && most-- > 0) print "/proc/" thread "/fd"
      }
    }')"
}

remember() {
  case " $PIDS " in *" $1 "*) return 0 ;; esac
  PIDS="$PIDS $1"
}

# Each line and each argument comes with the file it stands in, so that nothing in a command can pass for another's.
look_at_pids() {
  count=0 facts='' commands=''
  for pid in $PIDS; do
    count=$((count + 1))
    [ "$count" -le "$MAX_PIDS" ] || break
    facts="$facts /proc/$pid/status /proc/$pid/cgroup /proc/$pid/limits"
    commands="$commands /proc/$pid/cmdline"
  done
  begin pids
  # shellcheck disable=SC2086  # lists
  grep -HE '^(NSpid|Gid|Cpus_allowed_list):|^[0-9]+:|^Max (open files|locked memory) ' $facts /proc/self/limits 2>/dev/null
  done_with 0
  begin commands
  # shellcheck disable=SC2086
  grep -azH '' $commands 2>/dev/null | head -c "$MAX_COMMANDS"
  done_with 0
}

look_at_users() {
  begin users
  # shellcheck disable=SC2086  # a list that is meant to be split
  (cd /proc && ls -ld $PIDS 2>/dev/null)
  done_with 0
}

# --- the disk, last, for a lost network disk can hold it for long

look_at_disk() {
  begin paths
  count=0 left=$# there=
  # Those that exist stay in "$@".
  while [ "$left" -gt 0 ]; do
    if [ -e "$1" ]; then
      if [ -r "$1" ]; then echo "$count yes"; else echo "$count closed"; fi
      there="$there $count"
      set -- "$@" "$1"
    else
      echo "$count no"
    fi
    shift
    count=$((count + 1)) left=$((left - 1))
  done
  done_with 0
  [ $# -gt 0 ] || return 0
  within=
  command -v timeout >/dev/null 2>&1 && within='timeout 5'
  # All at once, unless one of them does not answer.
  if text=$($within df -Pk "$@" 2>&1); then
    tell_disks
    return 0
  fi
  for count in $there; do
    begin "disk.$count"
    $within df -Pk "$1" 2>&1
    done_with $?
    shift
  done
}

# A line for each path in their order, after a line of titles.
tell_disks() {
  set -f
  IFS=$LINES_ONLY
  # shellcheck disable=SC2086  # lines
  set -- $text
  IFS=$WORDS
  set +f
  title=$1
  shift
  for count in $there; do
    begin "disk.$count"
    printf '%s\n%s\n' "$title" "$1"
    done_with 0
    shift
  done
}

look_around() {
  PIDS=" 1$GIVEN_PIDS" # with process 1, to whose control group the others' are compared
  sockets= procs=
  asked host && look_at_host
  asked devices && look_at_devices
  look_at_processes
  asked markers && look_at_markers
  asked listeners && look_at_listeners
  asked port && look_at_ports
  if asked fds; then
    look_at_minors
    look_at_files
  fi
  asked pids && look_at_pids
  asked users && look_at_users
  asked usable && look_at_kernel_log
  asked disk && look_at_disk "$@"
}

# What a whole fleet is read by day and night: no process more than it must be, and all of it said at once, for every
# word on its own wakes several threads of the panel.
look_briefly() {
  cards=$(look_at_cards gpus </dev/null)
  learn_now
  printf '\n@relaunch %s begin\n%s\n%s\n\n@relaunch %s end\n' "$TOKEN" "$told" "$cards" "$TOKEN" || exit 0
}

# The driver takes its time, so the rest is looked at meanwhile; what the cards say fits a variable, and comes last.
look() {
  case $SECTIONS in host,gpus) look_briefly; return 0 ;; esac
  printf '\n@relaunch %s begin\n' "$TOKEN" || exit 0
  look_around "$@" | {
    cards=$(look_at_cards memory gpus apps </dev/null)
    cat
    printf '%s\n' "$cards"
    asked usable && look_at_nodes
    case $cards in *" status 0") look_at_cards memory2 memory3 </dev/null ;; esac
  }
  printf '\n@relaunch %s end\n' "$TOKEN" || exit 0
}

# --- again and again: until the time is up, nobody listens, or a newer one has taken the slot

take_slot() {
  uid=$(id -u)
  place=${XDG_RUNTIME_DIR:-/tmp}/relaunch-$uid
  (umask 077; mkdir "$place") 2>/dev/null
  MINE=
  if [ -d "$place" ] && [ -O "$place" ] && [ ! -L "$place" ]; then
    MINE=$place/watch.$SLOT
    echo "$TOKEN" >"$MINE"
  fi
}

still_mine() {
  [ -n "$MINE" ] || return 0
  current=
  read -r current <"$MINE" 2>/dev/null
  [ "$current" = "$TOKEN" ]
}

seconds_up() {
  read -r up _ </proc/uptime
  up=${up%.*}
}

pause() {
  left=$EVERY
  [ -n "$EAGER" ] && [ "$up" -lt "$((begun + EAGER_SECONDS))" ] && left=$EAGER
  while [ "$left" -gt 1000 ]; do
    sleep 1
    printf '\n@relaunch %s beat\n' "$TOKEN" || exit 0
    left=$((left - 1000))
  done
  sleep "$((left / 1000)).$(printf '%03d' "$((left % 1000))")" 2>/dev/null || sleep 1
}

# When the panel hangs up, its end of our stdin closes: end at once instead of at the next word.
end_with_stdin() {
  (read -r _; kill $$) <&3 >/dev/null 2>&1 &
  LEASH=$!
  trap 'kill "$LEASH" 2>/dev/null' EXIT
}

watch() {
  end_with_stdin
  take_slot
  seconds_up
  begun=$up
  end=$((up + FOR))
  while still_mine; do
    look "$@"
    for section in usable threads apps; do
      asked "$section" || continue
      SECTIONS=,$SECTIONS,
      SECTIONS="${SECTIONS%%",$section,"*},${SECTIONS##*",$section,"}"
    done
    seconds_up
    [ "$up" -lt "$end" ] || break
    pause
  done
}

main() {
  SECTIONS=$1
  shift
  PORTS= GIVEN_PIDS= EVERY= EAGER= FOR=3600 SLOT=default
  count=$#
  while [ "$count" -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    case $word in
      port=*) PORTS="$PORTS ${word#*=}" ;;
      pid=*) GIVEN_PIDS="$GIVEN_PIDS ${word#*=}" ;;
      path=*) set -- "$@" "${word#*=}" ;;
      eager=*) EAGER=${word#*=} ;;
      every=*) EVERY=${word#*=} ;;
      for=*) FOR=${word#*=} ;;
      slot=*) SLOT=${word#*=} ;;
    esac
  done
  asked host && learn_host
  if [ -n "$EVERY" ]; then watch "$@"; else look "$@"; fi
}

main "$@" 3<&0 </dev/null; exit
