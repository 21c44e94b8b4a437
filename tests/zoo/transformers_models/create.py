"""Models of transformers, from configurations: no weights are downloaded."""

from torch import nn
from transformers import CONFIG_MAPPING, AutoModel
from weights import repeated

SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
OPTIONS = {
    "bert": SMALL,
    "yolos": SMALL | {"image_size": [224, 224]},
    "llama": SMALL | {"num_key_value_heads": 2, "vocab_size": 1000},
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4},
    "distilbert": {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128},
    "wav2vec2": SMALL,
}


def create(model: str) -> nn.Module:
    return repeated(AutoModel.from_config(CONFIG_MAPPING[model](**OPTIONS.get(model, {}))).eval())


def encoder(model: str) -> nn.Module:
    """Return the encoder of a model of two halves."""
    return create(model).get_encoder()
