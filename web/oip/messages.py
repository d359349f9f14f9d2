"""The messages of inference.proto as classes.

`python -m web.oip.messages` compiles inference.proto to inference.binpb, from which the classes are made. They live
in a pool of their own: a client of the protocol in the same process (another package's generated code for the same
names) does not meet them. That is why no code is generated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SOURCE: Final = Path(__file__).with_name("inference.proto")
COMPILED: Final = Path(__file__).with_name("inference.binpb")


class Messages:
    """The message classes by name ("ModelInferRequest"), from the compiled file."""

    def __init__(self) -> None:
        self.pool = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(COMPILED.read_bytes()).file:
            self.pool.Add(file)

    def __getattr__(self, name: str) -> Any:
        made = message_factory.GetMessageClass(self.pool.FindMessageTypeByName(f"inference.{name}"))
        setattr(self, name, made)
        return made


def compile_source() -> bytes:
    """inference.proto as a FileDescriptorSet. Needs the grpcio-tools package."""
    import tempfile

    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / COMPILED.name
        command = ["protoc", f"--proto_path={SOURCE.parent}", f"--descriptor_set_out={out}", SOURCE.name]
        if protoc.main(command) != 0:
            raise SystemExit(f"{SOURCE} could not be compiled; see above")
        return out.read_bytes()


if __name__ == "__main__":
    COMPILED.write_bytes(compile_source())
