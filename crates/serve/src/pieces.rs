//! One client request as the scheduler sees it: pieces that are submitted separately and joined
//! again. No I/O.
//!
//! A request of 32 MiB occupies the head for more than 100 ms, during which no other volume can
//! meet a deadline. Between pieces of 1 MiB the scheduler may send other requests. Example: a read
//! of 2.5 MiB at 10 MiB becomes reads of [10, 11), [11, 12) and [12, 12.5) MiB. Its reply is sent
//! when all three are complete, with the error of the first piece that failed. The order of pieces
//! is unspecified: a reader concurrent with a split write may see part of it, as the protocol
//! allows.
//!
//! All pieces of a read or write are submitted at once, because the connection's memory bounds
//! their bytes. WRITE_ZEROES and CACHE carry no bytes and may cover 4 GiB, so at most [`WINDOW`] of
//! their pieces are at the scheduler at once. TRIM is not split, because it moves no head.
//!
//! Pieces also end where extents of the volume do, also those of TRIM.
//!
//! On an array that schedules each member by itself, pieces also end where stripes do, so that each
//! lies on one member.

use std::time::Duration;

use bytes::Bytes;
use headtime_io::{Io, IoError};
use headtime_nbd::{Errno, NbdCommand};
use headtime_sched::{Op, RequestId};
use headtime_units::{Extent, Instant, SectorSize, Sectors};

use crate::stats::Kind;
use crate::stats::Timing;
use crate::volumes::Pass;

/// The maximum number of pieces at the scheduler for a request without payload. A guess: enough to
/// keep a drive's queue of two full.
pub(crate) const WINDOW: usize = 4;

/// The answer to a completed request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JobResult {
    /// Success without data.
    Done,
    /// The data of a read, in order.
    Data(Vec<Bytes>),
    /// Failure.
    Failed(Errno, String),
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct Job {
    /// Dropped when the request is complete ([`crate::volumes`]).
    pub(crate) pass: Pass,
    /// The time at which the request arrived.
    pub(crate) started: Instant,
    last_completion: Instant,
    op: Op,
    fua: bool,
    /// The data goes to the client.
    keeps_data: bool,
    /// The first sector of the request in the volume, and the number of its sectors.
    start: Sectors,
    len: Sectors,
    sector: SectorSize,
    piece: Sectors,
    /// Pieces end at the drive's multiples of `piece`.
    aligned: bool,
    /// The data of pieces that are not handed out yet.
    payload: Bytes,
    window: usize,
    /// The number of pieces handed out, and the index of the next one.
    handed_out: usize,
    /// The sectors of these pieces.
    covered: Sectors,
    /// The data of each piece, as it arrives.
    read: Vec<Bytes>,
    /// The pieces at the scheduler, with their request ids as soon as they are known.
    at_scheduler: Vec<(usize, Option<RequestId>)>,
    /// The error of the lowest failed piece.
    error: Option<(usize, Errno, String)>,
    /// No further piece is handed out.
    stopped: bool,
    /// The deadline of its pieces at the drive, their own or by priority.
    timing: Timing,
}

impl Job {
    /// Splits `command`, which `pass` admitted to its volume, into pieces of `piece` sectors, and
    /// at the ends of stripes of `divide_at`. `None` for BLOCK_STATUS, which needs no drive.
    pub(crate) fn new(
        command: NbdCommand,
        pass: Pass,
        piece: Sectors,
        divide_at: Option<Sectors>,
        started: Instant,
    ) -> Option<Self> {
        let (offset, length) = command.range();
        let sector = pass.volume.sector;
        let sectors = |bytes: u64| {
            sector.sectors_of(bytes).expect("the minimum block size of an export is its sector")
        };
        let (start, len) = (sectors(offset), sectors(length));
        let (op, fua, payload, keeps_data, window) = match command {
            NbdCommand::Read { .. } => (Op::Read, false, Bytes::new(), true, usize::MAX),
            NbdCommand::Write { payload, fua, .. } => (Op::Write, fua, payload, false, usize::MAX),
            NbdCommand::Flush => (Op::Flush, false, Bytes::new(), false, 1),
            NbdCommand::Trim { fua, .. } => (Op::Discard, fua, Bytes::new(), false, 1),
            NbdCommand::WriteZeroes { fua, .. } => (Op::Zero, fua, Bytes::new(), false, WINDOW),
            NbdCommand::Cache { .. } => (Op::Read, false, Bytes::new(), false, WINDOW),
            NbdCommand::BlockStatus { .. } => return None,
        };
        let piece =
            if matches!(op, Op::Flush | Op::Discard) { Sectors::new(u64::MAX) } else { piece };
        let (piece, aligned) = match divide_at {
            Some(stripe) if op.moves_head() => (longest_in_both(stripe, piece), true),
            _ => (piece, false),
        };
        Some(Self {
            pass,
            started,
            last_completion: started,
            op,
            fua,
            keeps_data,
            start,
            len,
            sector,
            piece,
            aligned,
            payload,
            window,
            handed_out: 0,
            covered: Sectors::ZERO,
            read: Vec::new(),
            at_scheduler: Vec::new(),
            error: None,
            stopped: false,
            timing: Timing::None,
        })
    }

