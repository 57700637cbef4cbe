"""The exceptions of the package."""


class Error(OSError):
    """A drive could not be opened, or a request failed.

    ``drive``, ``offset`` and ``length`` name what failed; the last two are None if no request
    failed. ``cause`` is the reason with its remedy, and ``errno`` the nearest error code.
    """

    drive = ""
    offset = None
    length = None
    cause = ""

    def __str__(self):
        return self.strerror or ""


class OpenError(Error):
    """The drive could not be opened."""


class InvalidError(Error, ValueError):
    """The request or a setting is invalid, and nothing was done."""


class FullError(Error):
    """The drive has reached its bound on requests or bytes, and nothing was done."""


class InfeasibleError(Error):
    """The deadline cannot be guaranteed, and nothing was done."""


class CancelledError(Error):
    """The request was cancelled."""


class TimedOutError(Error, TimeoutError):
    """The drive did not answer in time."""


class ClosedError(Error):
    """The drive is closed."""


class DriveError(Error):
    """The drive or the system reported an error."""


class BatchError(Exception):
    """A request of a batch failed.

    ``results`` has an ``IoDone`` or an ``Error`` for each request, in the order of the batch. In
    another process, to which the exception was sent, it has None for each ``IoDone``.
    """

    def __init__(self, message, results):
        super().__init__(message)
        self.results = results

    def __reduce__(self):
        failed = [one if isinstance(one, Error) else None for one in self.results]
        return type(self), (self.args[0], failed)


class UsageError(ValueError):
    """The arguments are invalid, and nothing was done."""


class CommandError(RuntimeError):
    """The arguments were valid, and the work failed."""


_KINDS = {
    "open": OpenError,
    "invalid": InvalidError,
    "full": FullError,
    "infeasible": InfeasibleError,
    "cancelled": CancelledError,
    "timed out": TimedOutError,
    "closed": ClosedError,
    "drive": DriveError,
}


def of_drive(kind, message, errno, drive, offset, length, cause):
    """Makes the exception of an error of the native module."""
    error = _KINDS.get(kind, Error)(errno, message)
    error.drive, error.offset, error.length, error.cause = drive, offset, length, cause
    return error
