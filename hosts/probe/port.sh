# Could a server have TCP port $1 now, in this network namespace? Asked of the kernel by binding it and letting go at once.
# Needs perl or python3, which is there without being asked for: perl-base is on every Debian and Ubuntu, python3 on every
# Red Hat. Perl without its modules starts as fast as ss (3 ms), python3 takes 12.
#
# Says one word, and who has the port when that is known:
#   free              nobody has it
#   left              what is left of closed connections (TIME_WAIT) has it: no hindrance for a server that reuses addresses
#   left unlisted     the same, as far as this kernel tells
#   taken             somebody has it, whether listening, only bound, or as the near end of a connection
#   denied            this login may not have it, whoever has (ports below 1024)
#   untold WHY        it could not be tried: no tool, or the error's number
#   socket STATE FAMILY ADDRESS UID INODE     of those that have it; STATE as the kernel counts, ADDRESS in hexadecimal
#   ss ...                                    the same, by ss
#   waiting N                                 so many are TIME_WAIT
#
# SO_REUSEADDR, as servers set it, passes TIME_WAIT. It also passes a socket that is bound, not listening, and has set it
# too: a server that still loads (vLLM). No list shows those but sock_diag's, since Linux 6.8, and it is known by our own
# sockets whether it does. On an older kernel what hinders a bind without SO_REUSEADDR is either TIME_WAIT or such a one.
# One on every address is then told by an address that no connection has; one on a single address that also has a
# TIME_WAIT is not.
try_port() {
  for tool in perl /usr/bin/python3 python3 /usr/libexec/platform-python; do
    command -v "$tool" >/dev/null 2>&1 || continue
    case $tool in
      perl) try_port_in_perl "$1" ;;
      *) try_port_in_python "$tool" "$1" ;;
    esac 2>/dev/null && return 0
  done
  try_port_by_list "$1"
}

# Without either: a list of what is bound shows some of it, an empty one proves nothing (Linux before 6.8).
try_port_by_list() {
  if bound=$(ss -HtnBe "sport = :$1" 2>/dev/null) && [ -n "$bound" ]; then
    printf 'taken\n'
    printf '%s\n' "$bound" | sed 's/^/ss /'
  else
    echo 'untold tool'
  fi
}

try_port_in_perl() {
  perl - "$1" <<'END'
my ($port) = @ARGV;
my %ways = (2 => ["\0" x 4, pack("C4", 127, 83, 17, 9)], 10 => ["\0" x 16, pack("H32", "20010db8" . "0" x 20 . "5309")]);
my $bound = 1 << 13;
my @held;
alarm 5;

# The error number, 0 when it was bound; it is bound until @held is emptied.
sub try_one {
    my ($family, $address, $reuse) = @_;
    socket(my $socket, $family, 1, 6) or return $! + 0;
    setsockopt($socket, 1, 2, pack("i", $reuse));
    setsockopt($socket, 41, 26, pack("i", 1)) if $family == 10;
    setsockopt($socket, $family == 2 ? 0 : 41, $family == 2 ? 15 : 78, pack("i", 1));
    my $name = $family == 2 ? pack("Sna4x8", 2, $port, $address) : pack("SnNa16N", 10, $port, 0, $address, 0);
    bind($socket, $name) or return $! + 0;
    push @held, $socket;
    return 0;
}

# Does one of the addresses fail because it is in use? Lets go of them.
sub in_use {
    my ($which, $reuse) = @_;
    my @errors = map { try_one($_, $ways{$_}[$which], $reuse) } 2, 10;
    @held = ();
    return grep { $_ == 98 } @errors;
}

# Sockets on the port in these states, as sock_diag tells them: [state, family, address, uid, inode].
sub told {
    my ($states) = @_;
    my @found;
    @held = () if $states != $bound;
    for my $family (2, 10) {
        socket(my $kernel, 16, 3, 4) or return;
        my $asked = pack("C4 L n2 x32 L3", $family, 6, 0, 0, $states, $port, 0, 0, 0, 0);
        syswrite($kernel, pack("L S2 L2", 16 + length $asked, 20, 0x301, 1, 0) . $asked) or return;
        READ: while (sysread($kernel, my $data, 65536)) {
            while (length $data >= 16) {
                my ($length, $type) = unpack("L S", $data);
                last READ if $type == 3 || $type == 2;
                my ($kind, $state, $at) = unpack("x16 C2 x2 n", $data);
                my $address = unpack("x24 H" . ($kind == 2 ? 8 : 32), $data);
                push @found, [$state, $kind, $address, unpack("x80 L2", $data)] if $at == $port && $kind == $family;
                $data = substr($data, ($length + 3) & ~3);
            }
        }
    }
    return @found;
}

sub judge {
    @held = ();
    my @errors = map { try_one($_, $ways{$_}[0], 1) } 2, 10;
    return ("taken", told(0xfff | $bound)) if grep { $_ == 98 } @errors;
    return ("denied") if grep { $_ == 13 } @errors;
    return ("untold $errors[0]") if !@held;
    my %ours = map { (stat $_)[1] => 1 } @held;
    my @all = told($bound);
    my @others = grep { !$ours{$_->[4]} } @all;
    my $lists = @all - @others == @held;
    @held = ();
    return ("taken", @others) if @others;
    return ("free") if !in_use(0, 0);
    return ("left") if $lists;
    return ("taken") if in_use(1, 0);
    return told(0xfff) ? ("left unlisted") : ("taken");
}

my ($word, @found) = judge();
# It may have been another panel's look, which lasts a millisecond.
if ($word eq "taken" && !grep { $_->[0] != 7 } @found) {
    select(undef, undef, undef, 0.03);
    ($word, @found) = judge();
}
print "$word\n";
my @others = grep { $_->[0] != 6 } @found;
print "socket @$_\n" for @others > 16 ? @others[0 .. 15] : @others;
print "waiting ", @found - @others, "\n" if @found > @others;
END
}

