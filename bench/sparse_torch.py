"""Times sparse AllReduce of PyTorch over Gloo and of Banyan, on the same batches, in the same processes:

    banyan run -o rank0 -n 8 --transport tcp -- python3 sparse_torch.py LIBRARY FOLDER

LIBRARY is libbanyan.so, FOLDER has the batches that sparse_bench wrote. Both take turns in every round, in an
order that changes, with the rows in their original order, which contains duplicates ("as they come"), and with
each row once ("merged"). Prints for each the median over the rounds of the slowest rank's time. Results are
compared."""

import ctypes
import statistics
import sys
import time

import torch
import torch.distributed as dist

ROUNDS = 31


class Sparse(ctypes.Structure):
    """Mirrors struct banyan_sparse."""
    _fields_ = [("dtype", ctypes.c_int), ("row_dtype", ctypes.c_int), ("height", ctypes.c_size_t),
                ("width", ctypes.c_size_t), ("count", ctypes.c_size_t), ("rows", ctypes.c_void_p),
                ("values", ctypes.c_void_p), ("unique", ctypes.c_bool), ("memory", ctypes.c_void_p),
                ("room", ctypes.c_size_t)]


class Call(ctypes.Structure):
    """Mirrors struct banyan_sparse_call."""
    _fields_ = [("collective", ctypes.c_int), ("op", ctypes.c_int), ("way", ctypes.c_int),
                ("input", ctypes.POINTER(Sparse)), ("out", ctypes.POINTER(Sparse)), ("counts", ctypes.c_void_p),
                ("taken", ctypes.POINTER(ctypes.c_int)), ("memory", ctypes.c_size_t), ("deadline", ctypes.c_double),
                ("tables", ctypes.c_size_t)]


F32, I32 = 0, 6


class Banyan:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.banyan_error_text.restype = ctypes.c_char_p
        self.library.banyan_sparse_way_name.restype = ctypes.c_char_p
        self.comm = ctypes.c_void_p()
        self.check(self.library.banyan_comm_create(None, ctypes.byref(self.comm)))
        self.rank = self.library.banyan_comm_rank(self.comm)
        self.size = self.library.banyan_comm_size(self.comm)
        self.out, self.taken = Sparse(), ctypes.c_int()
        self.nothing = self.call(Sparse(dtype=F32, row_dtype=I32, height=1, width=1), Sparse())

    def check(self, status):
        if status:
            sys.exit(f"sparse_torch: {self.library.banyan_error_text().decode()}")

    def meet(self):
        self.reduce(self.nothing)

    def call(self, tensor, out):
        return Call(input=ctypes.pointer(tensor), out=ctypes.pointer(out), taken=ctypes.pointer(self.taken))

    def reduce(self, call):
        self.check(self.library.banyan_sparse_run(self.comm, ctypes.byref(call)))

    def destroy(self):
        self.library.banyan_sparse_free(ctypes.byref(self.out))
        self.library.banyan_comm_destroy(self.comm)


class Batch:
    """One rank's rows, in the formats of both libraries."""

    def __init__(self, rows, values, height, merged, banyan):
        self.rows, self.values = rows.contiguous(), values.contiguous()
        self.tensor = torch.sparse_coo_tensor(rows.long()[None], values, (height, values.shape[1]))
        if merged:
            self.tensor._coalesced_(True)
        self.sparse = Sparse(dtype=F32, row_dtype=I32, height=height, width=values.shape[1], count=len(rows),
                             rows=self.rows.data_ptr(), values=self.values.data_ptr(), unique=merged)
        self.call = banyan.call(self.sparse, banyan.out)


def read_batches(folder, banyan):
    with open(f"{folder}/batch-{banyan.rank}", "rb") as file:
        count, height, width = torch.frombuffer(bytearray(file.read(24)), dtype=torch.int64).tolist()
        rows = torch.frombuffer(bytearray(file.read(4 * count)), dtype=torch.int32)
        values = torch.frombuffer(bytearray(file.read(4 * count * width)), dtype=torch.float32).reshape(count, width)
    both = torch.sparse_coo_tensor(rows.long()[None], values, (height, width)).coalesce()
    return {"as they come": Batch(rows, values, height, False, banyan),
            "merged": Batch(both.indices()[0].int(), both.values(), height, True, banyan)}


def by_torch(batch, banyan):
    """Its AllReduce replaces the tensor, so that each call needs a copy."""
    tensor = batch.tensor.clone()
    banyan.meet()
    start = time.perf_counter()
    dist.all_reduce(tensor)
    return time.perf_counter() - start, tensor


def by_banyan(batch, banyan):
    banyan.meet()
    start = time.perf_counter()
    banyan.reduce(batch.call)
    return time.perf_counter() - start, None


def compare(batch, banyan, kind):
    by_banyan(batch, banyan)
    way = banyan.library.banyan_sparse_way_name(banyan.taken.value).decode()
    out, theirs = banyan.out, by_torch(batch, banyan)[1].coalesce()
    values = (ctypes.c_float * (out.count * out.width)).from_address(out.values)
    ours = torch.frombuffer(values, dtype=torch.float32).reshape(out.count, out.width)
    if out.count != theirs.indices().shape[1] or not torch.allclose(ours, theirs.values(), rtol=1e-3, atol=1e-5):
        sys.exit(f"sparse_torch: {kind}: the results differ")
    return way, out.count


def main():
    banyan = Banyan(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}/meet", rank=banyan.rank, world_size=banyan.size)
    for kind, batch in read_batches(sys.argv[2], banyan).items():
        way, union = compare(batch, banyan, kind)
        times = {by_torch: [], by_banyan: []}
        for turn in range(ROUNDS):
            for one in list(times)[::1 if turn % 2 else -1]:
                times[one].append(one(batch, banyan)[0])
        slowest = torch.tensor(list(times.values()))
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        theirs, ours = (statistics.median(each) for each in slowest.tolist())
        if banyan.rank == 0:
            print(f"{banyan.size} ranks, width {batch.values.shape[1]}, {kind}: union {union}, "
                  f"PyTorch {1e6 * theirs:.0f} us, Banyan ({way}) {1e6 * ours:.0f} us: {theirs / ours:.2f} times as fast")
    dist.destroy_process_group()
    banyan.destroy()


main()
