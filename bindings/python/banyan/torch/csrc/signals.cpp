#include "signals.hpp"

#include <Python.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

namespace banyan {

void run_signal_handlers() {
  if (syscall(SYS_gettid) != getpid() || !Py_IsInitialized()) return;
  pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return;
  python_error error;
  error.persist();
  throw error;
}

} // namespace banyan
