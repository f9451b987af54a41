"""A server of completions that computes the signature of each request again (AWS Signature Version 4).

usage: signed.py OPTIONS, a JSON object:
  log       file that gets a JSON object for each request
  secret    key of the client
  refusals  as many requests for more than one token are refused with 429, and may come again after a second
Prints its port. A request with another signature gets 403 and a message that repeats its field Authorization.
"""

import datetime
import hashlib
import hmac
import http.server
import json
import sys
import threading
import urllib.parse

OPTIONS = json.loads(sys.argv[1])
LOCK = threading.Lock()
COUNTS = {"refused": 0}
UNRESERVED = "-_.~"


def digest(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signatures(request, body):
    """Returns the signature of a request, and the one that it must have."""
    if "authorization" not in request.headers:
        return None, ""
    scheme, _, rest = request.headers["authorization"].partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    _, date, region, service, end = parts["Credential"].split("/")
    names = parts["SignedHeaders"].split(";")
    url = urllib.parse.urlsplit(request.path)
    quoted = [[urllib.parse.quote(text, safe=UNRESERVED) for text in pair]
              for pair in urllib.parse.parse_qsl(url.query, keep_blank_values=True)]
    canonical = "\n".join([
        request.command,
        urllib.parse.quote(url.path, safe="/" + UNRESERVED),
        "&".join(f"{name}={value}" for name, value in sorted(quoted)),
        "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in names),
        ";".join(names),
        hashlib.sha256(body).hexdigest(),
    ])
    scope = f"{date}/{region}/{service}/{end}"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = ("AWS4" + OPTIONS["secret"]).encode()
    for part in (date, region, service, end):
        key = digest(key, part)
    expected = digest(key, "\n".join([scheme, request.headers["x-amz-date"], scope, hashed])).hex()
    return parts["Signature"], expected


def is_recent(stamp):
    sent = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    return abs(datetime.datetime.now(datetime.timezone.utc) - sent) < datetime.timedelta(minutes=5)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, body, **fields):
        body = json.dumps(body).encode()
        self.send_response(status)
        for name, value in [("content-type", "application/json"), ("content-length", str(len(body))), *fields.items()]:
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        return status

    def serve(self):
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        found, expected = signatures(self, body)
        entry = {
            "method": self.command, "path": self.path, "body": json.loads(body or b"{}"), "signature": found,
            "authorization": self.headers["authorization"], "date": self.headers["x-amz-date"],
            "is_valid": found == expected and is_recent(self.headers["x-amz-date"]),
        }
        if entry["is_valid"]:
            entry["status"] = self.valid(entry["body"])
        else:
            words = f"The signature does not match: {self.headers['authorization']}"
            entry["status"] = self.answer(403, {"error": {"message": words}})
        with LOCK:
            with open(OPTIONS["log"], "a") as file:
                file.write(json.dumps(entry) + "\n")

    do_GET = serve
    do_POST = serve

    def valid(self, body):
        path = urllib.parse.urlsplit(self.path).path
        if path == "/v1/models":
            return self.answer(200, {"object": "list", "data": [{"id": "only", "object": "model"}]})
        if path != "/v1/completions":
            return self.answer(404, {"error": {"message": "no such path"}})
        words = min(body["max_tokens"], 4)
        with LOCK:
            is_refused = words > 1 and COUNTS["refused"] < OPTIONS.get("refusals", 0)
            COUNTS["refused"] += is_refused
        if is_refused:
            return self.answer(429, {"error": {"message": "too many requests"}}, retry_after="1")
        choice = {"index": 0, "text": " word" * words, "finish_reason": "stop" if words > 1 else "length"}
        usage = {"prompt_tokens": 4, "completion_tokens": words, "total_tokens": 4 + words}
        return self.answer(200, {"object": "text_completion", "choices": [choice], "usage": usage})


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
