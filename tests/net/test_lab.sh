#!/bin/bash
# `banyan lab`: hosts in network namespaces with links of different rates. The tests check what the hosts see, what is
# counted, and all ways in which a lab ends. Nothing may be left behind.
. "$BANYAN_SOURCE/tests/shell.sh"

command -v python3 >/dev/null || skip "no python3 here"
unshare -n true 2>/dev/null || skip "network namespaces may not be made here"

# topology NAME NODES LINKS: writes $scratch/NAME.json.
topology() { printf '{"format": "banyan-topology 1", "nodes": [%s], "links": [%s]}\n' "$2" "$3" >"$scratch/$1.json"; }
star() { # RATE
  local h links=
  for h in a b c d; do links+="{\"a\": \"$h\", \"b\": \"s\", \"capacity\": \"$1\"},"; done
  topology star '"a", "b", "c", "d", {"name": "s", "kind": "switch"}' "${links%,}"
}
star 200m

wants 0 "$BANYAN" lab "$scratch/star.json" --dry-run
shows '^host +c +10\.77\.0\.3 ' out
shows '^link +s +-> d +200 Mbit/s' out
wants 2 "$BANYAN" lab "$scratch/star.json"
shows 'no command for the hosts: give one after --' err
wants 2 "$BANYAN" lab "$scratch/star.json" --scale 1/0 -- true
wants 1 "$BANYAN" lab "$scratch/none.json" -- true
shows 'none\.json' err
wants 1 "$BANYAN" lab "$scratch/star.json" --congestion nonesuch -- true
shows 'nonesuch.*tcp_allowed_congestion_control' err

# The test is skipped for the error of kernels without htb queues, and for no other error.
"$BANYAN" lab "$scratch/star.json" -- true 2>"$scratch/err" || { grep -q 'CONFIG_NET_SCH_HTB' "$scratch/err" &&
  skip "$(cat "$scratch/err")"; fail "$(cat "$scratch/err")"; }

# Links change while they are in use.
wants 2 "$BANYAN" lab "$scratch/star.json" --at '1s a s' -- true
shows 'is not TIME and rate, kill or start' err
wants 2 "$BANYAN" lab "$scratch/star.json" --at '1s rate a s' -- true
shows 'is not TIME rate NODE NODE RATE' err
wants 2 "$BANYAN" lab "$scratch/star.json" --at '1s rate a b 20m' -- true
shows 'no link between "a" and "b"' err
wants 2 "$BANYAN" lab "$scratch/star.json" --at '1s kill host a' -- true
shows 'after "kill" there is "manager", or switch, agent' err
wants 2 "$BANYAN" lab "$scratch/star.json" --at '1s start agent nosuch' -- true
shows 'the topology has no "nosuch"' err
wants 0 "$BANYAN" lab "$scratch/star.json" --tos --scale 1/2 --at '0.2s rate s a 40m' -- sh -c \
  '[ $BANYAN_HOST != a ] || for i in $(seq 600); do tc class show dev eth0 | grep "1:1 .*rate 20Mbit" && exit; sleep 0.1; done'
shows '^\[a\] class htb 1:1 ' out
shows 'banyan lab: a - s carries 20 Mbit/s' err

# Root privileges are requested by name. (The command may be in a place that no other user can read.)
if setpriv --reuid 65534 --clear-groups "$BANYAN" version >/dev/null 2>&1; then
  chmod 755 "$scratch"
  wants 1 setpriv --reuid 65534 --clear-groups "$BANYAN" lab "$scratch/star.json" -- true
  shows 'only root can create: use sudo' err
fi

# The command treats each host as a host of its own: name, address, names of the others, one rank.
wants 0 "$BANYAN" lab "$scratch/star.json" -- bash -c \
  'echo "$BANYAN_RANK/$BANYAN_SIZE $BANYAN_HOST $(hostname) $(getent hosts d) $(ls /sys/class/net | tr "\n" " ")"'
shows '^\[a\] 0/4 a a 10\.77\.0\.4 +d eth0 lo' out
shows '^\[d\] 3/4 d d 10\.77\.0\.4 +d eth0 lo' out
[ "$(hostname)" != d ] || fail "the machine's name was changed"

# Ranks that outnumber the cores do not spin unless a setting requests it.
many=$(($(getconf _NPROCESSORS_ONLN) / 4 + 1))
wants 0 "$BANYAN" lab "$scratch/star.json" -n "$many" -o raw -- sh -c 'echo engine "$BANYAN_ENGINE"'
shows '^engine spin=0$' out
wants 0 "$BANYAN" lab "$scratch/star.json" -n "$many" -o raw -x BANYAN_ENGINE=spin=1ms -- sh -c 'echo engine "$BANYAN_ENGINE"'
shows '^engine spin=1ms$' out

