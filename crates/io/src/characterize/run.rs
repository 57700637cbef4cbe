//! The loop between a probe and a drive.

use std::ops::ControlFlow;

use bytes::Bytes;
use headtime_probe::{
    BatchCommand, CommandBatch, CommandKind, CommandOutcome, Probe, TimedCommand,
};
use headtime_sched::Op;
use headtime_units::{Extent, Instant, Nanos};
use rustix::io::Errno;

use super::edge::{EdgeCommand, EdgeCompletion, Lost};
use super::{ProbedDrive, SubjectError};
use crate::notifier::expect_precise_wakes;
use crate::options::EnginePriority;
use crate::sys::run_first_in_first_out;

/// The work of this run so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Commands that the drive carried out or failed.
    pub commands: u64,
    /// Those among them that failed.
    pub failures: u64,
    /// The drive's explanation of the last failure.
    pub last_error: Option<String>,
    /// The number of times that the drive returned after an absence.
    pub interruptions: u64,
    /// The longest time from one completion to the next command that was to follow at once: what
    /// this machine takes, mostly for the probe's computing.
    pub longest_gap: Nanos,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There is nothing more to ask.
    Done,
    /// It was stopped.
    Stopped,
}

/// The reason why a batch did not complete.
enum Trouble {
    /// The connection was restored. The unanswered requests are sent again after the phase.
    Interrupted,
    Fatal(SubjectError),
}

/// A command at the drive.
struct Sent {
    token: u64,
    /// Its number in the batch.
    id: usize,
    kind: CommandKind,
    extent: Extent,
    issued: Instant,
}

impl ProbedDrive {
    /// Runs the requests of the probe until it has no more, or until `watch`, which is called after
    /// each batch, stops it.
    ///
    /// # Errors
    /// [`SubjectError`] when the drive is gone or hangs. The probe keeps its results, so it can be
    /// saved and resumed later.
    pub fn characterize(
        &mut self,
        probe: &mut Probe,
        watch: &mut dyn FnMut(&Probe, &RunCounts) -> ControlFlow<()>,
    ) -> Result<(Ended, RunCounts), SubjectError> {
        self.go_before_others();
        let mut counts = RunCounts::default();
        let mut last_completion = None;
        loop {
            let Some(batch) = probe.next_batch() else { return Ok((Ended::Done, counts)) };
            let at_once = batch.not_before() == Instant::ORIGIN;
            match self.run(batch, &mut counts) {
                Ok(answers) => {
                    if let (Some(first), Some(last), true) =
                        (answers.first(), last_completion, at_once)
                    {
                        counts.longest_gap =
                            counts.longest_gap.max(first.issued.saturating_since(last));
                    }
                    last_completion = answers.last().map(|answer| answer.completed);
                    probe.batch_completed(answers);
                }
                Err(Trouble::Fatal(error)) => return Err(error),
                Err(Trouble::Interrupted) => {
                    counts.interruptions += 1;
                    last_completion = None;
                    *probe = Probe::resume(probe.clone());
                }
            }
            if watch(probe, &counts).is_break() {
                return Ok((Ended::Stopped, counts));
            }
        }
    }

