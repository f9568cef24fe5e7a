// What futures.py needs of PyTorch's futures and of callbacks.
#include <torch/csrc/jit/python/pybind_utils.h>

#include "work.hpp"

namespace banyan {

namespace {

using Wrapper = std::shared_ptr<torch::jit::PythonFutureWrapper>;

// One future of Python's becomes the same as another one.
void share(const Wrapper &one, const Wrapper &other) {
  one->fut = other->fut;
}

py::object run_callback(const std::string &name, const py::function &callback, const py::object &future) {
  Callback scope(name);
  return callback(future);
}

} // namespace

void define_futures(py::module_ &module) {
  // Of this module only: a process may open another build of it.
  py::class_<Work, c10d::Work, c10::intrusive_ptr<Work>>(module, "Work", py::module_local())
      .def_property_readonly("origin", [](Work &work) { return work.origin.text(); });
  module.def("share", &share);
  module.def("run_callback", &run_callback);
}

} // namespace banyan
