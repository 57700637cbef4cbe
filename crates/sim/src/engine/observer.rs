//! [`EngineObserver`]: callbacks for the events of a run.

use headtime_sched::{
    BackgroundRead, Cancelled, Command, CommandId, Finished, Request, RequestId, StreamId,
};
use headtime_units::Instant;

use crate::device::DriveCompletion;

/// Callbacks in the order of events. Each one does nothing by default.
pub trait EngineObserver {
    /// A request was accepted.
    fn submitted(&mut self, now: Instant, request: &Request) {
        let _ = (now, request);
    }

    /// A command is about to go to the drive.
    fn dispatched(&mut self, now: Instant, command: &Command) {
        let _ = (now, command);
    }

    /// The drive reported a command. `expected` is false for a command given up before; the
    /// scheduler does not see that report.
    fn completed(&mut self, now: Instant, completion: &DriveCompletion, expected: bool) {
        let _ = (now, completion, expected);
    }

    /// The engine gave a command up.
    fn gave_up(&mut self, now: Instant, command: CommandId) {
        let _ = (now, command);
    }

    /// A request is over.
    fn finished(&mut self, now: Instant, finished: &Finished) {
        let _ = (now, finished);
    }

    /// Sectors were read for a scan, or could not be read.
    fn background(&mut self, now: Instant, read: &BackgroundRead) {
        let _ = (now, read);
    }

    /// A request was cancelled.
    fn cancelled(&mut self, now: Instant, id: RequestId, cancelled: Cancelled) {
        let _ = (now, id, cancelled);
    }

    /// The process or connection of a stream has ended.
    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        let _ = (now, stream);
    }
}

/// No observer.
impl EngineObserver for () {}

/// Two observers; the first is called first.
impl<A: EngineObserver, B: EngineObserver> EngineObserver for (&mut A, &mut B) {
    fn submitted(&mut self, now: Instant, request: &Request) {
        self.0.submitted(now, request);
        self.1.submitted(now, request);
    }

    fn dispatched(&mut self, now: Instant, command: &Command) {
        self.0.dispatched(now, command);
        self.1.dispatched(now, command);
    }

    fn completed(&mut self, now: Instant, completion: &DriveCompletion, expected: bool) {
        self.0.completed(now, completion, expected);
        self.1.completed(now, completion, expected);
    }

    fn gave_up(&mut self, now: Instant, command: CommandId) {
        self.0.gave_up(now, command);
        self.1.gave_up(now, command);
    }

    fn finished(&mut self, now: Instant, finished: &Finished) {
        self.0.finished(now, finished);
        self.1.finished(now, finished);
    }

    fn background(&mut self, now: Instant, read: &BackgroundRead) {
        self.0.background(now, read);
        self.1.background(now, read);
    }

    fn cancelled(&mut self, now: Instant, id: RequestId, cancelled: Cancelled) {
        self.0.cancelled(now, id, cancelled);
        self.1.cancelled(now, id, cancelled);
    }

    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.0.stream_ended(now, stream);
        self.1.stream_ended(now, stream);
    }
}
