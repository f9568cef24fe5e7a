#include "callbacks.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace banyan {

namespace {

constexpr auto REST = std::chrono::seconds(1), TIMEOUT = std::chrono::seconds(10);

struct Callers {
  std::mutex lock;
  std::condition_variable work, quiet;
  std::deque<std::function<void()>> tasks;
  size_t threads = 0, resting = 0; // of them without a task, those that begin too
  size_t unfinished = 0;           // tasks
};

// Never destroyed: the threads outlive whatever the end of the process destroys.
Callers &callers() {
  static auto *made = new Callers;
  return *made;
}

void run_next(Callers &all, std::unique_lock<std::mutex> &lock) {
  std::function<void()> task = std::move(all.tasks.front());
  all.tasks.pop_front();
  lock.unlock();
  task();
  task = nullptr;
  lock.lock();
  if (--all.unfinished == 0) all.quiet.notify_all();
}

void run() {
  Callers &all = callers();
  std::unique_lock lock(all.lock);
  while (all.work.wait_for(lock, REST, [&] { return !all.tasks.empty(); })) {
    all.resting--;
    run_next(all, lock);
    all.resting++;
  }
  all.resting--;
  all.threads--;
}

// False: the system has none to give.
bool add_thread(Callers &all) {
  try {
    std::thread(run).detach();
  } catch (const std::system_error &) {
    return false;
  }
  all.threads++;
  all.resting++;
  return true;
}

} // namespace

void call_back(std::function<void()> task) {
  Callers &all = callers();
  std::unique_lock lock(all.lock);
  all.tasks.push_back(std::move(task));
  all.unfinished++;
  // Without another thread one that is there comes to it later; without any, this one does it.
  if (all.resting < all.tasks.size() && !add_thread(all) && all.threads == 0) run_next(all, lock);
  all.work.notify_one();
}

void finish_callbacks() {
  Callers &all = callers();
  std::unique_lock lock(all.lock);
  all.quiet.wait_for(lock, TIMEOUT, [&] { return all.unfinished == 0; });
}

} // namespace banyan
