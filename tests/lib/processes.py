"""Waiting for processes that are not children of ours."""
import os
import select


def until_one_ends(pids, seconds):
    """Returns when one of them has ended, or after so many seconds."""
    descriptors = []
    try:
        ended = select.poll()
        for pid in pids:
            descriptors.append(os.pidfd_open(pid))
            ended.register(descriptors[-1], select.POLLIN)
        ended.poll(max(0, seconds) * 1000)
    except ProcessLookupError:
        pass  # that is one
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
