"""gRPC's own health check, with the stubs that grpcio's generator makes: that takes longer than all else here does to load."""
import importlib
import subprocess

import grpc

from grpctest import ROOT, gen, generated
from hawktest import BOUND

health_pb = generated("health", "tests/data")
subprocess.run(["/usr/bin/python3", "-m", "grpc_tools.protoc", f"-I{ROOT}/tests/data", f"--grpc_python_out={gen.name}",
                f"{ROOT}/tests/data/health.proto"], check=True)
importlib.invalidate_caches()
HealthStub = importlib.import_module("health_pb2_grpc").HealthStub
SERVING, NOT_SERVING, SERVICE_UNKNOWN = (
    health_pb.HealthCheckResponse.SERVING, health_pb.HealthCheckResponse.NOT_SERVING,
    health_pb.HealthCheckResponse.SERVICE_UNKNOWN)


def health(addr, service=""):
    """What gRPC's own health check answers."""
    request = health_pb.HealthCheckRequest(service=service)
    return HealthStub(grpc.insecure_channel(addr)).Check(request, timeout=BOUND).status


def health_watch(addr, service=""):
    """A stream of answers: next() waits for one."""
    call = HealthStub(grpc.insecure_channel(addr)).Watch(health_pb.HealthCheckRequest(service=service), timeout=2 * BOUND)
    return (reply.status for reply in call)