wants 0 "$BANYAN" lab "$scratch/star.json" -n 2 -- sh -c 'echo $BANYAN_LOCAL_RANK $BANYAN_RANK'
shows '^\[c:1\] 1 5$' out

# A job sums over the links. The links carry the expected bytes, no faster than their rates.
wants 0 "$BANYAN" lab "$scratch/star.json" --json -p ring -- \
  banyan bench allreduce -s 1M --iterations 4 --warmup 0 --check off --json
python3 - "$scratch/out" <<'END' || fail "$(cat "$scratch/out")"
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert rows[0]["collective"] == "allreduce" and len(rows) == 2, rows
least = 4 * (1 << 20) * 3 // 2 # a ring sends each byte 2 (n - 1) / n times
assert len(rows[1]["links"]) == 8
for link in rows[1]["links"]:
    assert least < link["bytes"] < 1.3 * least + (1 << 20), link
    assert link["rate"] == 2e8 and link["packets"] > least // 1500, link
    assert link["bytes"] * 8 < link["rate"] * (rows[1]["seconds"] + 0.01), (link, rows[1]["seconds"])
END
wants 0 "$BANYAN" lab "$scratch/star.json" --scale 1/10 --json -- true
grep -q '"rate":20000000.0' "$scratch/out" || fail "$(cat "$scratch/out")"

# Two hosts receive a state from the two others, which send it once, and pass it on to each other.
wants 0 "$BANYAN" lab "$scratch/star.json" --json -p ring -- "$BANYAN_BUILD/state_bench" 8 2
sanitized || python3 - "$scratch/out" <<'END' || fail "$(cat "$scratch/out")"
import json, sys
sent = {link["from"]: link["bytes"] for link in json.loads(open(sys.argv[1]).read().splitlines()[-1])["links"]}
size = 8 << 20
assert size < sent["a"] + sent["b"] < 1.3 * size, sent
assert min(sent["a"], sent["b"]) > size / 8, sent
assert size < sent["c"] + sent["d"] < 1.3 * size, sent
END

# Where the plan has helpers, their hosts join the job: gradients pass through them.
"$BANYAN" plan star:4,nic=200m,helpers=2 --helpers helper0,helper1 --json >"$scratch/helped.json"
wants 0 "$BANYAN" lab star:4,nic=200m,helpers=2 --json -p "$scratch/helped.json" -- \
  banyan bench allreduce -s 1M --iterations 2 --warmup 0 --check all
python3 - "$scratch/out" <<'END' || fail "$(cat "$scratch/out" "$scratch/err")"
import json, sys
links = json.loads(open(sys.argv[1]).read().splitlines()[-1])["links"]
for i in range(2):
    for link in links:
        if f"helper{i}" in (link["from"], link["to"]):
            assert link["bytes"] > 1 << 18, link
END
wants 1 "$BANYAN" lab "$scratch/star.json" -p "$scratch/helped.json" -- true
shows 'helper "helper0" of plan .* is not a host of the topology' err

# Switches form a circle, and some hosts reach others only through hosts.
topology circle '"a", "b", "c", {"name": "x", "kind": "switch"}, {"name": "y", "kind": "switch"}, {"name": "z", "kind": "switch"}' '
  {"a": "x", "b": "y", "capacity": "1g"}, {"a": "y", "b": "z", "capacity": "1g"}, {"a": "z", "b": "x", "capacity": "1g"},
  {"a": "a", "b": "x", "capacity": "1g"}, {"a": "b", "b": "y", "capacity": "1g"}, {"a": "c", "b": "z", "capacity": "1g"}'
wants 0 "$BANYAN" lab "$scratch/circle.json" -- banyan bench alltoall -s 64K --iterations 2
topology line '"a", "b", "c", "d"' '
  {"a": "a", "b": "b", "capacity": "1g"}, {"a": "b", "b": "c", "capacity": "1g"}, {"a": "c", "b": "d", "capacity": "1g"}'
wants 0 "$BANYAN" lab "$scratch/line.json" -- banyan bench alltoall -s 64K --iterations 2
# All links are ready when a rank starts. The kernel brings them up in the background, and a host whose links are not
# ready would have no address.
wants 0 "$BANYAN" lab "mesh:8,link=1g" -- sh -c 'ip -o link | grep DOWN || true'
[ ! -s "$scratch/out" ] || fail "interfaces are down when ranks start: $(cat "$scratch/out")"
# A host has a limit of its own below that of its links.
topology gate '{"name": "a", "capacity": "300m"}, "b", "c"' '
  {"a": "a", "b": "b", "capacity": "1g"}, {"a": "a", "b": "c", "capacity": "1g"}'
