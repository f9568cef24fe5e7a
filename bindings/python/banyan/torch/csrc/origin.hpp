// Where a call comes from. All ranks make the calls of a program in one order. Callbacks of futures run when calls end,
// which is in a different order on each rank, and while the program makes other calls. So what a callback calls is
// submitted under a name that is the same on all ranks: it names the call whose end was waited for, the callback among
// those of its future, and the call among those of the callback.
#pragma once

#include <cstdint>
#include <string>

namespace banyan {

struct Origin {
  uint32_t group = 0;
  uint64_t call = 0; // the number, from 1 on, of a call of the program; 0: it has a name, or is not known
  std::string name;  // of what was submitted
  // Names the callbacks of its future; empty: nothing does, on all ranks.
  std::string text() const;
};

// While it exists, this thread runs a callback.
class Callback {
public:
  // An empty name is that of a callback whose calls cannot be named.
  explicit Callback(std::string name);
  ~Callback();
  Callback(const Callback &) = delete;
  Callback &operator=(const Callback &) = delete;

  // The innermost callback that this thread runs; null: none.
  static Callback *running();
  // Names its next call; throws where it has no name itself.
  std::string next_call();

private:
  const std::string name_;
  unsigned calls_ = 0;
  Callback *const outer_;
};

} // namespace banyan