try_port_in_python() {
  "$1" -I -S - "$2" <<'END'
import os, socket, struct, sys, time

PORT = int(sys.argv[1])
WAYS = {2: ("0.0.0.0", "127.83.17.9"), 10: ("::", "2001:db8::5309")}
BOUND = 1 << 13
held = []


def try_one(family, address, reuse):
    """The error number, 0 when it was bound; it is bound until `held` is emptied."""
    try:
        one = socket.socket(family, socket.SOCK_STREAM)
        one.setsockopt(1, 2, reuse)
        if family == 10:
            one.setsockopt(41, 26, 1)
        one.setsockopt(0 if family == 2 else 41, 15 if family == 2 else 78, 1)
        one.bind((address, PORT))
    except OSError as error:
        return error.errno
    held.append(one)
    return 0


def in_use(which, reuse):
    """Does one of the addresses fail because it is in use? Lets go of them."""
    errors = [try_one(family, ways[which], reuse) for family, ways in WAYS.items()]
    del held[:]
    return 98 in errors


def told(states):
    """Sockets on the port in these states, as sock_diag tells them: (state, family, address, uid, inode)."""
    found = []
    if states != BOUND:
        del held[:]
    for family in WAYS:
        try:
            kernel = socket.socket(16, socket.SOCK_RAW, 4)
            kernel.settimeout(5)
            asked = struct.pack("=4BI", family, 6, 0, 0, states) + struct.pack(">2H32x", PORT, 0) + bytes(12)
            kernel.send(struct.pack("=I2H2I", 16 + len(asked), 20, 0x301, 1, 0) + asked)
            found += read(kernel, family)
        except OSError:
            return []
    return found


def read(kernel, family):
    found = []
    while True:
        data = kernel.recv(65536)
        while len(data) >= 16:
            length, kind = struct.unpack_from("=IH", data)
            if kind in (2, 3):
                return found
            state = data[17]
            if struct.unpack_from(">H", data, 20)[0] == PORT and data[16] == family:
                address = "".join("%02x" % byte for byte in data[24 : 28 if family == 2 else 40])
                found.append((state, family, address) + struct.unpack_from("=2I", data, 80))
            data = data[(length + 3) & ~3 :]


def judge():
    del held[:]
    errors = [try_one(family, ways[0], 1) for family, ways in WAYS.items()]
    if 98 in errors:
        return "taken", told(0xFFF | BOUND)
    if 13 in errors:
        return "denied", []
    if not held:
        return "untold %d" % errors[0], []
    ours = {os.fstat(one.fileno()).st_ino for one in held}
    bound = told(BOUND)
    others = [one for one in bound if one[4] not in ours]
    lists = len(bound) - len(others) == len(held)
    del held[:]
    if others:
        return "taken", others
    if not in_use(0, 0):
        return "free", []
    if lists:
        return "left", []
    return ("taken" if in_use(1, 0) or not told(0xFFF) else "left unlisted"), []


word, found = judge()
# It may have been another panel's look, which lasts a millisecond.
if word == "taken" and all(one[0] == 7 for one in found):
    time.sleep(0.03)
    word, found = judge()
print(word)
others = [one for one in found if one[0] != 6]
for one in others[:16]:
    print("socket", *one)
if len(found) > len(others):
    print("waiting", len(found) - len(others))
END
}
