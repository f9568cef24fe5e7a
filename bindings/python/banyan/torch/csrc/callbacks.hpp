// Threads for what Python hangs to futures: it may wait for other calls there, which whoever moves Banyan's bytes must
// not. As many as there are such callbacks at once; they end when there are none for a while.
#pragma once

#include <functional>

namespace banyan {

// `task` is called soon, in another thread, without blocking; at once in this one where the system has no thread to
// give.
void call_back(std::function<void()> task);
// Waits until all have been called, for some seconds at most.
void finish_callbacks();

} // namespace banyan
