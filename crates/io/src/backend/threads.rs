//! A file as a drive, its bytes moved by threads: the way where io_uring is forbidden, with the
//! same behavior.

use bytes::Bytes;
use headtime_sched::CommandId;
use headtime_units::Instant;

use crate::backend::pool::Pool;
use crate::backend::{Backend, BackendCommand, BackendCompletion};

/// A file drive on a pool of threads.
pub(crate) struct ThreadedFile {
    pool: Pool,
    done: Vec<(CommandId, Result<Bytes, i32>)>,
}

impl ThreadedFile {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { pool, done: Vec::new() }
    }
}

impl Backend for ThreadedFile {
    fn describe(&self) -> String {
        format!("threads, {}", if self.pool.is_direct() { "direct" } else { "buffered" })
    }

    fn start(&mut self, _now: Instant, work: BackendCommand) {
        self.pool.carry_out(work);
    }

    fn collect(&mut self, _now: Instant, ended: &mut Vec<BackendCompletion>) {
        self.pool.take_done(&mut self.done);
        ended.extend(self.done.drain(..).map(|(command, result)| BackendCompletion {
            command,
            due: None,
            result,
        }));
    }

    fn next_event(&self) -> Option<Instant> {
        None
    }

    fn is_prompt(&self) -> bool {
        true
    }

    fn abandon(self: Box<Self>) {
        self.pool.abandon();
    }
}
