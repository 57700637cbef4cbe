#!/usr/bin/python3
"""Shows NBD exports as files through FUSE, each with up to 256 requests outstanding.

nbd-fuse.py DIRECTORY NAME=URI [NAME=URI ...]

The files are for loop devices with direct I/O. nbdfuse keeps about four requests outstanding, which is too few to
compare schedulers. Needs root and python3-libnbd. Runs until the directory is unmounted.
"""

import ctypes
import errno
import os
import select
import struct
import sys

import nbd

MAX_BYTES = 1 << 20
BACKGROUND = 256
# Operations of <linux/fuse.h>.
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE = 1, 2, 3, 4, 14, 15, 16, 17, 18
FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, DESTROY = 20, 25, 26, 27, 28, 29, 36, 38
BATCH_FORGET, FALLOCATE = 42, 43
ASYNC_READ, BIG_WRITES, ASYNC_DIO, MAX_PAGES = 1 << 0, 1 << 5, 1 << 15, 1 << 22
# Requests go past the page cache, and writes run side by side.
OPEN_FLAGS = 1 << 0 | 1 << 6
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
ROOT = 1
YEAR = 365 * 24 * 3600


class Export:
    def __init__(self, name, uri):
        self.name = name
        self.handle = nbd.NBD()
        self.handle.connect_uri(uri)
        self.size = self.handle.get_size()


class Bridge:
    def __init__(self, directory, exports):
        self.exports = exports
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,max_read={MAX_BYTES}"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"nbd-fuse", directory.encode(), b"fuse", 0, options.encode()) != 0:
            sys.exit(f"{directory}: cannot mount: {os.strerror(ctypes.get_errno())}; run as root on an empty directory")

    def reply(self, unique, data=b"", error=0):
        header = struct.pack("<IiQ", 16 + len(data), -error, unique)
        try:
            os.writev(self.device, [header, data] if data else [header])
        except OSError as failed:
            if failed.errno != errno.ENOENT:  # The caller was interrupted.
                raise

    def export(self, node):
        return self.exports[node - ROOT - 1]

    def attributes(self, node):
        size, mode = (0, 0o40755) if node == ROOT else (self.export(node).size, 0o100600)
        return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def done(self, unique, answer):
        def completed(error):
            self.reply(unique, b"" if error.value else answer(), error.value)
            return 1
        return completed

    def handle(self, message):
        _, operation, unique, node, _, _, _, _, _ = struct.unpack_from("<IIQQIIIHH", message)
        body = message[40:]
        if operation == INIT:
            _, _, read_ahead, flags = struct.unpack_from("<4I", body)
            flags &= ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES
            limits = struct.pack("<HHIIHHII", BACKGROUND, BACKGROUND, MAX_BYTES, 1, MAX_BYTES // 4096, 0, 0, 0)
            self.reply(unique, struct.pack("<4I", 7, 31, read_ahead, flags) + limits + bytes(24))
        elif operation == LOOKUP:
            names = [export.name.encode() for export in self.exports]
            name = bytes(body).split(b"\0")[0]
            if name not in names:
                return self.reply(unique, error=errno.ENOENT)
            node = ROOT + 1 + names.index(name)
            self.reply(unique, struct.pack("<4Q2I", node, 0, YEAR, YEAR, 0, 0) + self.attributes(node))
        elif operation in (GETATTR, SETATTR):
            self.reply(unique, struct.pack("<QII", YEAR, 0, 0) + self.attributes(node))
        elif operation in (OPEN, OPENDIR):
            self.reply(unique, struct.pack("<QII", 0, OPEN_FLAGS if operation == OPEN else 0, 0))
        elif operation == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            size = max(0, min(size, self.export(node).size - offset))
            buffer = nbd.Buffer(size)
            self.export(node).handle.aio_pread(buffer, offset, self.done(unique, lambda: bytes(buffer.to_bytearray())))
        elif operation == WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            buffer = nbd.Buffer.from_bytearray(bytearray(body[40:40 + size]))
            self.export(node).handle.aio_pwrite(buffer, offset, self.done(unique, lambda: struct.pack("<II", size, 0)))
        elif operation == FSYNC:
            self.export(node).handle.aio_flush(self.done(unique, bytes))
        elif operation == FALLOCATE:
            _, offset, length, mode = struct.unpack_from("<QQQI", body)
            handle = self.export(node).handle
            if mode & PUNCH_HOLE:
                handle.aio_trim(length, offset, self.done(unique, bytes))
            elif mode & ZERO_RANGE:
                handle.aio_zero(length, offset, self.done(unique, bytes))
            else:
                self.reply(unique, error=errno.EOPNOTSUPP)
        elif operation == STATFS:
            self.reply(unique, struct.pack("<5Q4I24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0))
        elif operation in (FLUSH, RELEASE, RELEASEDIR, READDIR, DESTROY):
            self.reply(unique)
        elif operation not in (FORGET, BATCH_FORGET, INTERRUPT):
            self.reply(unique, error=errno.ENOSYS)

    def run(self):
        poll = select.poll()
        poll.register(self.device, select.POLLIN)
        handles = {export.handle.aio_get_fd(): export.handle for export in self.exports}
        while True:
            for descriptor, handle in handles.items():
                direction = handle.aio_get_direction()
                events = (select.POLLIN if direction & nbd.AIO_DIRECTION_READ else 0) | (
                    select.POLLOUT if direction & nbd.AIO_DIRECTION_WRITE else 0)
                poll.register(descriptor, events)
            for descriptor, events in poll.poll():
                if descriptor == self.device:
                    # As many requests as there are, so that all reach the server before the next wait.
                    while True:
                        try:
                            message = os.read(self.device, MAX_BYTES + 4096)
                        except BlockingIOError:
                            break
                        except OSError as failed:
                            if failed.errno == errno.ENODEV:
                                return
                            if failed.errno in (errno.ENOENT, errno.EINTR):
                                continue
                            raise
                        self.handle(memoryview(message))
                elif events & select.POLLIN:
                    handles[descriptor].aio_notify_read()
                else:
                    handles[descriptor].aio_notify_write()


def main():
    if len(sys.argv) < 3 or any("=" not in argument for argument in sys.argv[2:]):
        sys.exit(__doc__.split("\n\n")[1])
    exports = [Export(*argument.split("=", 1)) for argument in sys.argv[2:]]
    Bridge(sys.argv[1], exports).run()


if __name__ == "__main__":
    main()
