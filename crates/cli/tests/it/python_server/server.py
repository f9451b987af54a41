"""A server of completions on Python's own HTTP and TLS, with a log of its own.

usage: server.py OPTIONS, a JSON object:
  log            file that gets a JSON object for each request for a completion, when it has been answered
  pause          seconds before an answer
  rest           seconds between the end of an answer ([DONE]) and the end of its body
  words          words of an answer, 10 ms apart if there are more than four
  late           seconds before it listens
  refusals       as many requests are refused with 429, and may come again after a second
  closed         [FROM, TO]: the connections of these requests are closed without an answer
  broken         as many requests are answered with an internal error
  rejects        member of requests that is rejected
  moved          path below which requests are redirected to /v1
  query          parameter that every request must have
  cert, key, ca  TLS: its certificate, its key, and the authority of clients, which then need a certificate
Prints its port.
"""

import http.server
import json
import socket
import ssl
import sys
import threading
import time
import urllib.parse

OPTIONS = json.loads(sys.argv[1])
LOCK = threading.Lock()
COUNTS = {"now": 0, "refused": 0, "broken": 0, "all": 0}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="application/json", **fields):
        self.send_response(status)
        for name, value in [("content-type", kind), ("content-length", str(len(body))), *fields.items()]:
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        return status

    def error(self, status, words, **fields):
        return self.answer(status, json.dumps({"error": {"message": words}}).encode(), **fields)

    def lacks_query(self):
        wanted = OPTIONS.get("query")
        return wanted and wanted not in urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)

    def do_GET(self):
        if urllib.parse.urlsplit(self.path).path != "/v1/models" or self.lacks_query():
            return self.error(404, "no such path")
        return self.answer(200, b'{"object":"list","data":[{"id":"only","object":"model"}]}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        entry = {"arrived": time.monotonic_ns(), "path": self.path, "body": body}
        if "ca" in OPTIONS:
            entry["client"] = dict(pair[0] for pair in self.connection.getpeercert()["subject"])["commonName"]
        self.is_counted = True
        with LOCK:
            COUNTS["now"] += 1
            entry["in_flight"] = COUNTS["now"]
        try:
            entry["status"] = self.completion(body)
        except OSError:
            entry["status"] = 0
            self.close_connection = True
        self.leave()
        with LOCK:
            with open(OPTIONS["log"], "a") as file:
                file.write(json.dumps(entry) + "\n")

    def leave(self):
        """Counts the request out, before its end can be seen."""
        with LOCK:
            COUNTS["now"] -= self.is_counted
            self.is_counted = False

    def completion(self, body):
        moved, rejects = OPTIONS.get("moved"), OPTIONS.get("rejects")
        if moved and self.path.startswith(moved):
            return self.answer(307, b"", location="/v1" + self.path[len(moved):])
        if self.lacks_query() or not self.path.startswith("/v1/"):
            return self.error(404, "no such path")
        if rejects and rejects in body:
            return self.error(400, f"Unsupported parameter: '{rejects}' is not supported with this model.")
        with LOCK:
            is_refused = COUNTS["refused"] < OPTIONS.get("refusals", 0) and body.get("max_tokens") != 1
            COUNTS["refused"] += is_refused
            is_broken = COUNTS["broken"] < OPTIONS.get("broken", 0) and body.get("max_tokens") != 1
            COUNTS["broken"] += is_broken
            number = COUNTS["all"]
            COUNTS["all"] += body.get("max_tokens") != 1
        if is_refused:
            return self.error(429, "too many requests", retry_after="1")
        if is_broken:
            return self.error(500, "out of memory")
        first, end = OPTIONS.get("closed", [0, 0])
        if first <= number < end and body.get("max_tokens") != 1:
            self.close_connection = True
            return 0
        time.sleep(OPTIONS.get("pause", 0))
        words = OPTIONS.get("words", 4)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        is_chat = "messages" in body
        for number in range(words):
            part = {"delta": {"content": "word "}} if is_chat else {"text": "word "}
            choice = {"index": 0, "finish_reason": None if number + 1 < words else "stop", **part}
            self.wfile.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())
            self.wfile.flush()
            if words > 4:
                time.sleep(0.01)
        self.leave()
        self.wfile.write(b"data: [DONE]\n\n")
        self.wfile.flush()
        time.sleep(OPTIONS.get("rest", 0))
        self.close_connection = True
        return 200


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
if "late" in OPTIONS:
    print(port, flush=True)
    time.sleep(OPTIONS["late"])
server = Server(("127.0.0.1", port), Handler)
if "cert" in OPTIONS:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(OPTIONS["cert"], OPTIONS["key"])
    if "ca" in OPTIONS:
        context.load_verify_locations(OPTIONS["ca"])
        context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
if "late" not in OPTIONS:
    print(port, flush=True)
server.serve_forever()
