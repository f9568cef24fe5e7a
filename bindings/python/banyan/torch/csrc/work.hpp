// A call of Banyan's as PyTorch's Work.
// Whoever waits for it moves the bytes itself, like banyan_wait. Once somebody asks for its future, the request is
// given to Banyan, and the thread that sees its end completes the future; a future that Python has asked for is
// completed by a thread of callbacks.hpp. None of this holds the interpreter's lock.
#pragma once

#include <banyan/banyan.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "origin.hpp"

namespace banyan {

// Becomes banyan.Error in Python where it passes pybind11, RuntimeError where the autograd engine carries it.
struct Error : std::runtime_error {
  Error(enum banyan_status status, const std::string &text);
  enum banyan_status status;
};

// Throws Error with the library's text.
void check(enum banyan_status status);

class Work : public c10d::Work {
public:
  // What a call works on: it lives until the call has ended. `finish` then brings the result to where it belongs.
  struct Parts {
    std::vector<at::Tensor> held;    // memory that is used
    std::vector<at::Tensor> outputs; // for result() and the future
    std::function<void()> finish;
    std::shared_ptr<int> source; // of a recv from any rank: gets the sender
    std::function<void()> run;   // a call that is over when the constructor returns, beside the requests
  };

  // `inputs` are for PyTorch's profiler.
  Work(int rank, c10d::OpType type, const char *title, const std::vector<at::Tensor> &inputs, Parts parts,
       std::vector<struct banyan_request *> requests);
  ~Work() override;
  Work(const Work &) = delete;
  Work &operator=(const Work &) = delete;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  int sourceRank() const override;
  void synchronize() override;

  Origin origin; // set by who makes it

private:
  enum class State { held, waited, given, done };

  static void then(void *argument, enum banyan_status status, const char *text);
  void give();
  void ended(enum banyan_status status, const std::string &text);
  void complete();
  void answer();
  void complete_future();
  void rethrow();

  State state_ = State::held; // under mutex_, like what follows
  Parts parts_;
  std::vector<struct banyan_request *> requests_;
  size_t left_;
  std::exception_ptr error_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool answered_ = false;
  bool for_python_ = false; // asked for the future
};

} // namespace banyan
