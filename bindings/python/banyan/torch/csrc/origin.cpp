#include "origin.hpp"

#include <utility>

#include <c10/util/Exception.h>

namespace banyan {

namespace {

thread_local Callback *innermost = nullptr;

} // namespace

std::string Origin::text() const {
  if (!name.empty() || !call) return name;
  return "call " + std::to_string(call) + " of group " + std::to_string(group);
}

Callback::Callback(std::string name) : name_(std::move(name)), outer_(innermost) {
  innermost = this;
}

Callback::~Callback() {
  innermost = outer_;
}

Callback *Callback::running() {
  return innermost;
}

std::string Callback::next_call() {
  TORCH_CHECK(!name_.empty(),
              "banyan: this callback makes a call, but nothing says which call of other ranks it belongs to: callbacks "
              "run in a different order on each rank. Attach it to the future of one collective call, by "
              "work.get_future().then(callback), or make the call from the program after waiting for the future");
  return name_ + ", call " + std::to_string(calls_++);
}

} // namespace banyan