wants 0 "$BANYAN" lab "$scratch/gate.json" -- banyan bench alltoall -s 64K --iterations 2
shows '^a +-> \(its links\) +300 Mbit/s' err

# Links have a delay: an answer takes the way there and back.
if [ -c /dev/net/tun ]; then
  cat >"$scratch/ask.py" <<'END'
import os, socket, time
if os.environ["BANYAN_RANK"] == "1":
    listener = socket.create_server((socket.gethostbyname("b"), 7788))
    open(os.environ["LISTENS"], "w").close()
    connection = listener.accept()[0]
    connection.sendall(connection.recv(1))
else:
    while not os.path.exists(os.environ["LISTENS"]):
        time.sleep(0.01)
    connection = socket.create_connection(("b", 7788))
    start = time.monotonic()
    connection.sendall(b"x")
    assert connection.recv(1) == b"x" and time.monotonic() - start >= 0.06, time.monotonic() - start
END
  topology far '"a", "b"' '{"a": "a", "b": "b", "capacity": "100m", "delay": "30ms"}'
  LISTENS=$scratch/listens wants 0 "$BANYAN" lab "$scratch/far.json" -- python3 "$scratch/ask.py"
fi

# Losses of a link are counted, whether a process or the kernel causes them.
delays='"0"'
[ ! -c /dev/net/tun ] || delays+=' "1ms"'
for delay in $delays; do
  topology lossy '"a", "b"' "{\"a\": \"a\", \"b\": \"b\", \"capacity\": \"100m\", \"loss\": 0.02, \"delay\": $delay}"
  wants 0 "$BANYAN" lab "$scratch/lossy.json" --json -- banyan bench -s 1M --iterations 2 --warmup 0
  python3 - "$scratch/out" <<'END' || fail "$(cat "$scratch/out")"
import json, sys
links = json.loads(open(sys.argv[1]).read())["links"]
assert all(0 < link["drops"] < 0.1 * link["packets"] for link in links), links
END
done

# Packets are sorted by ToS. Each class, and unmarked traffic, has its own queue at hosts and at switches.
cat >"$scratch/mark.py" <<'END'
import os, socket, subprocess, sys
if os.environ["BANYAN_RANK"] == "0":
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for tos, packets in (0x80, 10), (0x20, 20), (0, 30):
        out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        for _ in range(packets):
            out.sendto(bytes(1000), ("b", 9))
    shown = subprocess.run(["tc", "-s", "class", "show", "dev", "eth0"], capture_output=True, text=True).stdout
    sent, words = {}, shown.split()
    for i, word in enumerate(words):
        if word == "htb":
            name = words[i + 1]
        elif word == "Sent":
            sent[name] = int(words[i + 1])
    assert (sent["1:4"], sent["1:5"], sent["1:7"], sent["1:3"]) == (10 * 1042, 0, 20 * 1042, 30 * 1042), sent
END
wants 0 "$BANYAN" lab "$scratch/star.json" --tos -- python3 "$scratch/mark.py"

# Several jobs on hosts of their own come and go. Each is named, and one that fails does not end the others.
wants 2 "$BANYAN" lab "$scratch/star.json" --job 'a: true' -- true
shows 'by --job, or one command after --, not both' err
wants 2 "$BANYAN" lab "$scratch/star.json" --job 'a true'
shows 'it has no command; it is "NAME ' err
wants 2 "$BANYAN" lab "$scratch/star.json" --job 'a size=3: true'
shows 'unknown setting' err
wants 2 "$BANYAN" lab "$scratch/star.json" --job 'a hosts=a,s: true'
shows 'job a: "s" is not a host' err
wants 2 "$BANYAN" lab "$scratch/star.json" --job 'a: true' --job 'a: true'
shows 'two jobs are called "a"' err
wants 4 "$BANYAN" lab "$scratch/star.json" --job 'sums hosts=d,a ranks=2: banyan bench -s 64K --iterations 2 --check all' \
  --job 'short hosts=b until=3s: echo "$BANYAN_JOB $BANYAN_SIZE" && exec sleep 1000' --job 'late from=0.2s hosts=b,c: exit 4' \
  --job 'last from=0.6s: echo $(hostname) ends'
