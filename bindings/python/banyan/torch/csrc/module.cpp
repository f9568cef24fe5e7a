// What Python sees of the backend.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/utils/pybind.h>

#include <map>

#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

#include "group.hpp"

namespace banyan {
void leave_all();
void define_futures(py::module_ &module);
} // namespace banyan

namespace {

std::shared_ptr<struct banyan_comm> world_of(const c10::intrusive_ptr<banyan::Base> &base) {
  auto *group = dynamic_cast<banyan::Group *>(base.get());
  return group ? group->comm() : nullptr;
}

using Created = c10::intrusive_ptr<banyan::Base>;

using Texts = std::map<std::string, std::string>;

const char *text_of(const Texts &texts, const char *name) {
  auto found = texts.find(name);
  return found == texts.end() ? nullptr : found->second.c_str();
}

struct banyan_options options_of(double deadline, const Texts &given) {
  struct banyan_options options = {};
  options.size_of_struct = sizeof options;
  options.root = text_of(given, "root");
  options.key = text_of(given, "key");
  options.transport = text_of(given, "transport");
  options.plan = text_of(given, "plan");
  options.topology = text_of(given, "topology");
  options.timeline = text_of(given, "timeline");
  options.deadline = deadline;
  return options;
}

Created join(int rank, int size, double deadline, double timeout, const Texts &given) {
  struct banyan_options options = options_of(deadline, given);
  struct banyan_comm *comm = nullptr;
  options.rank_plus_1 = rank + 1;
  options.size = size;
  options.join_deadline = timeout;
  banyan::check(banyan_comm_create(&options, &comm));
  return c10::make_intrusive<banyan::Group>(comm, deadline);
}

Created subset(const Created &base, const std::vector<int> &ranks, double deadline, const Texts &given) {
  auto *group = dynamic_cast<banyan::Group *>(base.get());
  TORCH_CHECK(group, "banyan: the group that this is to be a part of is no group of Banyan's");
  return banyan::subset_of(*group, ranks, deadline, text_of(given, "plan"));
}

// The communicator's address, for the functions of the package banyan; 0: it is no group of Banyan's, or has left.
uintptr_t address(const Created &base) {
  return reinterpret_cast<uintptr_t>(world_of(base).get());
}

// ---- groups whose processes change

Created without_members(int rank, int size, double deadline, const Texts &given) {
  struct banyan_options options = options_of(deadline, given);
  struct banyan_member *member = nullptr;
  banyan::check(banyan_member_create(&options, &member));
  return c10::make_intrusive<banyan::Group>(member, rank, size, deadline);
}

uintptr_t member(const Created &base) {
  return reinterpret_cast<uintptr_t>(banyan::reconfigurable(base).member());
}

void reconfigure(const Created &base, const std::string &name, const std::vector<std::string> &handles,
                 double timeout) {
  banyan::reconfigurable(base).reconfigure(name, handles, timeout);
}

void adopt(const Created &base, uintptr_t comm) {
  banyan::reconfigurable(base).adopt(reinterpret_cast<struct banyan_comm *>(comm));
}

void abort_group(const Created &base) {
  banyan::reconfigurable(base).abort();
}

// ---- named operations

banyan::Group &group_of(const Created &base) {
  auto *group = dynamic_cast<banyan::Group *>(base.get());
  TORCH_CHECK(group, "banyan: named operations need a group whose backend is banyan");
  return *group;
}

banyan::Made submit(const Created &base, const std::vector<std::string> &names, const std::vector<int> &priorities,
                    const banyan::Tensors &tensors, const banyan::Tensors &outputs, const c10d::ReduceOp &op,
                    double timeout) {
  return group_of(base).submit(names, priorities, tensors, outputs, op, timeout);
}

uint64_t step(const Created &base) {
  return group_of(base).step();
}

uint64_t next_submitter(const Created &base) {
  return group_of(base).next_submitter();
}

int state(const Created &base) {
  return banyan::reconfigurable(base).state();
}

#if TORCH_VERSION_MAJOR >= 2 && !defined(C10D_BACKEND_HAS_RECONFIGURE)
// Before 2.14 the process group around a backend has its own rank and size, as constants (see members.cpp).
struct Around : c10d::ProcessGroup {
  static void resize(c10d::ProcessGroup &group, int rank, int size) {
    const_cast<int &>(group.*(&Around::rank_)) = rank;
    const_cast<int &>(group.*(&Around::size_)) = size;
  }
};

void resize(const c10::intrusive_ptr<c10d::ProcessGroup> &group, int rank, int size) {
  Around::resize(*group, rank, size);
}
#endif

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  static py::object raise = py::module_::import("banyan.errors").attr("from_status");
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (python_error &error) { // of a signal's handler
      error.restore();
    } catch (const banyan::Error &error) {
      py::object exception = raise(static_cast<int>(error.status), error.what());
      PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(exception.ptr())), exception.ptr());
    }
  });
  auto free_of_gil = py::call_guard<py::gil_scoped_release>();
  module.def("join", &join, free_of_gil);
  module.def("subset", &subset, free_of_gil);
  module.def("address", &address);
  module.def("without_members", &without_members, free_of_gil);
  module.def("member", &member);
  module.def("reconfigure", &reconfigure, free_of_gil);
  module.def("adopt", &adopt, free_of_gil);
  module.def("abort", &abort_group, free_of_gil);
  module.def("state", &state);
  module.def("submit", &submit, free_of_gil);
  module.def("step", &step, free_of_gil);
  module.def("next_submitter", &next_submitter);
#if TORCH_VERSION_MAJOR >= 2 && !defined(C10D_BACKEND_HAS_RECONFIGURE)
  module.def("resize", &resize);
#endif
  banyan::define_futures(module);
  module.def("leave_all", &banyan::leave_all, free_of_gil);
}
