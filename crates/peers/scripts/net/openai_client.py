"""Asks `dyno serve --system tokens` with OpenAI's client: HTTP address."""

import sys

import openai

client = openai.OpenAI(base_url=f"http://{sys.argv[1]}/v1", api_key="none", max_retries=0)
assert [model.id for model in client.models.list()] == ["tokens"]
PROMPT = "to be or not to be"

whole = client.completions.create(model="tokens", prompt=PROMPT, max_tokens=4)
assert whole.choices[0].text == "to be or not", whole
assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (6, 4), whole
assert whole.choices[0].finish_reason == "length", whole
print("completions, whole: as asked")

parts = list(client.completions.create(model="tokens", prompt=PROMPT, max_tokens=4, stream=True))
assert "".join(part.choices[0].text for part in parts if part.choices) == "to be or not", parts
print("completions, streaming: as asked")

messages = [{"role": "user", "content": PROMPT}]
whole = client.chat.completions.create(model="tokens", messages=messages)
assert whole.choices[0].message.content.startswith("to be or not to be to be"), whole
assert whole.usage.completion_tokens == 16 and whole.choices[0].finish_reason == "stop", whole
print("chat, whole: as asked")

options = {"include_usage": True}
parts = list(
    client.chat.completions.create(model="tokens", messages=messages, stream=True, stream_options=options)
)
said = [part.choices[0].delta.content or "" for part in parts if part.choices]
assert "".join(said) == whole.choices[0].message.content, parts
assert sum(bool(text) for text in said) == 16, "a token a part"
assert parts[-1].usage.completion_tokens == 16, parts[-1]
print("chat, streaming: as asked, with usage")

try:
    client.completions.create(model="none", prompt=PROMPT)
except openai.NotFoundError as error:
    assert "unknown model 'none'" in str(error), error
else:
    sys.exit("a model that there is not was found")
try:
    client.completions.create(model="tokens", prompt=[1.5])
except openai.BadRequestError as error:
    assert "prompt" in str(error), error
else:
    sys.exit("a wrong prompt was taken")
print("errors: as the client knows them")
