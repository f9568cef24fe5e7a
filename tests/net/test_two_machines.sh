#!/bin/bash
# Jobs over two "machines" with separate network namespaces, host names and /etc/hosts files: with equal and different
# names, IPv4 and IPv6. In some cases each machine has a further interface, found first, into a network that loses
# everything. The jobs are started by `banyan run -H` or have the variables of other launchers. Each job starts, or
# reports the problem while it still tries.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/machines.sh"
unset BANYAN_HOST

hello=$BANYAN_BUILD/examples/hello
# A machine between the two answers for every address and forwards nothing, so that packets into this network are lost.
machine void void
on void sh -c 'echo 0 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv6/conf/all/forwarding' 2>"$scratch/err" || true

# pair ONE ONE'S-NAME TWO TWO'S-NAME INTERFACES: makes machine ONE with 10.9.9.1 and fd00:9::1, and TWO with .2 and ::2.
# With several INTERFACES, each has an interface into the network that loses everything. The address there comes first
# among its own, and the default route leads there.
pair() {
  local i=0 m
  machine "$1" "$2"
  machine "$3" "$4"
  if [ "$5" = several ]; then
    for m in "$1" "$3"; do
      i=$((i + 1))
      wire "$m" lost0 "10.8.$i.2/24" void "to-$m" "10.8.$i.1/24"
      ip -n "banyan-$m-$$" route add default via "10.8.$i.1"
      plug "$m" lost0 "fd00:8:$i::2/64"
      plug void "to-$m" "fd00:8:$i::1/64"
      ip -n "banyan-$m-$$" route add default via "fd00:8:$i::1"
    done
  fi
  wire "$1" eth0 10.9.9.1/24 "$3" eth0 10.9.9.2/24
  plug "$1" eth0 fd00:9::1/64
  plug "$3" eth0 fd00:9::2/64
}

# Stands in for "ssh DESTINATION COMMAND". $pair lists the addresses of the machines.
cat >"$scratch/ssh" <<'END2'
#!/bin/sh
case $1 in
*.9.1 | *::1 | first | alias-1) pid=$FIRST ;;
*) pid=$SECOND ;;
esac
shift
exec nsenter -t "$pid" -m -n -u -- sh -c "$*"
END2
chmod +x "$scratch/ssh"

# took WHAT COMMAND...: checks that the command succeeds and prints its duration.
took() {
  local begin what=$1
  begin=$(date +%s%N)
  shift
  "$@" || fail "$what failed"
  echo "$what: $((($(date +%s%N) - begin) / 1000000)) ms"
}

# by_run FROM HOSTS: runs `banyan run` on this machine with only the hosts as options.
by_run() {
  FIRST=${machine_pid[$one]} SECOND=${machine_pid[$two]} wants 0 on "$1" timeout 150 "$BANYAN" run --ssh "$scratch/ssh" -H "$2" -- "$hello"
  shows '1 \+ ... \+ 2 = 3' out
}

# store_by_run FROM HOSTS: ranks meet where PyTorch's store would be, at an address that both reach.
store_by_run() {
  FIRST=${machine_pid[$one]} SECOND=${machine_pid[$two]} wants 0 on "$1" timeout 150 "$BANYAN" run --ssh "$scratch/ssh" -H "$2" \
    -- python3 "$BANYAN_SOURCE/tests/torch_place.py"
  shows '^\[1\] met at (10\.9\.9\.1|fd00:9::1) LOCAL_RANK 0 LOCAL_WORLD_SIZE 1 GROUP_RANK 1$' out
  shows '^\[0\] met at (10\.[89]\..*|fd00:.*) LOCAL_RANK 0 LOCAL_WORLD_SIZE 1 GROUP_RANK 0$' out
  [ ! -s "$scratch/err" ] || fail "it says more: $(cat "$scratch/err")"
}

# ranks VARIABLE=VALUE...: starts two processes, one on each machine; in values, % is the rank.
ranks() {
  local m r=0
  for m in "$one" "$two"; do
    on "$m" env "${@//%/$r}" timeout 150 "$hello" >"$scratch/$r.out" 2>"$scratch/$r.err" &
    pids[r]=$!
    r=$((r + 1))
  done
}
ranks_meet() {
  ranks "$@"
  wait "${pids[0]}" || fail "rank 0 failed"
  wait "${pids[1]}" || fail "rank 1 failed"
  shows '1 \+ ... \+ 2 = 3' 0.out
}

ompi=(OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=% PMIX_RANK=%)
slurm=(SLURM_NTASKS=2 SLURM_PROCID=% SLURM_JOB_ID=$$ SLURM_STEP_ID=0)
torch=(WORLD_SIZE=2 RANK=% TORCHELASTIC_RUN_ID=test)

