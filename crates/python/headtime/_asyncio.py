"""Awaits requests in the event loops of asyncio.

Each loop has one completion queue. Its descriptor becomes readable when a result may be available,
so that no thread of a drive ever waits for the interpreter.
"""

import asyncio
import weakref

from headtime import _native

_QUEUES = weakref.WeakKeyDictionary()


class _LoopQueue:
    def __init__(self, loop):
        self._queue = _native.CompletionQueue()
        self._waiting = {}
        loop.add_reader(self._queue.fileno(), self._take)

    async def run(self, loop, request):
        future = loop.create_future()
        number = self._queue.push(request)
        self._waiting[number] = future
        try:
            return await future
        finally:
            # Of a future that was cancelled, the request is cancelled too.
            if self._waiting.pop(number, None) is not None:
                self._queue.drop(number)

    def _take(self):
        for number, result, error in self._queue.take():
            future = self._waiting.pop(number, None)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


async def run(request):
    """Starts a request, a pending request or a batch, and waits for its result."""
    loop = asyncio.get_running_loop()
    queue = _QUEUES.get(loop)
    if queue is None:
        queue = _QUEUES[loop] = _LoopQueue(loop)
    return await queue.run(loop, request)
