// Handlers of signals that Python has noted, while a thread waits in C++.
#pragma once

namespace banyan {

// How long a wait may last before the next look at signals.
constexpr double LOOKS_AT_SIGNALS = 0.1; // seconds

// Runs the handlers that are due, on the interpreter's main thread only, and throws what one of them raises. With or
// without the interpreter's lock.
void run_signal_handlers();

} // namespace banyan