    /// The kind of request in the statistics.
    pub(crate) fn kind(&self) -> Kind {
        match self.op {
            Op::Read if self.keeps_data => Kind::Read,
            Op::Write => Kind::Write,
            _ => Kind::Other,
        }
    }

    /// Returns true for a CACHE request, whose data is not returned.
    pub(crate) fn caches(&self) -> bool {
        self.op == Op::Read && !self.keeps_data
    }

    /// Returns whether a piece may go to the scheduler now.
    pub(crate) fn has_piece(&self) -> bool {
        !self.stopped && !self.all_handed_out() && self.at_scheduler.len() < self.window
    }

    /// The next piece with its index, which then counts as at the scheduler.
    pub(crate) fn next_piece(&mut self) -> Option<(usize, Io)> {
        if !self.has_piece() {
            return None;
        }
        let index = self.handed_out;
        self.handed_out += 1;
        self.at_scheduler.push((index, None));
        let before = self.covered;
        let extent =
            if self.op == Op::Flush { Extent::default() } else { self.extent_after(before) };
        self.covered += extent.len;
        let data = if self.op == Op::Write {
            self.payload.split_to(self.sector.bytes_of(extent.len) as usize)
        } else {
            Bytes::new()
        };
        if self.keeps_data {
            self.read.push(Bytes::new());
        }
        Some((index, Io { fua: self.fua, data, ..Io::new(self.op, extent) }))
    }

    /// Records the scheduler's id of piece `index`, unless the piece is complete already.
    pub(crate) fn submitted(&mut self, index: usize, id: RequestId) {
        if let Some(entry) = self.at_scheduler.iter_mut().find(|entry| entry.0 == index) {
            entry.1 = Some(id);
        }
    }

    /// Completes piece `index`. After an error no further piece is handed out.
    pub(crate) fn completed(
        &mut self,
        index: usize,
        result: Result<Bytes, IoError>,
        timing: Timing,
        at: Instant,
    ) {
        self.timing = self.timing.max(timing);
        self.last_completion = self.last_completion.max(at);
        self.at_scheduler.retain(|entry| entry.0 != index);
        match result {
            Ok(data) if self.keeps_data => self.read[index] = data,
            Ok(_) => {}
            // TRIM is a hint: a drive without support for it ignores it.
            Err(error) if self.op == Op::Discard && is_unsupported(error.errno()) => {}
            Err(error) => {
                self.stopped = true;
                if self.error.as_ref().is_none_or(|(lowest, ..)| index < *lowest) {
                    self.error = Some((index, nbd_errno(error.errno()), error.to_string()));
                }
            }
        }
    }

