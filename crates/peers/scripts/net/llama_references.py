"""What the server of llama.cpp says to some prompts, as right answers: port, file,
and `chat` or `completions`.

Its weights are random. A grammar keeps its output to letters, as bytes that are no text come out
otherwise in parts than as a whole, and without temperature it says the same each time.
"""

import json
import sys
import urllib.request

port, path, api = sys.argv[1:]
is_chat = api == "chat"
with open(path, "w", encoding="utf-8") as file:
    for number in range(12):
        prompt = f"prompt {number}"
        asked = {"max_tokens": 8, "temperature": 0, "grammar": "root ::= [a-z]+"}
        if is_chat:
            asked["messages"] = [{"role": "user", "content": prompt}]
        else:
            asked["prompt"] = prompt
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/{'chat/' if is_chat else ''}completions",
            json.dumps(asked).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            choice = json.load(answer)["choices"][0]
        text = choice["message"]["content"] if is_chat else choice["text"]
        assert text, "an answer has letters"
        file.write(json.dumps({"prompt": prompt, "answer": text}) + "\n")
