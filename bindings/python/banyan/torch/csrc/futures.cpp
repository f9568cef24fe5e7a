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
  // Known to PyTorch's module, which returns works to Python, and so to all: a second build of this module finds it.
  if (!py::detail::get_global_type_info(typeid(Work)))
    py::class_<Work, c10d::Work, c10::intrusive_ptr<Work>>(module, "Work")
        .def_property_readonly("origin", [](Work &work) { return work.origin.text(); });
  module.def("share", &share);
  module.def("run_callback", &run_callback);
}

} // namespace banyan