    /// Stops handing out pieces; returns the ids of those at the scheduler, for cancellation.
    pub(crate) fn stop(&mut self) -> impl Iterator<Item = RequestId> + '_ {
        self.stopped = true;
        self.at_scheduler.iter().filter_map(|entry| entry.1)
    }

    /// Returns whether no piece is at the scheduler and none will be.
    pub(crate) fn is_complete(&self) -> bool {
        self.at_scheduler.is_empty() && (self.stopped || self.all_handed_out())
    }

    /// The length of the request in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.sector.bytes_of(self.len)
    }

    /// The bytes of the reply's data.
    pub(crate) fn reply_bytes(&self) -> u64 {
        if self.keeps_data { self.bytes() } else { 0 }
    }

    /// The time from the request's arrival to its last completion.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_nanos(self.last_completion.saturating_since(self.started).as_ns())
    }

    /// The outcome of its deadline, if its pieces had one.
    pub(crate) fn timing(&self) -> Timing {
        self.timing
    }

    /// The answer of a completed request.
    pub(crate) fn into_result(self) -> JobResult {
        match self.error {
            Some((_, errno, text)) => JobResult::Failed(errno, text),
            None if self.keeps_data => JobResult::Data(self.read),
            None => JobResult::Done,
        }
    }

    fn all_handed_out(&self) -> bool {
        self.handed_out > 0 && self.covered == self.len
    }

    /// The sectors of the piece after the first `covered` sectors.
    fn extent_after(&self, covered: Sectors) -> Extent {
        let rest = self.pass.extents.from_offset(self.start + covered);
        let begun = if self.aligned { rest.start.get() % self.piece.get() } else { 0 };
        let piece = Sectors::new(self.piece.get() - begun);
        Extent::new(rest.start, rest.len.min(piece).min(self.len - covered))
    }
}

/// The longest piece of no more than `piece` sectors whose multiples include all of `stripe`: the
/// stripe itself if it is not longer, else their greatest common divisor.
fn longest_in_both(stripe: Sectors, piece: Sectors) -> Sectors {
    let (mut larger, mut divisor) = (stripe.get(), piece.get().min(stripe.get()));
    while larger % divisor != 0 {
        (larger, divisor) = (divisor, larger % divisor);
    }
    Sectors::new(divisor)
}

/// The protocol's error for a system error.
pub(crate) fn nbd_errno(errno: i32) -> Errno {
    use rustix::io::Errno as Os;
    match Os::from_raw_os_error(errno) {
        Os::NOSPC | Os::DQUOT | Os::FBIG => Errno::NoSpace,
        Os::PERM | Os::ROFS | Os::ACCESS => Errno::Perm,
        Os::NOTSUP | Os::NOSYS => Errno::NotSupported,
        Os::SHUTDOWN | Os::CANCELED => Errno::Shutdown,
        _ => Errno::Io,
    }
}

