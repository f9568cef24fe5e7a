"""Where the processes of an elastic job find each other."""
from __future__ import annotations

import os
import secrets
from datetime import timedelta
from typing import Any


def key_of(store: Any, timeout: timedelta) -> str:
    """The key of a job whose processes change: that of the environment, or one that the store has from whichever process
    came first."""
    key = os.environ.get("BANYAN_KEY")
    if key:
        return key
    if store.add("banyan/key/drawn", 1) == 1:
        store.set("banyan/key", secrets.token_hex(32))
    store.wait(["banyan/key"], timeout)
    return str(store.get("banyan/key").decode())
