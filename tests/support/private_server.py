"""What every Python test needs that has a redis-server of its own. Standard library only."""
import ctypes
import signal


def die_with_parent():
    """PR_SET_PDEATHSIG: no server outlives a test that was killed."""
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))


def encoded(words):
    """One command as it is sent; words are bytes, or anything with a text."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
