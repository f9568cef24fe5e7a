// What Python sees of the backend.
#include <torch/csrc/utils/pybind.h>

#include <map>

#include "group.hpp"

namespace banyan {
void leave_all();
}

namespace {

struct banyan_comm *world_of(const c10::intrusive_ptr<banyan::Base> &base) {
  auto *group = dynamic_cast<banyan::Group *>(base.get());
  return group ? group->comm() : nullptr;
}

using Created = c10::intrusive_ptr<banyan::Base>;

using Texts = std::map<std::string, std::string>;

const char *text_of(const Texts &texts, const char *name) {
  auto found = texts.find(name);
  return found == texts.end() ? nullptr : found->second.c_str();
}

Created join(int rank, int size, double deadline, const Texts &given) {
  struct banyan_options options = {};
  struct banyan_comm *comm = nullptr;
  options.size_of_struct = sizeof options;
  options.rank_plus_1 = rank + 1;
  options.size = size;
  options.root = text_of(given, "root");
  options.key = text_of(given, "key");
  options.transport = text_of(given, "transport");
  options.plan = text_of(given, "plan");
  options.topology = text_of(given, "topology");
  options.timeline = text_of(given, "timeline");
  options.deadline = deadline;
  banyan::check(banyan_comm_create(&options, &comm));
  return c10::make_intrusive<banyan::Group>(comm);
}

Created subset(const Created &base, const std::vector<int> &ranks, uint32_t number, double deadline,
               const Texts &given) {
  struct banyan_comm *world = world_of(base), *comm = nullptr;
  TORCH_CHECK(world, "banyan: the group that this is to be a part of is no group of Banyan's, or has left");
  banyan::check(banyan_comm_subset(world, ranks.data(), static_cast<int>(ranks.size()), number, &comm));
  enum banyan_status status = banyan_comm_set_deadline(comm, deadline);
  const char *plan = text_of(given, "plan");
  if (status == BANYAN_OK && plan) status = banyan_comm_set_plan(comm, plan);
  if (status != BANYAN_OK) banyan_comm_destroy(comm);
  banyan::check(status);
  return c10::make_intrusive<banyan::Group>(comm);
}

// The communicator's address, for the functions of the package banyan; 0: it is no group of Banyan's, or has left.
uintptr_t address(const Created &base) {
  return reinterpret_cast<uintptr_t>(world_of(base));
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  static py::object raise = py::module_::import("banyan.errors").attr("from_status");
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const banyan::Error &error) {
      py::object exception = raise(static_cast<int>(error.status), error.what());
      PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exception.ptr())), exception.ptr());
    }
  });
  auto free_of_gil = py::call_guard<py::gil_scoped_release>();
  module.def("join", &join, free_of_gil);
  module.def("subset", &subset, free_of_gil);
  module.def("address", &address);
  module.def("leave_all", &banyan::leave_all, free_of_gil);
}
