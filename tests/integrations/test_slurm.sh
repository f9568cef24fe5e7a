#!/bin/bash
# Jobs under Slurm: by srun, and by the batch scripts of the examples, each of which loses a node.
. "$BANYAN_SOURCE/tests/shell.sh"
. "$BANYAN_SOURCE/tests/integrations/slurm_cluster.sh"
[ -n "${IN_NAMESPACES-}" ] || enter_namespaces 240 "$0"
cluster_up 3 2 # one node to spare
export PATH=$BANYAN_BUILD:$PATH BANYAN_SILENCE=2 # seconds until a host that answers nothing counts as lost
ln -s "$BANYAN_SOURCE/examples" "$scratch/examples"
cd "$scratch" || exit
hello=$BANYAN_BUILD/examples/hello

# --- srun: ranks, the meeting point and the key from Slurm, with PMIx and without

# first_sums WHAT COMMAND...: prints how long five jobs took, of two nodes and four ranks, from before srun until it has ended.
first_sums() {
  local begin what=$1 times=()
  shift
  for _ in 1 2 3 4 5; do
    comes nodes_are idle 3
    begin=$(date +%s%N)
    wants 0 "$@"
    times+=($((($(date +%s%N) - begin) / 1000000)))
    shows '^1 \+ ... \+ 4 = 10$' out
  done
  mapfile -t times < <(printf '%s\n' "${times[@]}" | sort -n)
  echo "$what: from srun to its end, with one AllReduce: ${times[2]} ms (median of ${times[*]})"
}
first_sums 'srun --mpi=pmix' srun -N 2 -n 4 --mpi=pmix "$hello"
"$BANYAN" keys job "$scratch/job.key"
BANYAN_KEY_FILE=$scratch/job.key first_sums 'srun with a key file' srun -N 2 -n 4 "$hello"
wants 1 srun -N 2 -n 4 "$hello"
shows 'this job has 4 ranks but no key: start it with `srun --mpi=pmix`, or' err

# PMIx brings rank 0's address and fingerprint also to ranks that have a key; with a broken file they do not meet.
BANYAN_KEY_FILE=$scratch/job.key BANYAN_LOG=info wants 0 srun -N 2 -n 4 --mpi=pmix "$hello"
shows 'met through PMIx at 10\.7\.0\.[12]:[0-9]+#[0-9a-f]+' err
BANYAN_KEY_FILE=$scratch/slurm.conf wants 1 srun -N 2 -n 4 --mpi=pmix "$hello"

# --- batch scripts of the examples: each job loses its second node while it runs

# submit SCRIPT: as a job, $job, on n1 and n$second, which writes to $scratch/job and has begun when this returns.
submit() {
  comes all_is_quiet
  rm -f "$scratch/job"
  job=$(sbatch --parsable --output "$scratch/job" "$BANYAN_SOURCE/examples/slurm/$1" --steps 300 --pause 0.02)
  must_say '^(\[0\] )?step 0: 4 ranks on n1, n[23]$' "$1: the job does not begin"
  second=$(grep -oE 'step 0: .* on n1, n[23]$' "$scratch/job")
  second=${second: -1}
  comes [ -s "job-$job.npz" ] || fails "$1: there is no checkpoint"
}
all_is_quiet() { [ -z "$(squeue -h)" ]; }
says() { [ -e "$scratch/job" ] && grep -qE "$1" "$scratch/job"; }
must_say() { comes says "$1" || fails "$2"; }
fails() {
  tail -n 40 "$scratch/job" >"$scratch/err"
  tail -n 8 "$scratch"/n?/log >"$scratch/out"
  fail "$@"
}
# is_in STATE...: the job is in one of them.
is_in() { [[ " $* " = *" $(squeue -h -j "$job" -t all -o %T) "* ]]; }
ends_with() {
  comes is_in COMPLETED FAILED NODE_FAIL CANCELLED || fails 'the job does not end'
  is_in COMPLETED || fails "the job ended as $(squeue -h -j "$job" -t all -o %T)"
  says "$1" || fails 'the job does not end with its last line'
}
# What Slurm finds out by itself after SlurmdTimeout, five minutes.
is_down() { scontrol update NodeName="n$second" State=DOWN Reason="killed by the test"; }

submit requeue.sbatch
node_dies "$second"
must_say "rank [23] \(host n$second\) is gone" 'the other ranks do not notice that a node is lost'
is_down
comes is_in PENDING || fails 'the job is not requeued'
scontrol update JobId="$job" StartTime=now # Slurm waits for two minutes otherwise
must_say '^step ([5-9]|[12][0-9])[0-9]+: 4 ranks on n1, n[23]$' 'the job does not continue from its checkpoint'
ends_with '^done: 300 steps, 4 ranks, error 0\.0'

submit elastic.sbatch
node_dies "$second"
must_say '^\[0\] step [0-9]+: 2 ranks on n1$' 'the job does not go on without the node'
is_down
ends_with '^\[0\] done: 300 steps, 2 ranks, error 0\.0'
