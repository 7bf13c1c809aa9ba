"""A small language model of others that has a template for conversations."""

from language_models import language_model, weights_of
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from regard.interop.gpt2 import write_gpt2
from regard.interop.importing import import_model

SPECIAL = ["<e>", "<|turn|>", "<|over|>"]
CHATML = (
    "{{ bos_token }}{% for message in messages %}<|turn|>{{ message['role'] }}:"
    "{{ message['content'] | trim }}<|over|>{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant:{% endif %}"
)


def byte_tokenizer():
    """One token a byte, and the special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({t: i for i, t in enumerate([*SPECIAL, *alphabet])}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(SPECIAL)
    return inner


def chat_folder(folder, template=CHATML, max_len=120):
    """Import a model that ends its turns with a token that is not its end of a text."""
    theirs, inner = folder / "theirs", byte_tokenizer()
    theirs.mkdir()
    model = language_model(n_vocab=inner.get_vocab_size(), activation="gelu_tanh", max_len=max_len)
    write_gpt2(model.config, weights_of(model), theirs)
    inner.save(str(theirs / "tokenizer.json"))
    (theirs / "special_tokens_map.json").write_text('{"eos_token": "<e>", "bos_token": "<e>"}')
    if template is not None:
        (theirs / "chat_template.jinja").write_text(template)
    import_model(theirs, folder / "talker")
    return folder / "talker"
