"""What the small servers of tests share: forms, answers and a log."""

import email
import http.server
import json
import threading

LOCK = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_error(404)

    def body(self):
        return self.rfile.read(int(self.headers["content-length"]))

    def form(self):
        """Returns the parts of a form, each with its name."""
        head = b"Content-Type: " + self.headers["content-type"].encode() + b"\r\n\r\n"
        parts = email.message_from_bytes(head + self.body()).get_payload()
        return [(part.get_param("name", header="content-disposition"), part) for part in parts]

    def answer(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_json(self, answer):
        self.answer(json.dumps(answer).encode())


def log(line):
    with LOCK, open("log.jsonl", "ab") as file:
        file.write(line + b"\n")


def serve(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    print(server.server_port, flush=True)
    server.serve_forever()
