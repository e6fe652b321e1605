"""A link that a test dials, as a daemon would, under whatever role and name."""
from grpctest import generated
from hawktest import BOUND, wait_for

wire = generated("cluster")


class Link:
    def __init__(self, channel, role, name, node=0, version=3, metadata=()):
        self.out, self.ended, self.channel, self.version = [], False, channel, version
        call = channel.stream_stream("/hawk.v1.Peer/Link", request_serializer=lambda m: m.SerializeToString(),
                                     response_deserializer=wire.Batch.FromString)
        self.call = call(self._batches(), timeout=BOUND, metadata=[
            ("hawk-version", str(version)), ("hawk-role", role), ("hawk-node", str(node)), ("hawk-name", name), *metadata])

    def _batches(self):
        while not self.ended:
            while self.out:
                yield self.out.pop(0)
            wait_for("something to send", lambda: self.out or self.ended)

    def send(self, **envelope):
        self.out.append(wire.Batch(envelopes=[wire.Envelope(**envelope)]))

    def join(self, role, name="forged", addr="127.0.0.1:1", **more):
        self.send(join=wire.Join(name=name, addr=addr, incarnation=1, version=self.version, role=role, **more))

    def hear(self, kind):
        """The next message of this kind."""
        for batch in self.call:
            for e in batch.envelopes:
                if e.WhichOneof("body") == kind:
                    return getattr(e, kind)
        raise AssertionError(f"the link ended without {kind}")

    def close(self):
        self.ended = True
        self.call.cancel()
        self.channel.close()
