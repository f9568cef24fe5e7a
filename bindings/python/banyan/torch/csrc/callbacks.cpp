#include "callbacks.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace banyan {

namespace {

constexpr auto REST = std::chrono::seconds(1), PATIENCE = std::chrono::seconds(10);

struct Callers {
  std::mutex lock;
  std::condition_variable work, quiet;
  std::deque<std::function<void()>> tasks;
  size_t resting = 0, unfinished = 0; // threads, those that begin too; tasks
};

// Never destroyed: the threads outlive whatever the end of the process destroys.
Callers &callers() {
  static auto *made = new Callers;
  return *made;
}

void run() {
  Callers &all = callers();
  std::unique_lock lock(all.lock);
  while (all.work.wait_for(lock, REST, [&] { return !all.tasks.empty(); })) {
    all.resting--;
    std::function<void()> task = std::move(all.tasks.front());
    all.tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    all.resting++;
    if (--all.unfinished == 0) all.quiet.notify_all();
  }
  all.resting--;
}

} // namespace

void call_back(std::function<void()> task) {
  Callers &all = callers();
  std::lock_guard lock(all.lock);
  all.tasks.push_back(std::move(task));
  all.unfinished++;
  if (all.resting < all.tasks.size()) {
    std::thread(run).detach();
    all.resting++;
  }
  all.work.notify_one();
}

void finish_callbacks() {
  Callers &all = callers();
  std::unique_lock lock(all.lock);
  all.quiet.wait_for(lock, PATIENCE, [&] { return all.unfinished == 0; });
}

} // namespace banyan
