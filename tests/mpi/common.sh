# shellcheck shell=bash
# Sourced by the scripts of tests/mpi after tests/shell.sh.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
  OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_base_warn_component_unused=0 PMIX_MCA_gds=hash TMPDIR=$scratch

# Whether programs of this MPI library, "openmpi" or "mpich", can be tried.
has_abi() {
  command -v "mpirun.$1" >/dev/null && [ -e "$BANYAN_BUILD/bindings/mpi/libbanyan-$1.so" ]
}
has_abi openmpi || has_abi mpich || skip "there is neither Open MPI nor MPICH, or a sanitizer is built in"
