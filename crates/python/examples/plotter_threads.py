"""The load of plotter.py without a scheduler: plain threads with direct I/O.

    python plotter_threads.py PATH [SECONDS [MEMBERS [THREADS]]]

PATH is a file or a block device, which is overwritten. The plotter's reads are taken in order by
THREADS (64) threads; four writers and a bookkeeper have a thread each. docs/embedding.md tells how
to run it on an emulated drive.
"""

import concurrent.futures
import mmap
import os
import queue
import random
import sys
import threading
import time

import numpy

BLOCK, CHUNK = 4096, 64 * 4096
CLOCK, AHEAD = 0.130, 2.0
# The blocks of a batch, and its maximum number of reads, for 12 drives.
BLOCKS, READS = 3840, 2000


def plot(reads, blocks, members, seconds):
    """Queues a batch every 130 ms: few large reads as often as many small ones."""
    rng = random.Random(0)
    size, most = max(BLOCKS * members // 12, 1), max(READS * members // 12, 1)
    begin = time.monotonic()
    for number in range(round(seconds / CLOCK)):
        due = begin + number * CLOCK
        time.sleep(max(due - time.monotonic(), 0))
        count = round(most ** rng.random())
        length = max(size // count, 1)
        for _ in range(count):
            reads.put((rng.randrange(blocks // 2 - length) * BLOCK, length * BLOCK, due))


def read(file, reads):
    """Reads what the plotter queues, in that order."""
    times = []
    while item := reads.get():
        offset, length, begun = item
        transfer(os.preadv, file, buffer(length), offset)
        times.append(time.monotonic() - begun)
    return times


def write(file, blocks, members, seed, over):
    """Writes bursts of chunks into the second half."""
    rng, times, data = random.Random(seed), [], buffer(CHUNK)
    chunks = blocks * BLOCK // CHUNK
    while not over.is_set():
        begun = time.monotonic()
        for _ in range(rng.randint(1, 2 * members)):
            transfer(os.pwritev, file, data, rng.randrange(chunks // 2, chunks) * CHUNK)
            times.append(time.monotonic() - begun)
        time.sleep(rng.random())
    return times


def keep_books(file, blocks, over):
    """Reads and writes single blocks, and makes them durable."""
    rng, times, data = random.Random(9), [], buffer(BLOCK)
    while not over.is_set():
        for _ in range(rng.randint(1, 8)):
            offset = rng.randrange(blocks // 2, blocks) * BLOCK
            for call in os.preadv, os.pwritev:
                begun = time.monotonic()
                transfer(call, file, data, offset)
                times.append(time.monotonic() - begun)
        os.fdatasync(file)
        time.sleep(rng.random() / 2)
    return times


def buffer(length):
    """Memory that direct I/O accepts: whole pages."""
    return mmap.mmap(-1, length)


def transfer(call, file, data, offset):
    if call(file, [data], offset) != len(data):
        raise OSError(f"{len(data)} bytes at {offset}: the transfer is incomplete")


def summary(name, times):
    median, most, slowest = 1e3 * numpy.percentile(times, [50, 99, 100])
    print(f"{name}: {len(times)} in {median:.1f} ms (median), {most:.1f} ms (99 %), {slowest:.1f} ms (slowest)")


def main(path, seconds=10, members=1, threads=64):
    seconds, members, threads = float(seconds), int(members), int(threads)
    file = os.open(path, os.O_RDWR | os.O_DIRECT)
    blocks = os.lseek(file, 0, os.SEEK_END) // BLOCK
    reads, over = queue.SimpleQueue(), threading.Event()
    with concurrent.futures.ThreadPoolExecutor(threads + 5) as pool:
        readers = [pool.submit(read, file, reads) for _ in range(threads)]
        writers = [pool.submit(write, file, blocks, members, seed, over) for seed in range(1, 5)]
        bookkeeper = pool.submit(keep_books, file, blocks, over)
        try:
            plot(reads, blocks, members, seconds)
        finally:
            for _ in readers:
                reads.put(None)
            times = [time for reader in readers for time in reader.result()]
            over.set()
    os.close(file)
    print(f"plotter: {sum(time > AHEAD for time in times)} reads late; due after {AHEAD} s")
    summary("reads", times)
    summary("writers", [time for writer in writers for time in writer.result()])
    summary("bookkeeping", bookkeeper.result())


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: plotter_threads.py PATH [SECONDS [MEMBERS [THREADS]]]")
    main(*sys.argv[1:])