number=0
key=$("$BANYAN" keys job)
for names in equal different; do
  for interfaces in one several; do
    number=$((number + 1)) one=a$number two=b$number
    if [ $names = equal ]; then pair "$one" node "$two" node $interfaces; else pair "$one" alpha "$two" beta $interfaces; fi
    what="$names names, $interfaces"
    for m in "$one" "$two"; do printf '10.9.9.1 first first4\n10.9.9.2 second\nfd00:9::1 first first6\n' >>"$scratch/hosts.$m"; done
    took "run from rank 0's host, IPv4, $what" by_run "$one" 10.9.9.1:1,10.9.9.2:1
    took "run from rank 1's host, IPv4, $what" by_run "$two" 10.9.9.1:1,10.9.9.2:1
    took "run from rank 0's host, IPv6, $what" by_run "$one" '[fd00:9::1]:1,[fd00:9::2]:1'
    took "run from rank 1's host, IPv6, $what" by_run "$two" '[fd00:9::1]:1,[fd00:9::2]:1'
    took "run from rank 0's host, names, $what" by_run "$one" first:1,second:1
    took "run from rank 0's host, its own name, $what" by_run "$one" "$(on "$one" hostname):1,10.9.9.2:1"
    took "PyTorch's store, $what" store_by_run "$one" 10.9.9.1:1,10.9.9.2:1
    took "PyTorch's store, names that only ssh knows, $what" store_by_run "$two" alias-1:1,alias-2:1
    took "Open MPI's variables, IPv4, $what" ranks_meet "${ompi[@]}" BANYAN_KEY=$key BANYAN_ROOT=10.9.9.1:7001
    took "Open MPI's variables, IPv6, $what" ranks_meet "${ompi[@]}" BANYAN_KEY=$key "BANYAN_ROOT=[fd00:9::1]:7002"
    took "Slurm's variables, $what" ranks_meet "${slurm[@]}" BANYAN_KEY=$key 'SLURM_STEP_NODELIST=first,second'
    took "torchrun's variables, IPv4, $what" ranks_meet "${torch[@]}" BANYAN_KEY=$key MASTER_ADDR=10.9.9.1 MASTER_PORT=7003
    took "torchrun's variables, IPv6, $what" ranks_meet "${torch[@]}" BANYAN_KEY=$key MASTER_ADDR=first6 MASTER_PORT=7004
  done
done

# The doctor warns of such a name and recommends the configuration that has just worked.
one=a1 two=b1
on "$one" "$BANYAN" doctor >"$scratch/out" || true
shows 'node resolves to 127\.0\.1\.1 here' out
shows '-> .* use an address as the meeting point: `banyan run` does' out
one=a$number two=b$number

# A name that no server resolves causes no wait.
for m in "$one" "$two"; do echo 'nameserver 10.8.99.99' >"$scratch/resolv.$m"; done
took "a name whose server is silent, and an address" ranks_meet "${ompi[@]}" BANYAN_KEY=$key \
  BANYAN_ROOT=nobody.invalid:7010,10.9.9.1:7010

# shows_cause FILE PATTERN CAUSE: checks that the pattern appears while the ranks still try, and prints how soon.
shows_cause() {
  local begin
  begin=$(date +%s%N)
  comes has "$2" "$1" || fail "$1 does not show: $2"
  kill -0 "${pids[1]}" || fail "rank 1 has ended"
  echo "$3: the cause is reported after $((($(date +%s%N) - begin) / 1000000)) ms"
}
give_up() {
  kill "${pids[@]}"
  wait "${pids[@]}" || true
}

# A name that means each machine itself: both sides report this long before the deadline. Slurm's first host has the
# name that both machines have.
one=a1 two=b1
ranks "${slurm[@]}" BANYAN_KEY=$key 'SLURM_STEP_NODELIST=node,node'
shows_cause 1.err 'rank 0 is not reached yet: node:[0-9]+ means 127\.0\.1\.1:[0-9]+, which is this machine itself: cannot connect.*Connection refused' "Slurm's host is this machine itself"
comes has '1 of 2 ranks joined so far; missing: 1; they must reach node:[0-9]+; still trying' 0.err || fail "rank 0 is silent"
give_up

# The network between the machines loses everything, and another name is unknown.
ranks "${ompi[@]}" BANYAN_KEY=$key BANYAN_ROOT=10.8.1.2:7005,nobody.invalid:7005
shows_cause 1.err 'rank 0 is not reached yet: nobody.invalid:7005: host .* cannot be looked up.*; cannot connect to 10\.8\.1\.2:7005: ' "an address without a route"
give_up
one=a2 two=b2
ranks "${torch[@]}" BANYAN_KEY=$key MASTER_ADDR=10.8.1.2 MASTER_PORT=7006
shows_cause 1.err 'rank 0 is not reached yet: .*10\.8\.1\.2:7007.* no answer' "torchrun's address is of a network that is lost"
give_up

# Without a key or a root address, the ranks report at once what is missing.
one=a1 two=b1
ranks "${ompi[@]}" PMIX_NAMESPACE=none
for r in 0 1; do
  wait "${pids[r]}" && fail "rank $r runs without a key"
  shows 'this job has 2 ranks but no key' "$r.err"
done

# The final error contains the last failure of each attempt.
ranks "${ompi[@]}" BANYAN_KEY=$key BANYAN_ROOT=10.8.1.2:7008,127.0.0.1:7008 BANYAN_JOIN_DEADLINE=2
for r in 0 1; do wait "${pids[r]}" && fail "rank $r has met the other"; done
shows '1 of 2 ranks joined within 2 s; missing: 1; they must reach 10\.8\.1\.2:7008,127\.0\.0\.1:7008' 0.err
shows 'did not answer within 2 s.*10\.8\.1\.2:7008.*127\.0\.0\.1:7008: Connection refused' 1.err

# Two process namespaces in one network with only its loopback: there is no shared memory, so the ranks use the
# loopback.
machine pod pod
for r in 0 1; do
  on pod env BANYAN_RANK=$r BANYAN_SIZE=2 BANYAN_KEY=$key BANYAN_ROOT=127.0.0.1:7009 BANYAN_LOG=info timeout 150 \
    unshare --pid --fork --mount-proc "$hello" >"$scratch/$r.out" 2>"$scratch/$r.err" &
  pids[r]=$!
done
for r in 0 1; do wait "${pids[r]}" || fail "rank $r of a pod failed"; done
shows 'link to rank 0 .* over TCP' 1.err
