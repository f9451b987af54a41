"""Plays conversations with the server of llama.cpp, each turn after the answer before it: port, file
of conversations, and the file for the mean count of input tokens in each turn.

A grammar keeps its output to letters, and without temperature it says the same each time.
"""

import json
import sys
import urllib.request

port, conversations, path = sys.argv[1:]
counts = []
with open(conversations, encoding="utf-8") as file:
    for line in file:
        messages = []
        counts.append([])
        for said in json.loads(line)["turns"]:
            messages.append({"role": "user", "content": said})
            asked = {"messages": messages, "max_tokens": 8, "temperature": 0}
            asked["grammar"] = "root ::= [a-z]+"
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/v1/chat/completions",
                json.dumps(asked).encode(),
                {"content-type": "application/json"},
            )
            with urllib.request.urlopen(request) as answer:
                answer = json.load(answer)
            counts[-1].append(answer["usage"]["prompt_tokens"])
            text = answer["choices"][0]["message"]["content"]
            assert text, "an answer has letters"
            messages.append({"role": "assistant", "content": text})
means = [sum(turn) / len(counts) for turn in zip(*counts)]
assert means == sorted(set(means)), f"the input of {means} grows with each turn"
with open(path, "w", encoding="utf-8") as file:
    json.dump(means, file)
