"""Models of transformers, from configurations: no weights are downloaded."""

import transformers
from torch import Tensor, nn
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
    "wavlm": SMALL,
    "mamba": {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 1000},
    "smollm3": SMALL | {"num_key_value_heads": 2, "vocab_size": 1000, "pad_token_id": 0},
    "clip": {
        "text_config": SMALL | {"vocab_size": 1000, "eos_token_id": 2},
        "vision_config": SMALL | {"image_size": 64, "patch_size": 16},
        "projection_dim": 32,
    },
    "audio-spectrogram-transformer": SMALL | {"max_length": 128},
    "patchtst": {
        "num_input_channels": 3,
        "context_length": 64,
        "patch_length": 8,
        "patch_stride": 8,
        "prediction_length": 12,
        "d_model": 32,
        "num_hidden_layers": 2,
        "ffn_dim": 64,
    },
    "bart": {
        "d_model": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128,
        "vocab_size": 1000,
    },
    "fnet": SMALL,
    "albert": SMALL | {"embedding_size": 32, "vocab_size": 1000},
    "deberta-v2": SMALL | {"vocab_size": 1000, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "mamba2": {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "vocab_size": 1000,
        "num_heads": 8,
        "head_dim": 16,
        "state_size": 16,
        "n_groups": 2,
        "chunk_size": 16,
    },
    "lfm2": SMALL
    | {
        "num_key_value_heads": 2,
        "vocab_size": 1000,
        "layer_types": ["conv", "full_attention"],
        "pad_token_id": 0,
    },
    "recurrent_gemma": SMALL
    | {
        "num_hidden_layers": 3,
        "num_key_value_heads": 1,
        "lru_width": 64,
        "vocab_size": 1000,
        "attention_window_size": 16,
    },
    "moonshine": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "encoder_num_hidden_layers": 2,
        "decoder_num_hidden_layers": 2,
        "encoder_num_attention_heads": 4,
        "decoder_num_attention_heads": 4,
        "vocab_size": 1000,
    },
    "swin2sr": {"image_size": 32, "embed_dim": 32, "depths": [2], "num_heads": [2], "window_size": 8},
    "owlvit": {
        "text_config": SMALL | {"vocab_size": 1000, "eos_token_id": 2},
        "vision_config": SMALL | {"image_size": 64, "patch_size": 16},
        "projection_dim": 64,
    },
    "encodec": {
        "num_filters": 8,
        "hidden_size": 32,
        "upsampling_ratios": [4, 2],
        "codebook_size": 64,
        "codebook_dim": 32,
    },
}
TRANSFORMER = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
BACKBONES = {
    "depth_anything": {
        "model_type": "dinov2",
        **TRANSFORMER,
        "image_size": 112,
        "out_features": ["stage1", "stage2"],
        "reshape_hidden_states": False,
    },
    "vitpose": {
        "model_type": "vitpose_backbone",
        **TRANSFORMER,
        "image_size": [128, 96],
        "patch_size": [16, 16],
        "out_indices": [2],
    },
}
HEADS = {
    "depth_anything": {
        "reassemble_hidden_size": 64,
        "reassemble_factors": [2, 1],
        "neck_hidden_sizes": [16, 32],
        "fusion_hidden_size": 16,
        "head_hidden_size": 8,
    },
    "vitpose": {"num_labels": 17},
}


def create(model: str) -> nn.Module:
    return repeated(AutoModel.from_config(CONFIG_MAPPING[model](**OPTIONS.get(model, {}))).eval())


def headed(model: str, head: str) -> nn.Module:
    """Return a model with the class of its head."""
    options = OPTIONS.get(model, {})
    if model in BACKBONES:
        backbone = dict(BACKBONES[model])
        options = HEADS[model] | {"backbone_config": CONFIG_MAPPING[backbone.pop("model_type")](**backbone)}
    return repeated(getattr(transformers, head)(CONFIG_MAPPING[model](**options)).eval())


class Hidden(nn.Module):
    """A decoder's last hidden state, without a cache."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.model = create(model)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.model(input_ids, use_cache=False)[0]


class Codec(nn.Module):
    """A codec of audio without its quantizer: what the decoder makes of the encoder's vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.model = create("encodec")

    def forward(self, wave: Tensor) -> Tensor:
        return self.model.decoder(self.model.encoder(wave))


def encoder(model: str) -> nn.Module:
    """Return the encoder of a model of two halves."""
    return create(model).get_encoder()
