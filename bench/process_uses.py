"""What a process uses of the system."""

import os


def uses(pid):
    """Returns the number of descriptors, the private memory in KiB and the number of threads, or None if the process has
    ended."""
    try:
        files = len(os.listdir(f"/proc/{pid}/fd"))
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            fields = dict(line.split(":", 1) for line in file)
        return files, int(fields["RssAnon"].split()[0]), int(fields["Threads"])
    except (OSError, KeyError):
        return None
