// Exceptions. Each names the process that it is thrown in by its rank and host, and the call.
#pragma once

#include <banyan/banyan.h>

#include <stdexcept>
#include <string>

#include <c10/util/StringUtil.h>

namespace banyan {

// Becomes banyan.Error in Python where it passes pybind11, RuntimeError where the autograd engine carries it.
struct Error : std::runtime_error {
  Error(enum banyan_status status, const std::string &text);
  enum banyan_status status;
};

// Throws Error with the library's text.
void check(enum banyan_status status);
// The same for a call of the library's, `what`, which may have a name.
void check_begun(enum banyan_status status, const char *what, const char *name = nullptr);

// Errors name the rank that this process has in this communicator, and its host.
void introduce(const struct banyan_comm *comm);
// "all_reduce of Float [3, 4] on rank 1 (host b)"
std::string here(const std::string &what);

// A call, which its name in torch.distributed stands for, was given what it cannot do: nothing was sent.
[[noreturn]] void refuse(const char *call, const std::string &text);

} // namespace banyan

// Throws with the text unless the condition holds.
#define BANYAN_REQUIRE(condition, call, ...)                                                                           \
  do {                                                                                                                 \
    if (__builtin_expect(!(condition), 0)) ::banyan::refuse(call, c10::str(__VA_ARGS__));                              \
  } while (0)
