"""A server that stands where a cluster's only dist is listed, and passes calls on to it, wherever it is by then. It
passes on no streams."""
import concurrent.futures

import grpc

from hawktest import BOUND


class Relay(grpc.GenericRpcHandler):
    """lose: a function for each Rerun, or Submit of a detached job, to come, which gets another that passes it on; the
    answer is lost. Later ones are passed on. pb: the API's messages."""

    def __init__(self, cluster, pb, lose):
        self.cluster, self.pb, self.lose, self.keys = cluster, pb, lose, []
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers([self])
        self.addr = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        self.server.stop(None)

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self.answer(details.method, request, context))

    def answer(self, method, request, context):
        def pass_on():
            with grpc.insecure_channel(self.cluster.dist_addrs[0]) as channel:
                return channel.unary_unary(method)(request, timeout=BOUND)
        kind = {"Rerun": self.pb.RerunRequest, "Submit": self.pb.SubmitRequest}.get(method.rsplit("/", 1)[1])
        if kind:
            self.keys.append(kind.FromString(request).key)
            if self.lose:
                self.lose.pop(0)(pass_on)
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        try:
            reply = pass_on()
        except grpc.RpcError as e:
            context.abort(e.code(), e.details())
        return self.listed_here(reply) if method.endswith("/ListNodes") else reply

    def listed_here(self, reply):
        listed = self.pb.ListNodesReply.FromString(reply)
        for node in listed.nodes:
            node.address = self.addr if node.role == "dist" else node.address
        return listed.SerializeToString()