fn is_unsupported(errno: i32) -> bool {
    nbd_errno(errno) == Errno::NotSupported
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::{Extents, LiveVolume, VolumeClass, VolumeSettings};
    use headtime_sched::VolumeId;

    fn job_of(command: NbdCommand, piece: u64) -> Job {
        job_on(command, piece, None)
    }

    fn job_on(command: NbdCommand, piece: u64, divide_at: Option<Sectors>) -> Job {
        job_within(Extent::from_numbers(10_000, 1 << 40).into(), command, piece, divide_at)
    }

    fn job_within(
        extents: Extents,
        command: NbdCommand,
        piece: u64,
        divide_at: Option<Sectors>,
    ) -> Job {
        let volume = LiveVolume::of(
            VolumeId(1),
            "a".to_owned(),
            extents,
            VolumeSettings::default(),
            SectorSize::B512,
        );
        let pass = volume.begin(VolumeClass::Ordinary, &command).expect("it lies on the volume");
        Job::new(command, pass, Sectors::new(piece), divide_at, Instant::ORIGIN)
            .expect("a request for the drive")
    }

    fn job(command: NbdCommand) -> Job {
        job_of(command, 4)
    }

    impl Job {
        fn complete(&mut self, index: usize, result: Result<Bytes, IoError>) {
            self.completed(index, result, Timing::None, Instant::ORIGIN);
        }
    }

    fn pieces(job: &mut Job) -> Vec<(usize, Io)> {
        std::iter::from_fn(|| job.next_piece()).collect()
    }

    fn error(errno: i32) -> IoError {
        IoError::Os { op: Op::Read, extent: Extent::from_numbers(0, 1), errno }
    }

    #[test]
    fn a_long_read_is_split_and_joined_in_order() {
        let mut job = job(NbdCommand::Read { offset: 1024, length: 10 * 512, unfragmented: false });
        let extents: Vec<Extent> = pieces(&mut job).iter().map(|(_, io)| io.extent).collect();
        assert_eq!(
            extents,
            [
                Extent::from_numbers(10_002, 4),
                Extent::from_numbers(10_006, 4),
                Extent::from_numbers(10_010, 2)
            ]
        );
        for index in [2, 0, 1] {
            assert!(!job.is_complete());
            job.complete(index, Ok(Bytes::from(vec![index as u8; 2])));
        }
        assert!(job.is_complete());
        assert_eq!(
            job.into_result(),
            JobResult::Data(vec![
                Bytes::from(vec![0; 2]),
                Bytes::from(vec![1; 2]),
                Bytes::from(vec![2; 2])
            ])
        );
    }

    #[test]
    fn pieces_end_where_stripes_do() {
        let read = |offset: u64, sectors: u64, piece, stripe| {
            let length = sectors as u32 * 512;
            let command = NbdCommand::Read { offset: offset * 512, length, unfragmented: false };
            let mut job = job_on(command, piece, Some(Sectors::new(stripe)));
            let pieces = pieces(&mut job);
            assert!(job.all_handed_out());
            pieces.iter().map(|(_, io)| (io.extent.start.get(), io.extent.len.get())).collect()
        };
        let pieces: Vec<(u64, u64)> = read(5, 12, 2048, 6);
        assert_eq!(pieces, [(10_005, 3), (10_008, 6), (10_014, 3)]);
        // Stripes longer than a piece: 4 divides 12, and of 12 and 8 it is the common divisor.
        let pieces: Vec<(u64, u64)> = read(2, 8, 4, 12);
        assert_eq!(pieces, [(10_002, 2), (10_004, 4), (10_008, 2)]);
        let pieces: Vec<(u64, u64)> = read(8, 5, 8, 12);
        assert_eq!(pieces, [(10_008, 4), (10_012, 1)]);
        let pieces: Vec<(u64, u64)> = read(8, 4, 2048, 12);
        assert_eq!(pieces, [(10_008, 4)]);
    }

    #[test]
    fn pieces_end_where_extents_do() {
        let extents = || {
            let extents = [(1000, 10), (50, 3), (2000, 100)];
            Extents::new(extents.map(|(start, len)| Extent::from_numbers(start, len)).to_vec())
        };
        let payload: Vec<u8> = (0..20 * 512_u32).map(|index| (index / 512) as u8).collect();
        let commands = [
            NbdCommand::Read { offset: 4096, length: 20 * 512, unfragmented: false },
            NbdCommand::Write { offset: 4096, payload: payload.clone().into(), fua: true },
            NbdCommand::Trim { offset: 4096, length: 20 * 512, fua: false },
        ];
        let expected: [&[(u64, u64)]; 3] = [
            &[(1008, 2), (50, 3), (2000, 8), (2008, 7)],
            &[(1008, 2), (50, 3), (2000, 8), (2008, 7)],
            &[(1008, 2), (50, 3), (2000, 15)],
        ];
        for (command, expected) in commands.into_iter().zip(expected) {
            let mut job = job_within(extents(), command, 8, None);
            let (mut found, mut data) = (Vec::new(), Vec::new());
            while let Some((index, io)) = job.next_piece() {
                found.push((io.extent.start.get(), io.extent.len.get()));
                data.extend_from_slice(&io.data);
                job.complete(index, Ok(Bytes::from(vec![index as u8])));
            }
            assert_eq!(found, expected);
            assert!(job.is_complete() && (data.is_empty() || data == payload));
            if let JobResult::Data(read) = job.into_result() {
                assert_eq!(read.concat(), [0, 1, 2, 3], "the data is joined in order");
            }
        }
        // Stripes of 8 sectors on the drive.
        let read = NbdCommand::Read { offset: 4096, length: 20 * 512, unfragmented: false };
        let mut job = job_within(extents(), read, 2048, Some(Sectors::new(8)));
        let pieces = pieces(&mut job).into_iter().map(|(_, io)| io.extent.start.get());
        assert_eq!(pieces.collect::<Vec<_>>(), [1008, 50, 2000, 2008]);
    }

    #[test]
    fn a_split_write_carries_each_byte_once_and_fua_everywhere() {
        let payload: Vec<u8> = (0..5 * 512_u32).map(|index| (index / 512) as u8).collect();
        let mut job =
            job(NbdCommand::Write { offset: 0, payload: payload.clone().into(), fua: true });
        let pieces = pieces(&mut job);
        assert!(pieces.iter().all(|(_, io)| io.fua && io.op == Op::Write));
        assert_eq!(
            pieces.iter().flat_map(|(_, io)| io.data.to_vec()).collect::<Vec<u8>>(),
            payload
        );
    }

    #[test]
    fn the_lowest_error_is_the_answer_and_nothing_more_is_sent_after_one() {
        let mut job = job(NbdCommand::WriteZeroes {
            offset: 0,
            length: 40 * 512,
            fua: false,
            no_hole: false,
            fast: false,
        });
        assert_eq!(pieces(&mut job).len(), WINDOW);
        job.complete(3, Err(error(5)));
        job.complete(1, Err(error(28)));
        assert!(job.next_piece().is_none());
        job.complete(0, Ok(Bytes::new()));
        assert!(!job.is_complete());
        job.complete(2, Ok(Bytes::new()));
        assert!(job.is_complete());
        assert!(matches!(job.into_result(), JobResult::Failed(Errno::NoSpace, text)
                if text.contains("no space")));
    }

    #[test]
    fn zeroing_four_gibibytes_keeps_a_window_at_the_scheduler_until_all_is_done() {
        let length = u32::MAX / 512 * 512;
        let command =
            NbdCommand::WriteZeroes { offset: 0, length, fua: false, no_hole: false, fast: false };
        let mut job = job_of(command, 2048 * 1024);
        let (mut done, mut sectors) = (0, 0);
        let mut at_scheduler: std::collections::VecDeque<(usize, Io)> = pieces(&mut job).into();
        while let Some((index, io)) = at_scheduler.pop_front() {
            assert!(at_scheduler.len() < WINDOW);
            sectors += io.extent.len.get();
            job.complete(index, Ok(Bytes::new()));
            done += 1;
            at_scheduler.extend(pieces(&mut job));
        }
        assert_eq!((done, sectors, job.is_complete()), (4, u64::from(length) / 512, true));
        assert_eq!(job.into_result(), JobResult::Done);
    }

    #[test]
    fn a_flush_has_no_sectors_and_a_trim_one_piece() {
        let mut flush = job(NbdCommand::Flush);
        let [(0, io)] = &pieces(&mut flush)[..] else { panic!("a flush is one piece") };
        assert!(io.op == Op::Flush && io.extent == Extent::default() && io.data.is_empty());
        let mut trim = job(NbdCommand::Trim { offset: 0, length: 1 << 30, fua: false });
        assert_eq!(pieces(&mut trim).len(), 1);
        trim.complete(0, Err(error(95)));
        assert_eq!(trim.into_result(), JobResult::Done);
    }

    #[test]
    fn a_cached_read_gives_nothing_to_the_client() {
        let mut cache = job(NbdCommand::Cache { offset: 0, length: 512 });
        assert_eq!(pieces(&mut cache)[0].1.op, Op::Read);
        cache.complete(0, Ok(Bytes::from_static(&[1; 512])));
        assert_eq!(cache.into_result(), JobResult::Done);
    }

    #[test]
    fn a_stopped_job_names_what_is_to_be_cancelled() {
        let mut job = job(NbdCommand::Read { offset: 0, length: 12 * 512, unfragmented: false });
        for (index, _) in [job.next_piece(), job.next_piece()].into_iter().flatten() {
            job.submitted(index, RequestId(index as u64 + 50));
        }
        job.complete(0, Ok(Bytes::new()));
        assert_eq!(job.stop().collect::<Vec<_>>(), [RequestId(51)]);
        assert!(!job.is_complete());
        job.complete(1, Err(IoError::Cancelled));
        assert!(job.is_complete());
    }

    #[test]
    fn errors_keep_their_meaning() {
        for (os, nbd) in [
            (28, Errno::NoSpace),
            (122, Errno::NoSpace),
            (5, Errno::Io),
            (30, Errno::Perm),
            (125, Errno::Shutdown),
            (121, Errno::Io),
        ] {
            assert_eq!(nbd_errno(os), nbd, "{os}");
        }
    }
}
