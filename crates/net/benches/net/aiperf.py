"""aiperf on a server of completions: URL, concurrency, requests. Prints requests a second.

It wants a tokenizer even where the server counts, and gets the least that there is, so that
nothing is fetched and no time goes into it.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

url, concurrency, requests = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    fast.save_pretrained(folder / "tokenizer")
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(f'{{"text": "word {number}"}}\n' for number in range(64)))
    command = [pathlib.Path(sys.executable).with_name("aiperf"), "profile", "--model", "tokens"]
    command += ["--url", url.rstrip("/"), "--endpoint-type", "completions"]
    command += ["--tokenizer", folder / "tokenizer", "--use-server-token-count"]
    command += ["--input-file", prompts, "--custom-dataset-type", "single_turn"]
    command += ["--concurrency", concurrency, "--request-count", requests]
    command += ["--ui", "none", "--no-server-metrics", "--artifact-dir", folder / "out"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ran.returncode:
        sys.exit(ran.stdout[-2000:])
    found = json.loads((folder / "out/profile_export_aiperf.json").read_text())
    assert found["request_count"]["avg"] == int(requests), found
    print(found["request_throughput"]["avg"])
