"""The gRPC messages: compiled from the source that lies beside them, and the same on the wire as a stock client's."""

from __future__ import annotations

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor
from tritonclient.grpc import model_config_pb2, service_pb2

from web.oip.grpc_server import SERVICE
from web.oip.messages import COMPILED, Messages, compile_source


def test_the_compiled_file_is_current() -> None:
    """If not: python -m web.oip.messages"""
    old, new = (descriptor_pb2.FileDescriptorSet.FromString(data) for data in (COMPILED.read_bytes(), compile_source()))
    assert old == new


def compare(ours: Descriptor, theirs: Descriptor) -> int:
    """Every field of ours is one of theirs, with the same number and type; how many there were."""
    count = 0
    for name, field in ours.fields_by_name.items():
        other = theirs.fields_by_name[name]
        assert (field.number, field.type, field.is_repeated) == (other.number, other.type, other.is_repeated), name
        oneof, other_oneof = field.containing_oneof, other.containing_oneof
        # A oneof is a matter of the language, not of the wire; where ours has one it must be theirs.
        assert oneof is None or (other_oneof is not None and oneof.name == other_oneof.name)
        if field.message_type is not None:
            assert field.message_type.full_name == other.message_type.full_name
            count += compare(field.message_type, other.message_type)
        if field.enum_type is not None:
            compare_enums(field.enum_type, other.enum_type)
        count += 1
    return count


def compare_enums(ours: EnumDescriptor, theirs: EnumDescriptor) -> None:
    assert {v.name: v.number for v in ours.values} == {v.name: v.number for v in theirs.values}


def test_every_field_is_the_protocols() -> None:
    pool = Messages().pool
    service = pool.FindServiceByName(SERVICE)
    theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    assert theirs.full_name == SERVICE
    fields = 0
    for method in service.methods:
        other = theirs.methods_by_name[method.name]
        for ours, its in ((method.input_type, other.input_type), (method.output_type, other.output_type)):
            assert ours.full_name == its.full_name
            fields += compare(ours, its)
    assert fields > 100
    left_out = set(theirs.methods_by_name) - {method.name for method in service.methods}
    assert all(any(word in name for word in ("SharedMemory", "Trace", "Log")) for name in left_out)
    assert "ModelConfig" in model_config_pb2.DESCRIPTOR.message_types_by_name


def test_everything_of_a_message_of_inference_is_known() -> None:
    """Of these a field left out would be data lost."""
    messages = Messages()
    for name in ("ModelInferRequest", "ModelInferResponse", "ModelStreamInferResponse", "ModelMetadataResponse"):
        ours, theirs = getattr(messages, name).DESCRIPTOR, getattr(service_pb2, name).DESCRIPTOR
        assert set(ours.fields_by_name) == set(theirs.fields_by_name)
