# shellcheck shell=bash
# Sourced by run.sh and lab.sh, which set $here and $BENCH_OUT: builds the programs that time other libraries.

build_peer() { # PROGRAM SOURCE COMPILER FLAGS...
  local program=$BENCH_OUT/bin/$1 source=$here/$2
  shift 2
  command -v "$1" >/dev/null || { echo "bench: no $1: $(basename "$program") is left out" >&2; return 0; }
  [ "$program" -nt "$source" ] && [ "$program" -nt "$here/peer_common.h" ] && return 0
  "$1" -O3 -march=native -o "$program" "$source" "${@:2}" || {
    echo "bench: $(basename "$program") does not compile and is left out" >&2
    rm -f "$program"
  }
}

build_peers() {
  mkdir -p "$BENCH_OUT/bin"
  build_peer core_latency core_latency.c gcc -lpthread
  build_peer peer_banyan peer_banyan.c gcc -I"$here/../include" -L"$(dirname "$BANYAN")" \
    -Wl,-rpath,"$(realpath -m "$(dirname "$BANYAN")")" -lbanyan
  build_peer peer_openmpi peer_mpi.c mpicc.openmpi
  build_peer peer_mpich peer_mpi.c mpicc.mpich
  build_peer peer_gloo peer_gloo.cpp g++ -std=c++17 -w -lgloo -lpthread
}