    /// Carries one batch out.
    fn run(
        &mut self,
        mut batch: CommandBatch,
        counts: &mut RunCounts,
    ) -> Result<Vec<TimedCommand>, Trouble> {
        if batch.not_before() > self.edge.now() {
            self.edge.wait_until(batch.not_before());
        }
        let mut at_drive: Vec<Sent> = Vec::new();
        let mut kept = None;
        while !batch.is_over() {
            while let Some(BatchCommand { id, kind, extent }) = batch.next(self.edge.now()) {
                let (op, data, fua) = match kind {
                    CommandKind::Read | CommandKind::ReadAndKeep => (Op::Read, Bytes::new(), false),
                    CommandKind::WriteBack { fua } => (
                        Op::Write,
                        kept.take().expect("a write back follows a read that succeeded"),
                        fua,
                    ),
                };
                if op == Op::Write && fua && !self.fua {
                    batch.completed(id, self.edge.now(), CommandOutcome::Failed);
                    continue;
                }
                assert!(
                    op == Op::Read || self.allow_writes,
                    "the probe's settings allow writes only where the drive was opened for them"
                );
                // Tokens are unique across batches, so a late completion belongs to no later batch.
                self.next_token += 1;
                let issued =
                    self.edge.send(EdgeCommand { token: self.next_token, op, extent, data, fua });
                batch.issued_at(id, issued);
                at_drive.push(Sent { token: self.next_token, id, kind, extent, issued });
            }
            if batch.is_over() {
                break;
            }
            let EdgeCompletion { token, completed, result, explanation } =
                self.await_one(&at_drive)?;
            let Some(place) = at_drive.iter().position(|sent| sent.token == token) else {
                continue;
            };
            let Sent { id, kind, .. } = at_drive.swap_remove(place);
            counts.commands += 1;
            let outcome = match &result {
                Ok(_) => CommandOutcome::Done,
                Err(errno) => {
                    counts.failures += 1;
                    counts.last_error = Some(explanation.map_or_else(
                        || Errno::from_raw_os_error(*errno).to_string(),
                        |explanation| explanation.to_string(),
                    ));
                    CommandOutcome::Failed
                }
            };
            batch.completed(id, completed, outcome);
            if kind == CommandKind::ReadAndKeep {
                kept = result.ok();
            }
        }
        Ok(batch.into_results())
    }

    /// Waits for one of what is under way, no longer than a command may take.
    fn await_one(&mut self, at_drive: &[Sent]) -> Result<EdgeCompletion, Trouble> {
        let oldest = at_drive.iter().min_by_key(|sent| sent.issued);
        let until = match (oldest, self.time_limit) {
            (Some(sent), Some(limit)) => sent.issued + limit,
            _ => Instant::NEVER,
        };
        match self.edge.next_completion(until) {
            Ok(Some(completion)) => Ok(completion),
            Ok(None) => {
                let what =
                    oldest.map_or_else(|| "a command".to_owned(), |sent| describe(sent.extent));
                let limit = self.time_limit.unwrap_or_default();
                tracing::warn!("the drive has not answered {what} within {limit}");
                self.reopen(|why| SubjectError::Hangs { what, limit, why })
            }
            Err(Lost { why }) => {
                tracing::warn!("{why}");
                self.reopen(|still| SubjectError::Gone {
                    why: if still == why { still } else { format!("{why}; {still}") },
                })
            }
        }
    }

    fn reopen(
        &mut self,
        otherwise: impl FnOnce(String) -> SubjectError,
    ) -> Result<EdgeCompletion, Trouble> {
        match self.edge.reopen() {
            Ok(()) => Err(Trouble::Interrupted),
            Err(why) => Err(Trouble::Fatal(otherwise(why))),
        }
    }

    fn go_before_others(&mut self) {
        if !self.edge.is_real() {
            return;
        }
        expect_precise_wakes();
        match (self.priority != EnginePriority::Normal).then(run_first_in_first_out) {
            Some(Err(error)) if self.priority == EnginePriority::Realtime => {
                tracing::warn!(%error, "this thread runs as any other; grant CAP_SYS_NICE or a \
                    limit on real-time priorities (ulimit -r 1)");
            }
            Some(Err(error)) => {
                tracing::info!(%error, "this thread runs as any other, so that times scatter more \
                    while the machine is busy")
            }
            Some(Ok(())) | None => {}
        }
    }
}

