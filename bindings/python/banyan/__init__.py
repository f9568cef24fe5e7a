"""Banyan: gradient synchronisation over weighted aggregation trees.

    import banyan, numpy

    with banyan.Communicator() as comm:              # started as `banyan run -n 4 -- python3 train.py`
        gradient = numpy.ones(1000, numpy.float32)
        comm.allreduce(gradient, op="average")       # or comm.start.allreduce(...), which returns a Request

`import banyan.torch` makes it a backend of torch.distributed.
"""
from .comm import Communicator, Named, Plan, Starter, Together
from .errors import Aborted, Error, LinkError, Mismatch, PeerDead, RequestError, Timeout
from .library import version as _version
from .member import Interrupted, Member
from .request import Request
from .sparse import SparseResult
from .state import State, Synced

__version__ = _version()
__all__ = ["Aborted", "Communicator", "Error", "Interrupted", "LinkError", "Member", "Mismatch", "Named", "PeerDead", "Plan", "Request", "RequestError",
           "SparseResult", "Starter", "State", "Synced", "Timeout", "Together"]
