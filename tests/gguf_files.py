"""GGUF files of small language models, written by the package gguf."""

import gguf
from language_models import LLAMA, language_model, weights_of

from regard.interop.gguf import rows
from regard.interop.naming import renamed

SIZES = {
    "block_count": 3,
    "context_length": 17,
    "embedding_length": 24,
    "feed_forward_length": 20,
    "attention.head_count": 4,
}
OWN = {
    "llama": {"attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-6},
    "gpt2": {"attention.layer_norm_epsilon": 1e-5},
}
TOKENS = ["<s>", "</s>", "a", "b", "ab", "aba", *(f"t{i}" for i in range(7))]


def gguf_model(kind, **changes):
    if kind == "gpt2":
        return language_model(**{"activation": "gelu_tanh", **changes})
    return language_model(**{**LLAMA, "n_kv_heads": 2, **changes})


def write_gguf(path, model, kind="llama", *, settings=(), tensors=(), keep=None, adds=()):
    """A file of the model, with other settings and tensors; None leaves one out.

    ``adds`` are tokens that its tokenizer puts around a text: bos, eos.
    """
    writer = gguf.GGUFWriter(path, kind)
    for name, value in ({**SIZES, **OWN[kind]} | dict(settings)).items():
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        if value is not None:
            add.get(type(value), writer.add_array)(f"{kind}.{name}", value)
    named = renamed(rows(model.config, kind), weights_of(model), "GGUF") | dict(tensors)
    for name, tensor in named.items():
        if tensor is None:
            continue
        numbers, how = tensor.numpy(), None
        if keep is not None and tensor.dim() == 2:
            how = getattr(gguf.GGMLQuantizationType, keep)
            numbers = gguf.quants.quantize(numbers, how)
        writer.add_tensor(name, numbers, raw_dtype=how)
    add_tokenizer(writer, adds)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tokenizer(writer, adds=()):
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, *[1] * 11])
    writer.add_token_merges(["a b", "ab a"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token("bos" in adds)
    if "eos" in adds:
        writer.add_add_eos_token(True)
    writer.add_chat_template("{{ messages }}")
