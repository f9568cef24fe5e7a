"""Errors of the library as exceptions. Each knows the rank and host that its text names, where it names one."""
from __future__ import annotations

import re
from typing import Dict, Optional, Type

_PLACE = re.compile(r"(?:rank|helper|server) (\d+) \(host ([^)]*)\)")


class Error(RuntimeError):
    """What a call of Banyan's ended with.

    status: the library's number for it (enum banyan_status in <banyan/status.h>).
    rank, host: the first rank that the text names, and its host; None where it names none.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        place = _PLACE.search(text)
        self.status = status
        self.rank: Optional[int] = int(place.group(1)) if place else None
        self.host: Optional[str] = place.group(2) if place else None


class RequestError(Error):
    """The request was wrong or not possible; nothing was started, and the job goes on."""


class LinkError(Error):
    """A rank could not be reached, or something else than a rank of this job answers."""


class PeerDead(Error):
    """A rank ended, or its host is lost. `rank` and `host` identify it."""


class Timeout(Error):
    """A rank is alive but did not do its part by the deadline."""


class Mismatch(Error):
    """Ranks made different calls."""


class Aborted(Error):
    """A rank aborted the job, or the communicator was destroyed while the call was under way."""


_CLASSES: Dict[int, Type[Error]] = {64: PeerDead, 65: Timeout, 66: Mismatch}


def from_status(status: int, text: str) -> Error:
    """The exception for a status and its text."""
    group = RequestError if status < 32 else LinkError if status < 64 else Error if status < 96 else Aborted
    return _CLASSES.get(status, group)(text, status)
