"""Sums the arrays of all ranks: banyan run -n 2 -- banyan-sum"""
import banyan
import numpy


def main():
    with banyan.Communicator() as comm:
        print(f"{banyan.__version__}: {comm.allreduce(numpy.ones(1000) * 3)[0]:g} of {comm.size}")


if __name__ == "__main__":
    main()
