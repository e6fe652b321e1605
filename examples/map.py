#!/usr/bin/python3
"""A map over a list on a Hawk cluster, with Python functions and no process per item.

    map.py [--dist ADDR] [--worker ADDR] NUMBER...

Both sides of it are here. serve() is an executor: it attaches to a worker and runs tasks of the application "squares", as
many at once as it says, until the worker or it goes away; a cluster has one (or more) on each machine. hawk_map()
submits a job of one task per item and returns what the tasks returned, in order. Needs Debian's python3-grpcio and
protobuf-compiler; the messages are generated from protos/ when it starts.

    hawk up &
    examples/map.py 1 2 3
"""
import argparse
import importlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

PROTOS = os.environ.get("HAWK_PROTOS", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "protos"))
UP = "unix:" + os.path.join(os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/hawk-{os.getuid()}",
                            "hawk/up.sock" if os.environ.get("XDG_RUNTIME_DIR") else "up.sock")


def messages(name, directory=tempfile.TemporaryDirectory()):
    subprocess.run(["protoc", f"-I{PROTOS}", f"--python_out={directory.name}", f"{PROTOS}/{name}.proto"], check=True)
    sys.path.insert(0, directory.name)
    importlib.invalidate_caches()
    return importlib.import_module(f"{name}_pb2")


pb, epb = messages("hawk"), messages("executor")


def serve(worker, app, function, slots):
    """Runs tasks of `app` as they come, until the worker ends the stream. function: bytes to bytes."""
    attach = grpc.insecure_channel(worker).stream_stream(
        "/hawk.v1.Executors/Attach", request_serializer=epb.FromExecutor.SerializeToString,
        response_deserializer=epb.ToExecutor.FromString)
    out = queue.Queue()
    out.put(epb.FromExecutor(hello=epb.Hello(app=app, slots=slots, name=f"map.py {os.getpid()}")))

    def run(task):
        try:
            result = epb.AppResult(id=task.id, result=function(task.payload))
        except Exception as e:  # the task's failure, not the executor's
            result = epb.AppResult(id=task.id, code=1, error=f"{type(e).__name__}: {e}")
        out.put(epb.FromExecutor(results=[result]))

    with ThreadPoolExecutor(slots) as pool:
        for message in attach(iter(out.get, None)):
            for task in message.tasks:
                pool.submit(run, task)


def hawk_map(dist, app, items):
    """What the application returns for each of items (bytes), in order. RuntimeError when a task failed."""
    channel = grpc.insecure_channel(dist)
    submit = channel.unary_unary("/hawk.v1.Hawk/Submit", request_serializer=pb.SubmitRequest.SerializeToString,
                                 response_deserializer=pb.SubmitReply.FromString)
    watch = channel.unary_stream("/hawk.v1.Hawk/Watch", request_serializer=pb.WatchRequest.SerializeToString,
                                 response_deserializer=pb.Event.FromString)
    spec = pb.JobSpec(name=app, tasks=len(items), kind=pb.PAYLOAD_APP, app=app, task_args=items, each_arg=True,
                      lost_retries=2)
    job = submit(pb.SubmitRequest(job=spec)).job
    results = [None] * len(items)
    for event in watch(pb.WatchRequest(job=job, ended=True, results=True)):
        for task in event.tasks:
            if task.state != pb.TASK_DONE:
                raise RuntimeError(f"task {task.task} of job {job}: {task.message or 'code %d' % task.code}")
            results[task.task] = task.result
    return results


def square(payload):
    return str(int(payload) ** 2).encode()


def main():
    parser = argparse.ArgumentParser(description="squares of numbers, computed by an executor")
    parser.add_argument("--dist", default=os.environ.get("HAWK_DIST", UP), help="where jobs are submitted")
    parser.add_argument("--worker", default=os.environ.get("HAWK_EXECUTOR", UP), help="where the executor attaches")
    parser.add_argument("numbers", nargs="+")
    args = parser.parse_args()
    threading.Thread(target=serve, args=(args.worker, "squares", square, 4), daemon=True).start()
    for number, result in zip(args.numbers, hawk_map(args.dist, "squares", [n.encode() for n in args.numbers])):
        print(number, result.decode())


if __name__ == "__main__":
    main()
