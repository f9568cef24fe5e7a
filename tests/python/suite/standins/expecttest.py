"""As much of the module expecttest, which Debian lacks, as PyTorch's tests import."""
import unittest

ACCEPT = False


class TestCase(unittest.TestCase):
    longMessage = True
