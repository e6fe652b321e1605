"""What the tests share that speak the public API as any gRPC client does: made from protos/hawk.proto alone."""
import importlib
import os
import subprocess
import sys
import tempfile

import grpc

from hawktest import BOUND

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
gen = tempfile.TemporaryDirectory()
sys.path.insert(0, gen.name)


def generated(name, directory="protos"):
    """The messages of DIRECTORY/NAME.proto."""
    d = f"{ROOT}/{directory}"
    subprocess.run(["protoc", f"-I{d}", f"--python_out={gen.name}", f"{d}/{name}.proto"], check=True)
    importlib.invalidate_caches()
    return importlib.import_module(f"{name}_pb2")


pb = generated("hawk")


class Caller:
    def __init__(self, addr, token=None):
        self.channel = grpc.insecure_channel(addr)
        self.metadata = [("authorization", f"Bearer {token}")] if token else []

    def __call__(self, method, request, reply):
        call = self.channel.unary_unary(f"/hawk.v1.Hawk/{method}", request_serializer=type(request).SerializeToString,
                                        response_deserializer=reply.FromString)
        return call(request, timeout=BOUND, metadata=self.metadata)

    def stream(self, method, request, reply):
        call = self.channel.unary_stream(f"/hawk.v1.Hawk/{method}", request_serializer=type(request).SerializeToString,
                                         response_deserializer=reply.FromString)
        return call(request, timeout=BOUND, metadata=self.metadata)

    def both(self, method, requests, reply):
        """A stream in both directions; requests: an iterator."""
        call = self.channel.stream_stream(f"/hawk.v1.Hawk/{method}", request_serializer=lambda m: m.SerializeToString(),
                                          response_deserializer=reply.FromString)
        return call(requests, timeout=BOUND, metadata=self.metadata)


def refused(code, call):
    try:
        call()
    except grpc.RpcError as e:
        assert e.code() == code, e
        return e.details()
    raise AssertionError(f"not refused with {code}")
