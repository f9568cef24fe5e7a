// A call of Banyan's as PyTorch's Work.
// Whoever waits for it moves the bytes itself, like banyan_wait. Once somebody asks for its future, the request is
// given to Banyan, and the thread that sees its end completes the future; a future that Python has asked for is
// completed by a thread of callbacks.hpp. None of this holds the interpreter's lock.
#pragma once

#include <banyan/banyan.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "errors.hpp"
#include "origin.hpp"

namespace banyan {

class Work : public c10d::Work {
public:
  // What a call works on: it lives until the call has ended. `finish` then brings the result to where it belongs.
  struct Parts {
    std::vector<at::Tensor> held;    // memory that is used
    std::vector<at::Tensor> outputs; // for result() and the future
    std::function<void()> finish;
    std::shared_ptr<int> source; // of a recv from any rank: gets the sender
    std::string name;            // of the operation, where it has one, for errors
  };

  // Made before the call begins, for PyTorch's profiler, which gets title and inputs. The title is "banyan:all_reduce",
  // for example, and lives as long as the program.
  Work(int rank, c10d::OpType type, const char *title, const std::vector<at::Tensor> &inputs, Parts &&parts);
  // It consists of these calls, which have begun. To be called once, unless the first one could not begin.
  void begun(std::vector<struct banyan_request *> requests);
  // Instead: it consists of one call, which this thread has run and which has ended so.
  void has_run(enum banyan_status status);
  // Waits until it has ended, however it does. Throws what a signal's handler raises; then the calls go on, and keep
  // their memory.
  void await();
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
  void wait_for(struct banyan_request *request);
  std::string what() const;
  std::exception_ptr error_of(enum banyan_status status, const std::string &text) const;
  void ended(enum banyan_status status, const char *text);
  void complete();
  void answer();
  void complete_future();
  void rethrow();

  const char *const title_;
  State state_ = State::held; // under mutex_, like what follows
  Parts parts_;
  std::vector<struct banyan_request *> requests_;
  size_t left_ = 0;
  std::exception_ptr error_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool answered_ = false;
  bool for_python_ = false; // asked for the future
};

} // namespace banyan
