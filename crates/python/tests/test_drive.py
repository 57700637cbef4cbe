"""Drives, requests and batches."""

import asyncio
import contextlib
import ctypes
import gc
import os
import pathlib
import pickle
import signal
import sys
import tempfile
import threading
import time
import unittest

import headtime
import numpy

MIB = 1 << 20


class Blocking(unittest.TestCase):
    def test_what_was_written_is_read(self):
        with headtime.Drive("memory:64MiB", policy="cds-scan", max_requests=100) as drive:
            self.assertEqual((drive.capacity, drive.sector_size), (64 * MIB, 512))
            drive.write_at(MIB, b"\x07" * 4096, durable=True).wait()
            drive.write_at(2 * MIB, numpy.arange(1024, dtype="<u4")).wait()
            drive.flush().wait()
            done = drive.read_at(MIB, 4096, deadline=60.0).wait()
            self.assertEqual(done.data, b"\x07" * 4096)
            self.assertFalse(done.missed_deadline)
            self.assertAlmostEqual(done.response_time, done.queue_time + done.service_time)
            numbers = numpy.frombuffer(drive.read_at(2 * MIB, 4096).wait().data, "<u4")
            self.assertTrue((numbers == numpy.arange(1024)).all())
        self.assertTrue(drive.closed)

    def test_a_request_keeps_its_drive_open(self):
        read = lambda: headtime.Drive("memory:64MiB").read_at(0, 512)
        self.assertEqual(len(read().wait().data), 512)
        self.assertEqual(len(read().start().wait().data), 512)
        self.assertEqual(len(read().try_start().wait().data), 512)
        batch = headtime.Drive("memory:64MiB").batch([read(), read()])
        self.assertEqual(len(batch.wait()), 2)

        async def awaited():
            return await read()

        self.assertEqual(len(asyncio.run(awaited()).data), 512)

    def test_an_exception_names_drive_offset_and_cause(self):
        drive = headtime.Drive("memory:64MiB")
        with self.assertRaises(headtime.InvalidError) as caught:
            drive.read_at(64 * MIB, 512).wait()
        error = caught.exception
        self.assertEqual((error.drive, error.offset, error.length), ("memory:64MiB", 64 * MIB, 512))
        self.assertIn("is not on the drive", error.cause)
        self.assertTrue(str(error).startswith("memory:64MiB: read of 512 bytes from byte 67108864"))
        with self.assertRaises(headtime.OpenError) as caught:
            headtime.Drive("/nothing/here.img")
        self.assertEqual(caught.exception.errno, 2)
        with self.assertRaisesRegex(headtime.InvalidError, "policy=speedy"):
            headtime.Drive("memory:64MiB", policy="speedy")
        with self.assertRaisesRegex(TypeError, "no option dedline"):
            drive.read_at(0, 512, dedline=1.0)

    def test_an_option_of_another_type_is_named_and_a_refused_batch_uses_up_nothing(self):
        drive = headtime.Drive("memory:64MiB", policy=None)
        with self.assertRaisesRegex(TypeError, "^deadline='50ms': expected seconds"):
            drive.read_at(0, 512, deadline="50ms")
        with self.assertRaisesRegex(TypeError, "^volume='a': expected a whole number"):
            drive.read_at(0, 512, volume="a")
        request = drive.read_at(0, 512)
        with self.assertRaises(TypeError):
            drive.batch([request, 5])
        self.assertEqual(len(request.wait().data), 512)

    def test_a_deadline_is_guaranteed_or_the_request_is_refused(self):
        answers = ["guaranteed", "best_effort", "refused", "broken"]
        with tempfile.TemporaryDirectory() as directory:
            emulated = f"emulated:savvio10k2?backing={directory}/drive.img"
            with headtime.Drive(emulated, policy="cds-scan") as drive:
                done = drive.read_at(0, 4096, deadline=3600, guaranteed="refuse").wait()
                self.assertTrue(done.guaranteed)
                with self.assertRaises(headtime.InfeasibleError) as refused:
                    drive.read_at(0, 4096, deadline=0.001, guaranteed="refuse").wait()
                self.assertIn("cannot be guaranteed", str(refused.exception))
                with self.assertRaisesRegex(headtime.InvalidError, "give it a deadline"):
                    drive.read_at(0, 4096, guaranteed="refuse").wait()
                done = drive.read_at(0, 4096, deadline=0.001, guaranteed="best-effort").wait()
                self.assertFalse(done.guaranteed)
                with self.assertRaisesRegex(ValueError, "expected .refuse. or .best-effort."):
                    drive.read_at(0, 4096, guaranteed="yes")
                done = drive.read_at(0, 4096, deadline=3600, priority="rt", guaranteed="refuse").wait()
                counts = {of: [counts[answer] for answer in answers] for of, counts in drive.promises().items()}
                self.assertEqual(counts, {"rt": [1, 0, 0, 0], "be": [1, 1, 1, 0], "idle": [0, 0, 0, 0]})

    def test_a_batch_has_response_times_and_all_results(self):
        drive = headtime.Drive("memory:64MiB")
        done = drive.batch((drive.read_at(n * 4096, 4096) for n in range(2000)), deadline=60).wait()
        times = done.response_times
        self.assertEqual([one.response_time for one in done], list(times))
        self.assertEqual(done[-1].response_time, times[1999])
        self.assertEqual((len(done), times.shape, times.dtype), (2000, (2000,), numpy.float64))
        self.assertAlmostEqual(times.max(), done.response_time)
        self.assertEqual(done.missed_deadlines, 0)
        requests = [drive.read_at(0, 4096), drive.read_at(65 * MIB, 4096)]
        with self.assertRaisesRegex(headtime.BatchError, "1 of 2 requests") as caught:
            drive.batch(requests).wait()
        first, second = caught.exception.results
        self.assertEqual(len(first.data), 4096)
        self.assertEqual(second.offset, 65 * MIB)

    def test_a_waiting_call_releases_the_interpreter(self):
        drive = slow_drive(self)
        counted, begun, over = 0, threading.Event(), threading.Event()

        def wait():
            begun.set()
            drive.batch(drive.read_at(n * 997 * MIB, MIB) for n in range(20)).wait()
            over.set()

        waiter = threading.Thread(target=wait)
        waiter.start()
        begun.wait()
        while not over.is_set():
            counted += 1
            time.sleep(0.001)
        waiter.join()
        self.assertGreater(counted, 2, "the interpreter was blocked while a batch was waited for")

    def test_a_timeout_leaves_the_request_and_cancelling_ends_it(self):
        drive = slow_drive(self, outstanding=1)
        pending = [drive.read_at(n * 997 * MIB, MIB).try_start() for n in range(50)]
        with self.assertRaises(TimeoutError):
            pending[-1].wait(timeout=0)
        pending[-1].cancel()
        with self.assertRaises(headtime.CancelledError):
            pending[-1].wait()
        results = []

        def wait():
            try:
                results.append(pending[-2].wait())
            except headtime.CancelledError as error:
                results.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        for one in pending[:-1]:
            one.cancel()
        waiter.join()
        self.assertIsInstance(results[0], headtime.CancelledError)
        self.assertEqual(results[0].offset, 48 * 997 * MIB)

    def test_exceptions_can_be_copied_and_sent_to_other_processes(self):
        with self.assertRaises(headtime.InvalidError) as caught:
            headtime.Drive("memory:64MiB").read_at(1, 512).wait()
        copied = pickle.loads(pickle.dumps(caught.exception))
        self.assertIs(type(copied), headtime.InvalidError)
        self.assertEqual(str(copied), str(caught.exception))
        self.assertEqual((copied.drive, copied.offset, copied.errno), ("memory:64MiB", 1, 22))
        drive = headtime.Drive("memory:64MiB")
        with self.assertRaises(headtime.BatchError) as caught:
            drive.batch([drive.read_at(0, 512), drive.read_at(1, 512)]).wait()
        copied = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual(str(copied), str(caught.exception))
        self.assertEqual((copied.results[0], copied.results[1].offset), (None, 1))

    def test_a_child_process_is_told_that_the_drive_is_not_its_own(self):
        drive = slow_drive(self)
        request = drive.read_at(0, 4096)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                request.wait()
            except headtime.ClosedError:
                drive.close()
                os._exit(7)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        self.assertEqual(len(request.wait().data), 4096)

    def test_a_drive_that_is_forgotten_is_closed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "drive.img"
            drive = headtime.Drive(path, create_bytes="1MiB")
            drive.write_at(0, b"\x01" * 4096).try_start()
            del drive
            self.assertEqual(path.read_bytes()[:4096], b"\x01" * 4096)