fn describe(extent: Extent) -> String {
    format!("a command for {} sectors at {}", extent.len.get(), extent.start.get())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use headtime_probe::{ConcurrentReads, Lane, Measurement, Rewrite};

    use super::*;
    use crate::characterize::{Identity, SubjectOptions};
    use crate::locator::Locator;

    const SECTORS: u64 = 4_096;

    /// A file whose bytes are known.
    fn file() -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a place for files");
        file.write_all(&content()).expect("room for 2 MiB");
        file
    }

    fn content() -> Vec<u8> {
        (0..SECTORS * 512).map(|place| (place * 31 / 7) as u8).collect()
    }

    fn open(path: &Path, allow_writes: bool) -> ProbedDrive {
        let options = SubjectOptions {
            allow_writes,
            priority: EnginePriority::Normal,
            ..SubjectOptions::default()
        };
        ProbedDrive::open(&Locator::Path(path.to_owned()), &options)
            .expect("a file of whole sectors")
    }

    fn run(subject: &mut ProbedDrive, ask: &Measurement) -> (Vec<TimedCommand>, RunCounts) {
        let mut counts = RunCounts::default();
        let batch = CommandBatch::new(ask);
        match subject.run(batch, &mut counts) {
            Ok(answers) => (answers, counts),
            Err(Trouble::Fatal(error)) => panic!("{error}"),
            Err(Trouble::Interrupted) => panic!("nothing was interrupted"),
        }
    }

    #[test]
    fn a_rewrite_reads_goes_elsewhere_and_leaves_every_byte_as_it_was() {
        let file = file();
        let mut subject = open(file.path(), true);
        for (first, len) in [(0, 1), (100, 8), (SECTORS - 300, 300)] {
            let (extent, via) = (Extent::from_numbers(first, len), Extent::from_numbers(7, 1));
            let ask = Measurement::Rewrite(Rewrite { extent, via: Some(via), fua: first == 100 });
            let (answers, counts) = run(&mut subject, &ask);
            assert_eq!(
                answers.iter().map(|answer| answer.extent).collect::<Vec<_>>(),
                [extent, via, extent]
            );
            assert!(
                answers.iter().all(TimedCommand::succeeded) && counts.commands == 3,
                "{answers:?}"
            );
            assert!(
                answers.windows(2).all(|pair| pair[0].completed <= pair[1].issued),
                "{answers:?}"
            );
        }
        assert!(std::fs::read(file.path()).expect("readable") == content());
    }

    #[test]
    fn lanes_are_read_beside_each_other_each_answer_once() {
        let file = file();
        let mut subject = open(file.path(), false);
        let extents = |from: u64, len: u64| {
            (0..20).map(|number| Extent::from_numbers(from + number * len, len)).collect::<Vec<_>>()
        };
        let lanes = vec![
            Lane { extents: extents(0, 1), outstanding: 4 },
            Lane { extents: extents(1_000, 64), outstanding: 2 },
        ];
        let (answers, _) = run(
            &mut subject,
            &Measurement::Concurrent(ConcurrentReads { lanes, time_limit: Nanos::from_secs(60) }),
        );
        assert!(answers.iter().all(TimedCommand::succeeded));
        assert!(answers.windows(2).all(|pair| pair[0].completed <= pair[1].completed));
        let first: std::collections::BTreeSet<u64> = answers
            .iter()
            .map(|answer| answer.extent.start.get())
            .filter(|lba| *lba < 1_000)
            .collect();
        assert_eq!(first.into_iter().collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_that_was_cut_off_is_a_drive_that_is_gone_and_keeps_what_the_probe_knows() {
        let file = file();
        let mut subject = open(file.path(), false);
        file.as_file().set_len(0).expect("writable");
        let mut probe = Probe::new(subject.settings(1));
        let error = subject
            .characterize(&mut probe, &mut |_, _| ControlFlow::Continue(()))
            .expect_err("nothing is left to read");
        assert!(matches!(&error, SubjectError::Gone { why } if why.contains("is gone")), "{error}");
        assert!(!probe.save("a").is_empty());
    }

    #[test]
    fn a_file_is_named_by_its_path() {
        let file = file();
        let subject = open(file.path(), false);
        let Identity { serial, capacity, .. } = subject.identity();
        assert_eq!((serial.as_deref(), capacity.get()), (file.path().to_str(), SECTORS));
        assert!(subject.notices()[0].contains("is a file") && subject.is_real());
    }
}
