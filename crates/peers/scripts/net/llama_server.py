"""The server of llama.cpp with a tiny model of random weights: folder, port, and `embeddings` or `rerank`."""

import pathlib
import sys

import numpy as np

import lifeline

folder, port = pathlib.Path(sys.argv[1]), int(sys.argv[2])
LAYERS, WIDTH, FORWARD, HEADS, CONTEXT = 2, 64, 128, 4, 512


def make(path):
    """A llama with a vocabulary of bytes; the seed makes the same file everywhere."""
    import gguf

    rng = np.random.default_rng(1)
    tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{byte:02X}>".encode() for byte in range(256)]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * 256
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)

    def tensor(name, *shape):
        writer.add_tensor(name, (rng.standard_normal(shape) * 0.05).astype(np.float32))

    def norm(name):
        writer.add_tensor(name, np.ones(WIDTH, np.float32))

    tensor("token_embd.weight", len(tokens), WIDTH)
    norm("output_norm.weight")
    tensor("output.weight", len(tokens), WIDTH)
    for layer in range(LAYERS):
        norm(f"blk.{layer}.attn_norm.weight")
        norm(f"blk.{layer}.ffn_norm.weight")
        for name in ["attn_q", "attn_k", "attn_v", "attn_output"]:
            tensor(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        tensor(f"blk.{layer}.ffn_gate.weight", FORWARD, WIDTH)
        tensor(f"blk.{layer}.ffn_up.weight", FORWARD, WIDTH)
        tensor(f"blk.{layer}.ffn_down.weight", WIDTH, FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


folder.mkdir(parents=True, exist_ok=True)
model = folder / "tiny.gguf"
if not model.is_file():
    make(str(model))

from xllamacpp import CommonParams, Server, llama_pooling_type

params = CommonParams()
params.model.path = str(model)
params.n_ctx = 4 * CONTEXT
params.n_parallel = 4
params.warmup = False
params.endpoint_metrics = True
params.port = port
params.hostnames = ["127.0.0.1"]
kind = sys.argv[3] if len(sys.argv) > 3 else ""
params.embedding = kind in ("embeddings", "rerank")
if kind == "embeddings":
    params.pooling_type = llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
if kind == "rerank":
    params.pooling_type = llama_pooling_type.LLAMA_POOLING_TYPE_RANK
server = Server(params)
lifeline.wait()