shows '^\[sums d:0\] # allreduce, f32, sum; 4 ranks on 2 hosts' out
shows '^\[short b\] short 1$' out
shows '^\[last d\] d ends$' out
shows 'banyan lab: job late: rank [01] on host [bc]: exit code 4' err
wants 124 "$BANYAN" lab "$scratch/star.json" --timeout 0.5 --job "a: sleep $odd" --job 'b hosts=a from=100s: true'
shows 'not done after 0.5 s \(--timeout\): ending all jobs' err
left 0

# All ways in which a lab ends are tested; two labs at a time do not see each other.
wants 3 "$BANYAN" lab "$scratch/star.json" -- sh -c "[ \$BANYAN_RANK = 2 ] && exit 3; exec sleep $odd"
shows 'rank 2 on host c: exit code 3' err
left 0
wants 3 "$BANYAN" lab "$scratch/star.json" --keep-going -- sh -c '[ $BANYAN_RANK = 2 ] && exit 3; sleep 0.3; echo on'
[ "$(grep -c ' on$' "$scratch/out")" -eq 3 ] || fail "not all went on: $(cat "$scratch/out")"
wants 124 "$BANYAN" lab "$scratch/star.json" --timeout 0.5 -- sleep "$odd"
left 0
links_before=$(ip -o link | cut -d: -f2)
[ ! -c /dev/net/tun ] || cp "$scratch/far.json" "$scratch/any.json"
[ -e "$scratch/any.json" ] || topology any '"a", "b"' '{"a": "a", "b": "b", "capacity": "100m"}'
"$BANYAN" lab "$scratch/any.json" -n 2 -- sleep "$odd" 2>"$scratch/first" &
first=$!
"$BANYAN" lab "$scratch/star.json" -- sleep "$odd" 2>"$scratch/second" &
second=$!
left 8
kill -TERM "$second"
if wait "$second"; then fail "ended by a signal, but with exit code 0"; fi
left 4
grep -q 'ended by signal 15' "$scratch/second" || fail "$(cat "$scratch/second")"

# Namespaces are identified by their inode numbers, as the lab's ranks print them.
spaces=$(pgrep -f "^sleep $odd" | while read -r pid; do readlink "/proc/$pid/ns/net"; done | sort -u)
[ "$(wc -l <<<"$spaces")" -eq 2 ] || fail "the ranks are not in two namespaces: $spaces"
relay=$(pgrep -P "$first" -x banyan-relay || true)
[ -n "$relay" ] || [ ! -c /dev/net/tun ] || fail "no process delays packets"
kill -KILL "$first"
wait "$first" || true
left 0
is_gone() { [ -z "$1" ] || [ ! -e "/proc/$1" ]; }
comes is_gone "$relay" || fail "the process that delays packets is left"
is_empty() {
  local entry
  for entry in /proc/[0-9]*/ns/net; do [ "$(readlink "$entry" 2>/dev/null)" != "$1" ] || return 1; done
}
for space in $spaces; do comes is_empty "$space" || fail "a process is left in $space"; done
[ "$(ip -o link | cut -d: -f2)" = "$links_before" ] || fail "interfaces are left: $(ip -o link)"
wants 0 "$BANYAN" lab "$scratch/star.json" -- true

# In a chroot, "/" is not a mount point. Mounts are shared as they are where systemd runs, so that a leaked mount would
# show.
mountpoint -q / || exit 0 # the whole test ran in a chroot
cat >"$scratch/chroot" <<'END'
set -e
mount --make-rshared /
mkdir "$1/system"
mount -t tmpfs banyan-chroot "$1/system"
root=$1/system/root
mkdir "$root"
for entry in /*; do
  if [ -L "$entry" ]; then
    cp -P "$entry" "$root/"
  elif [ -d "$entry" ]; then
    mkdir "$root$entry"
    mount --rbind "$entry" "$root$entry"
  fi
done
# Mounts may disappear meanwhile: a program that deletes a file in /run/netns also removes the mount on it here.
mounts() { cut -d' ' -f4- /proc/self/mountinfo | sort -u; }
before=$(mounts)
shift
chroot "$root" "$@"
added=$(comm -13 <(echo "$before") <(mounts))
[ -z "$added" ] || { echo "a mount of the lab got out: $added" >&2; exit 1; }
END
wants 0 unshare --mount bash "$scratch/chroot" "$scratch" env -C "$PWD" "$BANYAN" lab "$scratch/star.json" -- bash -c \
  'echo "$(hostname) $(getent hosts d) $(ls /sys/class/net | tr "\n" " ") $PWD"'
shows "^\\[a\\] a 10\\.77\\.0\\.4 +d eth0 lo  $PWD\$" out
