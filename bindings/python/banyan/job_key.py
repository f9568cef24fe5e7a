"""The key that the processes of a job share."""
import hashlib
import os
import secrets


def new() -> str:
    """A random key of 256 bits, as `banyan keys job` prints it: with the identifier that reveals typing errors."""
    text = f"banyan_key_{secrets.token_hex(32)}"
    return f"{text}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def in_environment() -> bool:
    """Whether the environment has a key, or names a file with one."""
    return bool(os.environ.get("BANYAN_KEY_FILE") or os.environ.get("BANYAN_KEY"))
