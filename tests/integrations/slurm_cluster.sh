# shellcheck shell=bash
# Sourced behind tests/shell.sh by tests of Slurm: a cluster of Debian's Slurm on this machine. Each node has its own
# network, host name, spool folder and processes. Begins by starting the script again in namespaces in which all of it,
# daemons included, ends with the script.
# shellcheck disable=SC2154 # $scratch is of tests/shell.sh

# enter_namespaces LIMIT SCRIPT: starts the script again, with at most LIMIT seconds.
enter_namespaces() {
  local tool
  for tool in munged slurmctld slurmd srun sbatch scontrol; do
    command -v "$tool" >/dev/null ||
      skip "no $tool here (apt-get install munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins)"
  done
  python3 -c 'import numpy' 2>"$scratch/err" || skip 'no NumPy here'
  for tool in ip unshare; do command -v $tool >/dev/null || skip "no $tool here (iproute2, util-linux)"; done
  local spaces=(unshare --net --mount --uts --pid --fork --kill-child --mount-proc)
  "${spaces[@]}" true 2>"$scratch/err" || skip "namespaces may not be made here: $(cat "$scratch/err")"
  local status=0
  IN_NAMESPACES=1 timeout -k 5 "$1" "${spaces[@]}" "$2" || status=$?
  [ "$status" -ne 124 ] || fail "the test has not ended within $1 s"
  exit "$status"
}

# node_up N: node nN, on the bridge at 10.7.0.N.
declare -A node_pid
node_up() {
  local pid name=n$1
  mkdir -p "$scratch/$name/spool" "$scratch/$name/tmp"
  unshare --net --mount --uts --pid --fork --kill-child --mount-proc sh -c "hostname $name && mount -t tmpfs shm /dev/shm || exit
    until ip link show eth0; do sleep 0.02; done
    ip link set lo up && ip addr add 10.7.0.$1/24 dev eth0 && ip link set eth0 up &&
    exec slurmd -D -N $name" </dev/null >"$scratch/$name/out" 2>&1 &
  pid=$!
  node_pid[$1]=$pid
  comes has_network_of_its_own "$pid" || fail "node $name has no network: $(cat "$scratch/$name/out")"
  ip link add "to-$name" type veth peer name eth0 netns "$pid"
  ip link set "to-$name" master bridge up
}
has_network_of_its_own() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }

# node_dies N: all its processes at once, and its cable.
node_dies() {
  kill -KILL "${node_pid[$1]}"
  wait "${node_pid[$1]}" 2>/dev/null || true
  ip link del "to-n$1" 2>/dev/null || true
}

# nodes_are STATE N: so many nodes are in it.
nodes_are() { [ "$(sinfo -h -N -o %T | grep -c "^$1")" -eq "$2" ]; }

# cluster_up NODES CPUS
cluster_up() {
  local i
  export SLURM_CONF=$scratch/slurm.conf
  echo '127.0.0.1 localhost' >"$scratch/hosts"
  echo '10.7.0.254 control' >>"$scratch/hosts"
  for ((i = 1; i <= $1; i++)); do echo "10.7.0.$i n$i" >>"$scratch/hosts"; done
  mount --bind "$scratch/hosts" /etc/hosts
  hostname control
  ip link set lo up
  ip link add bridge type bridge
  ip addr add 10.7.0.254/24 dev bridge
  ip link set bridge up
  dd if=/dev/urandom of="$scratch/munge.key" bs=128 count=1 status=none
  chmod 600 "$scratch/munge.key"
  cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=control(10.7.0.254)
AuthType=auth/munge
AuthInfo=socket=$scratch/munge.socket
SlurmUser=root
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/%n/spool
TmpFS=$scratch/%n/tmp
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/%n/pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/%n/log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
SlurmdTimeout=300
KillWait=2
SlurmdParameters=config_overrides
NodeName=n[1-$1] CPUs=$2 RealMemory=512
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=1:00:00 DefaultTime=10
END
  mkdir -p "$scratch/state"
  munged --foreground --force --key-file="$scratch/munge.key" --socket="$scratch/munge.socket" \
    --pid-file="$scratch/munge.pid" --seed-file="$scratch/munge.seed" --log-file="$scratch/munge.log" >"$scratch/munge.out" 2>&1 &
  comes [ -S "$scratch/munge.socket" ] || fail "munged does not start"
  slurmctld -D -i >"$scratch/slurmctld.out" 2>&1 &
  for ((i = 1; i <= $1; i++)); do node_up "$i"; done
  comes nodes_are idle "$1" || fail "the nodes do not come up"
}
