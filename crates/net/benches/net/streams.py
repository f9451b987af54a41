"""A client of asyncio's streams: as little as one can do per request. Prints requests a second."""

import asyncio
import sys
import time
from urllib.parse import urlsplit


async def worker(host, port, left):
    reader, writer = await asyncio.open_connection(host, port)
    request = f"GET / HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode()
    latencies = []
    while left:
        left.pop()
        begin = time.perf_counter_ns()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        latencies.append(time.perf_counter_ns() - begin)
    writer.close()
    return latencies


async def main(url, concurrency, requests):
    parts, left = urlsplit(url), [None] * requests
    begin = time.perf_counter()
    done = await asyncio.gather(*(worker(parts.hostname, parts.port, left) for _ in range(concurrency)))
    spent = time.perf_counter() - begin
    assert sum(map(len, done)) == requests
    print(requests / spent)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
