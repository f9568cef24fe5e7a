#!/bin/bash
# Tests torchrun --nnodes 2 over two "machines" with equal host names, which therefore seem to be one: under a name that
# means IPv6, and over IPv4 where the first machine has a further interface, found first, that leads nowhere. There `banyan
# run` starts the same program, too, also by names that only ssh knows.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/machines.sh"
[ "${BANYAN_SANITIZED:-none}" = none ] || skip "a sanitizer wants to be loaded before Python"
/usr/bin/python3 -c 'import torch, torch.distributed' 2>/dev/null || skip "no PyTorch in /usr/bin/python3 (python3-torch)"

cat >"$scratch/train.py" <<'END2'
import sys, time
import torch, torch.distributed as dist
import banyan.torch
begin = time.monotonic()
dist.init_process_group("banyan")
value = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(value)
print("sum", value.item(), "after", round(1000 * (time.monotonic() - begin)), "ms", flush=True)
dist.barrier()
dist.destroy_process_group()
END2

# The extension is built once, and not by both at once.
(cd "$scratch" && /usr/bin/python3 -c 'import banyan.torch') || fail "the backend cannot be loaded"

job() { # ONE TWO MASTER_ADDR WHAT
  local r=0 m
  for m in "$1" "$2"; do
    on "$m" timeout 300 /usr/bin/python3 -m torch.distributed.run --redirects 1 --tee 1 --monitor_interval 0.2 --nnodes 2 --node_rank $r \
      --nproc_per_node 1 --master_addr "$3" --master_port 29507 "$scratch/train.py" >"$scratch/$r.out" 2>"$scratch/$r.err" &
    pids[r]=$!
    r=$((r + 1))
  done
  for r in 0 1; do
    wait "${pids[r]}" || fail "$4: node $r failed"
    shows 'sum 3\.0 after [0-9]+ ms' "$r.out"
  done
  grep -Eq '(^|:)banyan rendezvous: whoever can read the store' "$scratch"/[01].{err,out} || fail "$4: nobody warns of the key in the store"
  echo "$4: $(grep -oh 'after [0-9]* ms' "$scratch/0.out" "$scratch/1.out" | xargs)"
}

pair() { # ONE TWO: the same name twice
  machine "$1" node
  machine "$2" node
  wire "$1" eth0 10.9.9.1/24 "$2" eth0 10.9.9.2/24
  plug "$1" eth0 fd00:9::1/64
  plug "$2" eth0 fd00:9::2/64
  for m in "$1" "$2"; do printf 'fd00:9::1 first6\n' >>"$scratch/hosts.$m"; done
}

pair a b
job a b first6 "one interface, IPv6"

machine void void
machine c node
machine d node
i=0
for m in c d; do
  i=$((i + 1))
  wire $m lost0 "10.8.$i.2/24" void "to-$m" "10.8.$i.1/24"
  ip -n "banyan-$m-$$" route add default via "10.8.$i.1"
done
wire c eth0 10.9.9.1/24 d eth0 10.9.9.2/24
job c d 10.9.9.1 "several interfaces, IPv4"
# On a machine whose own name is the one that others use, this name means its loopback interface.
printf '127.0.1.1 first\n' >>"$scratch/hosts.c"
printf '10.9.9.1 first\n' >>"$scratch/hosts.d"
job c d first "several interfaces, a name that means loopback at the first machine"

cat >"$scratch/ssh" <<'END2'
#!/bin/sh
pid=$SECOND
[ "$1" != alias-1 ] || pid=$FIRST
shift
exec nsenter -t "$pid" -m -n -u -- sh -c "$*"
END2
chmod +x "$scratch/ssh"
for hosts in localhost:1,10.9.9.2:1 alias-1:1,alias-2:1; do
  FIRST=${machine_pid[c]} SECOND=${machine_pid[d]} wants 0 on c timeout 150 "$BANYAN" run --ssh "$scratch/ssh" -H $hosts -- \
    /usr/bin/python3 "$scratch/train.py"
  [ "$(grep -c 'sum 3\.0 after' "$scratch/out")" = 2 ] || fail "banyan run -H $hosts: the ranks did not meet"
  echo "banyan run -H $hosts: $(grep -oh 'after [0-9]* ms' "$scratch/out" | xargs)"
done
