"""Waiting for what happens, with a bound; what is to happen at a time of its own is an event, too."""
import asyncio
import os


async def within(seconds, event):
    """Until the event is set, but no longer than that."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        pass


async def one_ends(pids, seconds):
    """Until one of these processes, of whomever, has ended, but no longer than that."""
    loop, ended, descriptors = asyncio.get_running_loop(), asyncio.Event(), []
    try:
        for pid in pids:
            descriptors.append(os.pidfd_open(pid))
            loop.add_reader(descriptors[-1], ended.set)
        await within(seconds, ended)
    except ProcessLookupError:
        pass  # that is one
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)
            os.close(descriptor)


class Timetable:
    """Things, each when it is due. A context, after which nothing is due any more."""

    def __init__(self):
        self.due, self.timers = asyncio.Queue(), []

    def add(self, seconds, what):
        """That is due so long from now on."""
        self.timers.append(asyncio.get_running_loop().call_later(max(0, seconds), self.due.put_nowait, what))

    async def next(self):
        return await self.due.get()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for timer in self.timers:
            timer.cancel()
