"""Waits until the cores are near each other.

The host of a virtual machine moves virtual cores between caches, which changes every figure by a factor of up to
four, for some seconds or minutes. So the time from core to core is measured before and after every start of a
program. Starts are delayed, and repeated, while it is more than twice the least measured time, until the
allowance is used up.
"""

import os
import time

import machine
import variants

FAR = 2.0


class Placement:
    def __init__(self, allowance):
        self.left = allowance  # seconds
        self.least = None
        self.greatest = None
        for _ in range(6):
            self.ask()
            time.sleep(0.5)

    def ask(self):
        """Returns the nanoseconds from core to core; 0 if they cannot be measured, or there is only one core."""
        if variants.CORES < 2:
            return 0
        try:
            found = float(machine.first_line(*variants.REALTIME, os.path.join(variants.BIN, "core_latency")))
        except ValueError:
            return 0
        self.least = min(self.least or found, found)
        self.greatest = max(self.greatest or found, found)
        return found

    def is_near(self, latency):
        return not latency or latency <= FAR * self.least

    def wait(self):
        """Returns the latency, which is near unless there is no time left."""
        while not self.is_near(latency := self.ask()) and self.left > 0:
            time.sleep(0.5)
            self.left -= 0.5
        return latency

    def run(self, start):
        """Returns the result of `start()`, and the greater of the latencies before and after."""
        while True:
            before, began = self.wait(), time.monotonic()
            found = start()
            latency = max(before, self.ask())
            if self.is_near(latency) or self.left <= 0:
                return found, latency
            self.left -= time.monotonic() - began
