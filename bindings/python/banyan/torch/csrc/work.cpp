#include "work.hpp"

#include <Python.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include <ATen/core/jit_type.h>

#include "callbacks.hpp"
#include "signals.hpp"

namespace banyan {

Work::Work(int rank, c10d::OpType type, const char *title, const std::vector<at::Tensor> &inputs, Parts &&parts)
    : c10d::Work(rank, type, title, inputs), title_(title), parts_(std::move(parts)) {}

// A call that is profiled is given to Banyan, so that its end is noted when it happens, not when somebody looks.
void Work::begun(std::vector<struct banyan_request *> requests) {
  requests_ = std::move(requests);
  left_ = requests_.size();
  if (requests_.empty()) return complete();
  if (!recordFunctionEndCallback_) return;
  state_ = State::given;
  give();
}

void Work::has_run(enum banyan_status status) {
  if (status != BANYAN_OK) error_ = error_of(status, banyan_error_text());
  complete();
}

namespace {

// What is left of a work that nobody waited for: its memory is in use until the calls have ended.
struct Remains {
  Work::Parts parts;
  std::atomic<size_t> left;
};

void bury(void *argument, enum banyan_status status, const char *) {
  auto *remains = static_cast<Remains *>(argument);
  if (--remains->left) return;
  if (status == BANYAN_OK && remains->parts.finish) remains->parts.finish();
  delete remains;
}

} // namespace

Work::~Work() {
  if (state_ != State::held || requests_.empty()) return;
  if (recordFunctionEndCallback_) recordFunctionEndCallback_();
  auto *remains = new Remains{std::move(parts_), {requests_.size()}};
  for (auto *request : requests_) (void)!banyan_then(request, bury, remains);
}

// ---- the end

// With mutex_ locked, but in begun().
void Work::complete() {
  if (!error_ && parts_.finish) {
    try {
      parts_.finish();
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  parts_.finish = nullptr;
  parts_.held.clear();
  requests_.clear();
  state_ = State::done;
  completed_ = true;
  exception_ = error_;
  if (recordFunctionEndCallback_) {
    recordFunctionEndCallback_();
    recordFunctionEndCallback_ = nullptr;
  }
  cv_.notify_all();
}

// "all_reduce 'ddp bucket 1' of Float [1000]", for example. With mutex_ locked, before complete().
std::string Work::what() const {
  const std::vector<at::Tensor> &tensors = parts_.outputs.empty() ? parts_.held : parts_.outputs;
  std::string text = std::strchr(title_, ':') + 1;
  if (!parts_.name.empty()) text += " '" + parts_.name + "'";
  if (!tensors.empty()) text += c10::str(" of ", tensors[0].scalar_type(), ' ', tensors[0].sizes());
  if (tensors.size() > 1) text += c10::str(", the first of ", tensors.size(), " tensors");
  return text;
}

std::exception_ptr Work::error_of(enum banyan_status status, const std::string &text) const {
  return std::make_exception_ptr(Error(status, text + "; this ended " + here(what())));
}

// One of the requests has ended. Without mutex_.
void Work::ended(enum banyan_status status, const char *text) {
  {
    std::lock_guard lock(mutex_);
    if (status != BANYAN_OK && !error_) error_ = error_of(status, text);
    if (--left_) return;
    complete();
  }
  answer();
}

// Sees to it that the future is completed, if there is one: without mutex_.
void Work::answer() {
  bool elsewhere;
  {
    std::lock_guard lock(mutex_);
    if (!future_ || state_ != State::done || answered_) return;
    answered_ = true;
    elsewhere = for_python_;
  }
  if (!elsewhere) return complete_future();
  auto self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
  call_back([self] {
    Callback unnamed(""); // until one that has a name runs
    self->complete_future();
  });
}

// Which calls what others hung to it.
void Work::complete_future() {
  if (error_)
    future_->setError(error_);
  else
    future_->markCompleted(c10::IValue(parts_.outputs));
}

void Work::then(void *argument, enum banyan_status status, const char *text) {
  // The reference that give() took; it goes with the last request.
  auto *work = static_cast<Work *>(argument);
  auto self = c10::intrusive_ptr<Work>::reclaim(work);
  work->ended(status, text);
}

// Without mutex_, once, by who changed the state to `given`.
void Work::give() {
  std::vector<struct banyan_request *> requests = requests_;
  for (auto *request : requests) {
    auto self = c10::intrusive_ptr<Work>::unsafe_reclaim_from_nonowning(this);
    check(banyan_then(request, then, self.release()));
  }
}

// ---- asking and waiting

bool Work::isCompleted() {
  std::unique_lock lock(mutex_);
  if (state_ != State::held) return state_ == State::done;
  bool all = true;
  for (auto *&request : requests_) {
    bool done = false;
    if (!request) continue;
    enum banyan_status status = banyan_test(request, &done);
    if (!done) {
      all = false;
      continue;
    }
    request = nullptr;
    left_--;
    if (status != BANYAN_OK && !error_) error_ = error_of(status, banyan_error_text());
  }
  if (all) complete();
  if (!all) requests_.erase(std::remove(requests_.begin(), requests_.end(), nullptr), requests_.end());
  lock.unlock();
  if (all) answer();
  return all;
}

bool Work::isSuccess() const {
  std::lock_guard lock(mutex_);
  return state_ == State::done && !error_;
}

std::exception_ptr Work::exception() const {
  std::lock_guard lock(mutex_);
  return error_;
}

std::vector<at::Tensor> Work::result() {
  return parts_.outputs;
}

int Work::sourceRank() const {
  return parts_.source ? *parts_.source : -1;
}

void Work::synchronize() {
  rethrow();
}

void Work::rethrow() {
  std::exception_ptr error = exception();
  if (error) std::rethrow_exception(error);
}

void Work::wait_for(struct banyan_request *request) {
  for (bool done = false; !done;) {
    enum banyan_status status = banyan_wait_for(request, LOOKS_AT_SIGNALS, &done);
    if (!done && status == BANYAN_OK) {
      run_signal_handlers();
    } else {
      done = true;
      ended(status, status == BANYAN_OK ? "" : banyan_error_text());
    }
  }
}

// Where a signal's handler raises, the library gets the rest of the calls.
void Work::await() {
  std::unique_lock lock(mutex_);
  if (state_ == State::held) {
    state_ = State::waited;
    std::vector<struct banyan_request *> requests = std::move(requests_);
    lock.unlock();
    for (size_t i = 0; i < requests.size(); i++) {
      try {
        wait_for(requests[i]);
      } catch (...) {
        lock.lock();
        state_ = State::given;
        requests_.assign(requests.begin() + static_cast<std::ptrdiff_t>(i), requests.end());
        lock.unlock();
        give();
        throw;
      }
    }
    return;
  }
  while (
      !cv_.wait_for(lock, std::chrono::duration<double>(LOOKS_AT_SIGNALS), [this] { return state_ == State::done; })) {
    lock.unlock();
    run_signal_handlers();
    lock.lock();
  }
}

bool Work::wait(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout) {
    await();
    rethrow();
    return true;
  }
  std::unique_lock lock(mutex_);
  bool mine = state_ == State::held;
  if (mine) state_ = State::given;
  lock.unlock();
  if (mine) give();
  lock.lock();
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + timeout;
  while (state_ != State::done) {
    if (Clock::now() >= until)
      throw Error(BANYAN_ERR_TIMEOUT,
                  "waited " + std::to_string(timeout.count()) + " ms for a call that has not ended, " + here(what()));
    const auto slice = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(LOOKS_AT_SIGNALS * 1000));
    cv_.wait_until(lock, std::min(until, slice), [this] { return state_ == State::done; });
    lock.unlock();
    run_signal_handlers();
    lock.lock();
  }
  lock.unlock();
  rethrow();
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() {
  bool mine = false;
  {
    std::lock_guard lock(mutex_);
    if (!future_) future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    if (state_ != State::done && PyGILState_Check()) for_python_ = true;
    mine = state_ == State::held;
    if (mine) state_ = State::given;
  }
  if (mine)
    give();
  else
    answer();
  return future_;
}

} // namespace banyan
