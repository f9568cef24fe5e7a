! Makes collective calls from Fortran, with its MPI_IN_PLACE and its types, by the module mpi, or by mpi_f08 (-DF08).
program sums
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer, parameter :: n = 5000
  integer :: rank, ranks, ierror, i, whole(n)
  double precision, target :: values(n), totals(n)
  complex :: waves(n)
  real, allocatable :: blocks(:)
  integer(kind=MPI_ADDRESS_KIND) :: address(1)
#ifdef F08
  type(MPI_Datatype) :: absolute
#else
  integer :: absolute
#endif

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)

  values = rank + 1
  call MPI_Allreduce(values, totals, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  call check(all(totals == ranks * (ranks + 1) / 2), 'allreduce')
  call MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierror)
  call check(all(values == ranks), 'allreduce in place')

  waves = cmplx(1, rank)
  call MPI_Allreduce(MPI_IN_PLACE, waves, n, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, ierror)
  call check(all(waves == cmplx(ranks, ranks * (ranks - 1) / 2)), 'allreduce of complex numbers')

  whole = rank
  if (rank == 1) then
    call MPI_Reduce(MPI_IN_PLACE, whole, n, MPI_INTEGER, MPI_SUM, 1, MPI_COMM_WORLD, ierror)
    call check(all(whole == ranks * (ranks - 1) / 2), 'reduce in place')
  else
    call MPI_Reduce(whole, whole, n, MPI_INTEGER, MPI_SUM, 1, MPI_COMM_WORLD, ierror)
  end if

  if (rank == 0) whole = [(i, i = 1, n)]
  call MPI_Bcast(whole, n, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
  call check(all(whole == [(i, i = 1, n)]), 'bcast')

  allocate(blocks(n * ranks))
  blocks = 0
  blocks(rank * n + 1 : (rank + 1) * n) = rank
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, blocks, n, MPI_REAL, MPI_COMM_WORLD, ierror)
  call check(all(blocks == [((real(i), ierror = 1, n), i = 0, ranks - 1)]), 'allgather in place')

  values = -1
  if (rank == 0) values = [(i, i = 1, n)]
  call MPI_Get_address(values, address(1), ierror)
  call MPI_Type_create_hindexed(1, [n], address, MPI_DOUBLE_PRECISION, absolute, ierror)
  call MPI_Type_commit(absolute, ierror)
  call MPI_Bcast(MPI_BOTTOM, 1, absolute, 0, MPI_COMM_WORLD, ierror)
  call MPI_Get_address(values, address(1), ierror) ! so that the compiler knows that they changed
  call check(all(values == [(i, i = 1, n)]), 'bcast of absolute addresses')
  call MPI_Type_free(absolute, ierror)

  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  if (rank == 0) print '(a)', 'all sums are right'
  call MPI_Finalize(ierror)

contains
  subroutine check(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    print '(2a)', 'wrong: ', what
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine
end program
