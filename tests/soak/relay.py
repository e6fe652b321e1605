#!/usr/bin/python3
"""A TCP relay that spoils what passes through it. usage: relay.py BIND NAME:PORT:HOST:PORT...

Listens on PORT for every NAME and carries each connection to HOST:PORT. Commands come on stdin, one a line, and each is
answered by one line on stdout:
  delay NAME MS       every piece of data waits so long
  throttle NAME RATE  so many bytes a second, in pieces smaller than a message
  reset NAME          each connection is reset in the middle of the next piece it carries
  heal NAME           no more of the above
It ends with its stdin.
"""
import asyncio
import socket
import struct
import sys

from events import within

PIECE = 65536
SLICES_PER_S = 20       # of a throttled connection
CONNECT_S = 5
FLUSH_S = 1             # at most, for the half of a message to leave before the reset
LINGER_RESET = struct.pack("ii", 1, 0)


class Route:
    def __init__(self, text):
        self.name, port, self.host, target = text.split(":")
        self.port, self.target = int(port), int(target)
        self.delay_s, self.rate = 0.0, 0
        self.healed = asyncio.Event()
        self.pairs = set()

    def spoil(self, delay_s, rate):
        self.delay_s, self.rate = delay_s, rate
        self.healed.clear()

    def heal(self):
        self.delay_s, self.rate = 0.0, 0
        self.healed.set()
        for pair in self.pairs:
            pair.doomed = False


class Pair:
    """The two connections of one relayed stream."""

    def __init__(self, route, writers):
        self.route, self.writers, self.doomed = route, writers, False

    async def carry(self, reader, writer):
        while data := await reader.read(PIECE):
            if self.doomed:
                writer.write(data[:len(data) // 2])
                await self.leave(writer)
                self.reset()
                return
            if self.route.delay_s:
                await within(self.route.delay_s, self.route.healed)
            await self.pass_on(writer, data)

    @staticmethod
    async def leave(writer):
        """Until the kernel has what was written: it sends that before a reset."""
        try:
            await asyncio.wait_for(writer.drain(), FLUSH_S)
        except asyncio.TimeoutError:
            pass

    async def pass_on(self, writer, data):
        while data:
            rate = self.route.rate
            slice_bytes = max(1, rate // SLICES_PER_S) if rate else len(data)
            writer.write(data[:slice_bytes])
            await writer.drain()
            data = data[slice_bytes:]
            if rate:
                await within(1 / SLICES_PER_S, self.route.healed)

    def reset(self):
        for w in self.writers:
            sock = w.get_extra_info("socket")
            if sock is not None and not w.transport.is_closing():
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
            w.transport.abort()


async def serve(route, reader, writer):
    try:
        far_reader, far_writer = await asyncio.wait_for(asyncio.open_connection(route.host, route.target), CONNECT_S)
    except (OSError, asyncio.TimeoutError):
        writer.transport.abort()
        return
    for w in (writer, far_writer):
        w.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        w.transport.set_write_buffer_limits(0)  # what is drained is the kernel's
    pair = Pair(route, (writer, far_writer))
    route.pairs.add(pair)
    both = [asyncio.ensure_future(pair.carry(reader, far_writer)), asyncio.ensure_future(pair.carry(far_reader, writer))]
    try:
        # What one side ends is at an end for both: gRPC closes whole connections.
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        route.pairs.discard(pair)
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        for w in (writer, far_writer):
            w.transport.abort()


def obey(routes, line):
    """Returns how many connections it concerns."""
    word, name, *number = line.split()
    route = routes[name]
    if word == "delay":
        route.spoil(int(number[0]) / 1000, route.rate)
    elif word == "throttle":
        route.spoil(route.delay_s, int(number[0]))
    elif word == "reset":
        for pair in route.pairs:
            pair.doomed = True
    elif word == "heal":
        route.heal()
    else:
        raise ValueError(f"no such command: {word}")
    return len(route.pairs)


async def main():
    routes = {r.name: r for r in map(Route, sys.argv[2:])}
    for r in routes.values():
        await asyncio.start_server(lambda i, o, r=r: serve(r, i, o), sys.argv[1], r.port)
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        print("ok", obey(routes, line.decode()), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
