"""A model.bin, byte by byte."""

import json
import struct

import pytest
import torch

from regard.core.errors import CheckpointError
from regard.interop.ctranslate2_reading import read_ctranslate2, read_file, read_vocabularies

NUMBERS = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4, "bfloat16": 5}


def text(said):
    raw = said.encode() + b"\0"
    return struct.pack("<H", len(raw)) + raw


def bin_file(tensors, *, version=6, name="TransformerSpec", aliases=()):
    parts = [struct.pack("<I", version), text(name), struct.pack("<II", 7, len(tensors))]
    for called, tensor in tensors.items():
        raw = (
            tensor.contiguous().view(torch.uint8).numpy().tobytes()
            if tensor.dim()
            else (tensor.numpy().tobytes())
        )
        parts.append(text(called) + struct.pack("<B", tensor.dim()))
        parts += [struct.pack("<I", n) for n in tensor.shape]
        kind, size = str(tensor.dtype).removeprefix("torch."), tensor.element_size()
        if version >= 4:
            parts.append(struct.pack("<BI", NUMBERS[kind], len(raw)))
        else:
            parts.append(struct.pack("<BI", size, len(raw) // size))
        parts.append(raw)
    if version >= 3:
        parts.append(struct.pack("<I", len(aliases)))
        parts += [text(alias) + text(called) for alias, called in aliases]
    return b"".join(parts)


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
def test_tensors_are_read_in_every_version(tmp_path, version):
    tensors = {"a/weight": torch.arange(6.0).view(2, 3), "b": torch.tensor([7, 8]).to(torch.int16)}
    (tmp_path / "model.bin").write_bytes(bin_file(tensors, version=version))
    found = read_file(tmp_path / "model.bin")
    assert (found.specification, found.revision) == ("TransformerSpec", 7)
    assert found.tensors.keys() == tensors.keys()
    assert all(torch.equal(found.tensors[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_types_are_told_by_number(tmp_path, dtype):
    (tmp_path / "model.bin").write_bytes(bin_file({"a": torch.tensor([1, 2, 3]).to(dtype)}))
    found = read_file(tmp_path / "model.bin").tensors["a"]
    assert found.dtype == dtype
    assert found.tolist() == [1, 2, 3]


def test_whole_numbers_are_divided_by_their_scale_row_by_row(tmp_path):
    tensors = {
        "weight": torch.tensor([[2, 4], [9, -3]], dtype=torch.int8),
        "weight_scale": torch.tensor([2.0, 3.0]),
        "other": torch.tensor([[2, 4]], dtype=torch.int16),
        "other_scale": torch.tensor(8.0),
    }
    path = tmp_path / "model.bin"
    path.write_bytes(bin_file(tensors, aliases=[("again", "weight")]))
    found = read_file(path).tensors
    assert found.keys() == {"weight", "other", "again"}
    assert found["weight"].tolist() == found["again"].tolist() == [[1, 2], [3, -1]]
    assert found["other"].tolist() == [[0.25, 0.5]]


def test_scales_that_do_not_belong_to_rows_never_multiply_a_file(tmp_path):
    """Half a megabyte of each would make a product of 256 GB."""
    n = 2**19
    tensors = {
        "weight": torch.zeros(1, n, dtype=torch.int8),
        "weight_scale": torch.ones(n, dtype=torch.int8),
    }
    (tmp_path / "model.bin").write_bytes(bin_file(tensors))
    with pytest.raises(CheckpointError, match=r"rows and 524288 scales"):
        read_file(tmp_path / "model.bin")


def test_a_tensor_without_bytes_has_no_numbers(tmp_path):
    path, empty = tmp_path / "model.bin", torch.zeros(0, 4)
    path.write_bytes(bin_file({"a": empty}))
    assert read_file(path).tensors["a"].shape == (0, 4)
    shape = struct.pack("<BII", 2, 0, 4)
    path.write_bytes(bin_file({"a": empty}).replace(shape, struct.pack("<BII", 2, 64, 4)))
    with pytest.raises(CheckpointError, match=r"model\.bin is damaged .*size 0"):
        read_file(path)


def test_a_file_cut_off_anywhere_is_told_as_damaged(tmp_path):
    whole = bin_file({"a": torch.ones(3), "b": torch.ones(2)}, aliases=[("c", "a")])
    for n in range(len(whole)):
        (tmp_path / "model.bin").write_bytes(whole[:n])
        with pytest.raises(CheckpointError, match="damaged or no model of CTranslate2"):
            read_file(tmp_path / "model.bin")


@pytest.mark.parametrize("version", [1, 7, 999])
def test_other_versions_are_refused(tmp_path, version):
    (tmp_path / "model.bin").write_bytes(bin_file({}, version=version))
    with pytest.raises(CheckpointError, match=f"of version {version}; versions 2 to 6"):
        read_file(tmp_path / "model.bin")


def test_another_kind_of_model_is_named(tmp_path):
    (tmp_path / "model.bin").write_bytes(bin_file({}, name="WhisperSpec"))
    with pytest.raises(CheckpointError, match="is a WhisperSpec; encoder-decoders of the Tr"):
        read_ctranslate2(tmp_path)


def one(number):
    return torch.tensor(number, dtype=torch.int16)


def small(**more):
    eye = torch.ones(5, 4)
    return {
        "encoder/embeddings_0/weight": eye,
        "decoder/embeddings/weight": eye,
        "encoder/layer_0/ffn/linear_0/weight": torch.ones(6, 4),
        "decoder/layer_0/ffn/linear_0/weight": torch.ones(6, 4),
        "encoder/num_heads": one(2),
        "decoder/num_heads": one(2),
        **more,
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "missing encoder/layer_0/self_attention/linear_0/weight"),
        ({"decoder/alibi": one(1)}, "no counterpart of: decoder/alibi=1"),
        (
            {"encoder/scale_embeddings": one(3), "decoder/scale_embeddings": one(3)},
            "scale_embeddings=3",
        ),
        ({"decoder/num_heads": one(4)}, "num_heads is 2 in the encoder"),
        ({"decoder/layer_1/ffn/linear_0/weight": torch.ones(6, 4)}, "layers is 1 in the encoder"),
        ({"encoder/embeddings_1/weight": torch.ones(3, 4)}, "unused encoder/embeddings_1/weight"),
        ({"encoder/activation": one(5), "decoder/activation": one(5)}, "activation number 5"),
    ],
)
def test_what_has_no_counterpart_is_named(tmp_path, more, words):
    (tmp_path / "model.bin").write_bytes(bin_file(small(**more)))
    tokens = ["<blank>", "<s>", "</s>", "<unk>", "a"]
    (tmp_path / "shared_vocabulary.json").write_text(json.dumps(tokens))
    with pytest.raises(CheckpointError, match=words):
        read_ctranslate2(tmp_path)


def test_a_vocabulary_may_be_lines_without_the_unknown_token(tmp_path):
    (tmp_path / "source_vocabulary.txt").write_text("<blank>\n<s>\n</s>\na\n")
    (tmp_path / "target_vocabulary.txt").write_text("<blank>\n<s>\n</s>\nb\nc\n")
    found = read_vocabularies(tmp_path, 5, 6)
    assert found.source == ("<blank>", "<s>", "</s>", "a", "<unk>")
    source, target = found.numbering()
    assert source.tokens(found.source) == ["<pad>", "<s>", "</s>", "<unk>", "a"]
    assert target.rows == (0, 1, 2, 5, 3, 4)
    assert not found.reads_end


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "has no vocabulary: expected shared_vocabulary"),
        ({"shared_vocabulary.json": "{}"}, "must hold a list of tokens"),
        ({"shared_vocabulary.json": "["}, "shared_vocabulary.json is damaged"),
        ({"shared_vocabulary.txt": "a\nb\n"}, "has 2 tokens, but its model has 5 rows"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_told(tmp_path, files, words):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(CheckpointError, match=words):
        read_vocabularies(tmp_path, 5, 5)
