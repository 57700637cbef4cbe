"""A plotter that must never wait for its data, beside bursty writers and bookkeeping.

    python plotter.py DRIVE [SECONDS [MEMBERS [SETTING=VALUE ...]]]

Every 130 ms the plotter consumes 15 MiB, which it requests as a batch two seconds before: one read,
or up to 2,000 small ones. Beside it, four writers write in bursts, and a bookkeeper reads and
writes single blocks. This is the load of 12 drives, scaled to those of an array with MEMBERS (1).
"""

import asyncio
import random
import sys

import headtime
import numpy

BLOCK, CHUNK = 4096, 64 * 4096
CLOCK, AHEAD = 0.130, 2.0
# The blocks of a batch, and its maximum number of reads, for 12 drives.
BLOCKS, READS = 3840, 2000


async def plot(drive, members, seconds):
    """Requests a batch every 130 ms. Its data is due two seconds later."""
    rng = random.Random(0)
    loop = asyncio.get_running_loop()
    begin, pending = loop.time(), []
    for number in range(round(seconds / CLOCK)):
        await asyncio.sleep(begin + number * CLOCK - loop.time())
        batch = drive.batch(reads(drive, members, rng), deadline=AHEAD)
        pending.append(asyncio.ensure_future(batch))
    return await asyncio.gather(*pending)


def reads(drive, members, rng):
    """The reads of a batch: few large ones as often as many small ones."""
    blocks, most = max(BLOCKS * members // 12, 1), max(READS * members // 12, 1)
    count = round(most ** rng.random())
    length = max(blocks // count, 1)
    last = drive.capacity // BLOCK // 2 - length
    return [drive.read_at(rng.randrange(last) * BLOCK, length * BLOCK) for _ in range(count)]


async def write(drive, members, seed, times):
    """Writes bursts of chunks into the second half of the drive."""
    rng = random.Random(seed)
    chunks = drive.capacity // CHUNK
    while True:
        burst = [
            drive.write_at(rng.randrange(chunks // 2, chunks) * CHUNK, bytes(CHUNK))
            for _ in range(rng.randint(1, 2 * members))
        ]
        times.extend((await drive.batch(burst)).response_times)
        await asyncio.sleep(rng.random())


async def keep_books(drive, times):
    """Reads and writes single blocks, and makes them durable."""
    rng = random.Random(9)
    blocks = drive.capacity // BLOCK
    while True:
        for _ in range(rng.randint(1, 8)):
            offset = rng.randrange(blocks // 2, blocks) * BLOCK
            times.append((await drive.read_at(offset, BLOCK)).response_time)
            times.append((await drive.write_at(offset, bytes(BLOCK))).response_time)
        await drive.flush()
        await asyncio.sleep(rng.random() / 2)


def summary(name, times):
    if not len(times):
        return print(f"{name}: none")
    median, most, slowest = 1e3 * numpy.percentile(times, [50, 99, 100])
    print(f"{name}: {len(times)} in {median:.1f} ms (median), {most:.1f} ms (99 %), {slowest:.1f} ms (slowest)")


async def main(drive, seconds=10, members=1, *settings):
    seconds, members = float(seconds), int(members)
    options = {"max_requests": 100_000, "max_bytes": 1 << 30}
    options |= dict(setting.split("=", 1) for setting in settings)
    with headtime.Drive(drive, **options) as drive:
        written, kept = [], []
        others = [asyncio.ensure_future(write(drive, members, seed, written)) for seed in range(1, 5)]
        others.append(asyncio.ensure_future(keep_books(drive, kept)))
        batches = await plot(drive, members, seconds)
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    late = [batch.missed_deadlines for batch in batches]
    print(f"plotter: {sum(map(bool, late))} batches late, {sum(late)} reads late; due after {AHEAD} s")
    summary("batches", [batch.response_time for batch in batches])
    summary("reads", numpy.concatenate([batch.response_times for batch in batches]))
    summary("writers", written)
    summary("bookkeeping", kept)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: plotter.py DRIVE [SECONDS [MEMBERS [SETTING=VALUE ...]]]")
    asyncio.run(main(*sys.argv[1:]))