class Asyncio(unittest.IsolatedAsyncioTestCase):
    async def test_requests_and_batches_are_awaited(self):
        drive = headtime.Drive("memory:64MiB", max_requests=8)

        async def one(number):
            await drive.write_at(number * 4096, bytes([number]) * 4096)
            return (await drive.read_at(number * 4096, 4096, deadline=60)).data[0]

        found = await asyncio.gather(*(one(number) for number in range(200)))
        self.assertEqual(found, list(range(200)))
        done = await drive.batch(drive.read_at(n * 512, 512) for n in range(100))
        self.assertEqual(len(done), 100)
        with self.assertRaises(headtime.InvalidError):
            await drive.read_at(1, 512)

    async def test_a_timeout_cancels_the_request(self):
        drive = slow_drive(self, outstanding=1)
        others = [drive.read_at(n * 997 * MIB, MIB).try_start() for n in range(30)]
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0):
                await drive.read_at(5 * MIB, MIB)
        for one in others:
            one.cancel()


class Heap(unittest.TestCase):
    def test_requests_leave_no_objects_and_no_memory(self):
        # The first round makes what the process keeps.
        self.round()
        before = self.in_use()
        self.round()
        after = self.in_use()
        # An object for each request of one kind would be 1,000 or more.
        self.assertLess(after[0] - before[0], 500)
        self.assertLess(after[1] - before[1], 1 << 20)

    def in_use(self):
        """Blocks of the interpreter, and bytes of the C library, which the extension uses."""
        gc.collect()
        heap = mallinfo2() if mallinfo2 else MallInfo()
        return sys.getallocatedblocks(), heap.uordblks + heap.hblkhd

    def round(self):
        """10,000 requests, which complete, fail, or are cancelled."""
        with headtime.Drive("memory:64MiB", max_requests=100) as drive:
            for number in range(1000):
                drive.write_at(number * 512, bytes(512)).wait()
                with self.assertRaises(headtime.InvalidError):
                    drive.read_at(1, 512).start().wait()
            reads = [drive.read_at(number * 512, 512) for number in range(3000)]
            self.assertEqual(drive.batch(reads, deadline=60).wait().response_times.shape, (3000,))
            with self.assertRaises(headtime.BatchError):
                drive.batch(drive.read_at(number, 512) for number in range(1000)).wait()

            async def await_all():
                await asyncio.gather(*(drive.read_at(number * 512, 512) for number in range(3000)))

            asyncio.run(await_all())
        drive = slow_drive(self)
        pending = [drive.read_at(number * MIB, 4096).try_start() for number in range(1000)]
        for one in pending:
            one.cancel()
        for one in pending:
            with contextlib.suppress(headtime.CancelledError):
                one.wait()
        drive.close()


class MallInfo(ctypes.Structure):
    """The use of the heap, by the GNU C library."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None)
if mallinfo2:
    mallinfo2.restype = MallInfo


def slow_drive(test, **settings):
    folder = tempfile.TemporaryDirectory()
    drive = headtime.Drive(f"emulated:nearline-20tb?backing={folder.name}/drive.img", **settings)
    test.addCleanup(folder.cleanup)
    test.addCleanup(drive.close)
    return drive
