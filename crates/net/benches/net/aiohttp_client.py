"""A client of aiohttp, as Python's load generators use it. Prints requests a second."""

import asyncio
import sys
import time

import aiohttp


async def worker(session, url, left):
    latencies = []
    while left:
        left.pop()
        begin = time.perf_counter_ns()
        async with session.get(url) as response:
            await response.read()
            assert response.status == 200
        latencies.append(time.perf_counter_ns() - begin)
    return latencies


async def main(url, concurrency, requests):
    left = [None] * requests
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:
        begin = time.perf_counter()
        done = await asyncio.gather(*(worker(session, url, left) for _ in range(concurrency)))
        spent = time.perf_counter() - begin
    assert sum(map(len, done)) == requests
    print(requests / spent)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
