//! A host that keeps a number of commands outstanding, for tests of devices.
#![allow(dead_code)] // Each test file uses its part.

use std::collections::BTreeMap;

use headtime_sched::{Command, CommandId, Op};
use headtime_sim::{Device, DriveCompletion};
use headtime_units::{Extent, Instant, Nanos};
use smallvec::SmallVec;

pub(crate) fn command(id: u64, op: Op, start: u64, len: u64) -> Command {
    Command {
        id: CommandId(id),
        op,
        extent: Extent::from_numbers(start, len),
        fua: false,
        background: None,
        requests: SmallVec::new(),
    }
}

/// A completed command.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub command: Command,
    pub sent: Instant,
    pub completion: DriveCompletion,
}

impl Served {
    pub(crate) fn service(&self) -> Nanos {
        self.completion.finished.saturating_since(self.sent)
    }
}

/// A stream of commands with a fixed number outstanding; the next command follows each completion
/// after `think`.
pub(crate) struct Stream<'a> {
    pub depth: usize,
    pub think: Nanos,
    pub next: Box<dyn FnMut(u64) -> Command + 'a>,
}

pub(crate) fn stream<'a>(depth: usize, next: impl FnMut(u64) -> Command + 'a) -> Stream<'a> {
    Stream { depth, think: Nanos::ZERO, next: Box::new(next) }
}

/// Serves streams concurrently until `count` commands have completed in total, then lets the rest
/// complete. Returns the commands by stream in completion order.
pub(crate) fn serve(
    device: &mut impl Device,
    from: Instant,
    mut streams: Vec<Stream<'_>>,
    count: usize,
) -> Vec<Vec<Served>> {
    let mut served: Vec<Vec<Served>> = streams.iter().map(|_| Vec::new()).collect();
    let mut sent: BTreeMap<CommandId, (usize, Instant, Command)> = BTreeMap::new();
    let mut due: BTreeMap<(Instant, u64), usize> = BTreeMap::new();
    let mut ids = 0;
    for (number, stream) in streams.iter().enumerate() {
        for _ in 0..stream.depth {
            due.insert((from, ids), number);
            ids += 1;
        }
    }
    let (mut submitted, mut reports) = (0, Vec::new());
    loop {
        let send_at = due.first_key_value().map(|(key, _)| key.0).filter(|_| submitted < count);
        let Some(now) = device.next_event().into_iter().chain(send_at).min() else { break };
        device.advance(now, &mut reports);
        for completion in reports.drain(..) {
            let (number, sent, command) =
                sent.remove(&completion.command).expect("each command is reported once");
            due.insert((completion.finished + streams[number].think, ids), number);
            ids += 1;
            served[number].push(Served { command, sent, completion });
        }
        while let Some(entry) =
            due.first_entry().filter(|entry| entry.key().0 <= now && submitted < count)
        {
            let number = entry.remove();
            let mut command = (streams[number].next)(submitted as u64);
            command.id = CommandId(submitted as u64);
            device.submit(now, &command);
            sent.insert(command.id, (number, now, command));
            submitted += 1;
        }
        if sent.is_empty() && submitted >= count {
            break;
        }
    }
    served
}

/// Commands per second from the first submission to the last completion.
pub(crate) fn per_second(served: &[Served]) -> f64 {
    let first = served.iter().map(|served| served.sent).min().expect("something was served");
    let last =
        served.iter().map(|served| served.completion.finished).max().expect("something was served");
    served.len() as f64 / last.saturating_since(first).as_secs_f64()
}

pub(crate) fn mean_ms(served: &[Served]) -> f64 {
    served.iter().map(|served| served.service().as_ms_f64()).sum::<f64>() / served.len() as f64
}
