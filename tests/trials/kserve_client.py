"""The clients of the `kserve` package, run by the Python of their own environment. Arguments: where REST and gRPC
listen (host:port). Prints what was answered as one line of JSON."""

import asyncio
import json
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

SENT = np.array([[1.5, -2.0], [3.0, 4.25]], dtype=np.float32)


def request(binary: bool) -> InferRequest:
    tensor = InferInput("x", [2, 2], "FP32")
    tensor.set_data_from_numpy(SENT, binary_data=binary)
    return InferRequest(model_name="echo_fp32", infer_inputs=[tensor])


async def by_rest(base: str) -> list[object]:
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    said: list[object] = [await client.is_server_live(base), await client.is_server_ready(base)]
    said.append(await client.is_model_ready(base, "echo_fp32"))
    for binary in (False, True):
        answer = await client.infer(base, request(binary), model_name="echo_fp32")
        said.append(answer.outputs[0].as_numpy().tolist())
    return said


async def by_grpc(address: str) -> list[object]:
    async with InferenceGRPCClient(address) as client:
        said: list[object] = [await client.is_server_live(), await client.is_server_ready()]
        said.append(await client.is_model_ready("echo_fp32"))
        for binary in (False, True):
            answer = await client.infer(request(binary))
            said.append(answer.outputs[0].as_numpy().tolist())
    return said


async def main(http: str, grpc: str) -> None:
    said = {"rest": await by_rest(f"http://{http}"), "grpc": await by_grpc(grpc)}
    sys.stdout.write(json.dumps(said) + "\n")


asyncio.run(main(*sys.argv[1:]))
