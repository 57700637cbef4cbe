//! The contents of the sectors, and the allowed results of each read.
//!
//! Every write, zero and discard makes a version of its sectors. The platters hold the version that
//! landed last; the drive's cache holds copies and unsaved versions; a read sees the versions at
//! its landing. The *allowed* versions follow from submission order alone: of the earlier requests
//! on a sector, the latest that succeeded, or a later one that failed or was cancelled at the
//! drive, which may have landed. After a discard every version is allowed.
//!
//! The drive must keep its own guarantees: a reported flush has moved everything to the platters
//! that only the cache held when the flush came; a reported forced write is on the platters.

use std::collections::{BTreeMap, BTreeSet};

use headtime_sched::{BackgroundRead, Command, CommandId, Op, Request, RequestId};
use headtime_units::{Extent, Instant, Lba};

use headtime_sim::{Landing, StorageLayer};

/// Versions on the platters and in the cache, and the history that determines the allowed ones.
#[derive(Default)]
pub(super) struct SectorContents {
    /// The versions of each sector with their times; sectors never written have none.
    platters: BTreeMap<Lba, Vec<(RequestId, Instant)>>,
    /// The contents of the cache.
    cache: BTreeMap<Lba, Cached>,
    /// Requests that changed each sector, in the order of submission.
    history: BTreeMap<Lba, Vec<RequestId>>,
    fates: BTreeMap<RequestId, (Op, WriteFate)>,
    /// The requests of each command at the drive.
    requests_at_drive: BTreeMap<CommandId, Vec<Request>>,
    /// The versions seen by each landed read.
    seen: BTreeMap<RequestId, BTreeMap<Lba, Option<RequestId>>>,
    /// The versions that only the cache held when a flush was sent.
    to_flush: BTreeMap<CommandId, Vec<(Lba, RequestId)>>,
    /// The sectors that each command at the drive reads for scans, and the requests known when it
    /// was sent.
    for_scans: BTreeMap<CommandId, (Extent, Known)>,
    /// The versions seen by each command that reads for scans.
    seen_for_scans: BTreeMap<CommandId, BTreeMap<Lba, Option<RequestId>>>,
}

/// The requests that change sectors, as known at some time.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The first request submitted later.
    before: RequestId,
    /// Those that were over.
    over: BTreeSet<RequestId>,
}

/// A sector in the drive's cache.
#[derive(Clone, Copy)]
struct Cached {
    version: Option<RequestId>,
    /// True if the platters lack it.
    unsaved: bool,
}

/// The outcome of a request that changes sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteFate {
    /// The drive has not completed it.
    Open,
    /// It landed. A forced write may still wait for its flush.
    Done,
    /// It may have landed.
    Doubtful,
    /// It never reached the drive.
    Removed,
}

impl SectorContents {
    pub(super) fn submitted(&mut self, request: &Request) {
        if request.op.changes_sectors() {
            self.fates.insert(request.id, (request.op, WriteFate::Open));
            for lba in sectors(request.extent) {
                self.history.entry(lba).or_default().push(request.id);
            }
        }
    }

    pub(super) fn dispatched(&mut self, command: CommandId, requests: Vec<Request>) {
        self.requests_at_drive.insert(command, requests);
    }

    /// A command is sent that reads `extent` for scans; `next` is as below.
    pub(super) fn sent_for_scans(&mut self, command: CommandId, extent: Extent, next: RequestId) {
        self.for_scans.insert(command, (extent, self.known(next)));
    }

    /// The requests known now; `next` is the next to be submitted.
    pub(super) fn known(&self, next: RequestId) -> Known {
        let over = self.fates.iter().filter(|(_, (_, fate))| *fate != WriteFate::Open);
        Known { before: next, over: over.map(|(id, _)| *id).collect() }
    }

    /// A flush is sent to the drive.
    pub(super) fn flush_sent(&mut self, command: CommandId) {
        let unsaved = self.cache.iter().filter(|(_, cached)| cached.unsaved);
        self.to_flush.insert(
            command,
            unsaved
                .filter_map(|(lba, cached)| cached.version.map(|version| (*lba, version)))
                .collect(),
        );
    }

    /// Checks the platters against the drive's report of a command at `finished`.
    pub(super) fn check_durable(
        &mut self,
        command: &Command,
        finished: Instant,
    ) -> Result<(), String> {
        let on_platters = |lba: &Lba, version: RequestId| {
            let held = self.platters.get(lba).into_iter().flatten();
            held.clone().any(|(held, since)| *held >= version && *since <= finished)
        };
        if command.op == Op::Flush {
            let unsaved = self.to_flush.remove(&command.id).unwrap_or_default();
            if let Some((lba, version)) =
                unsaved.iter().find(|(lba, version)| !on_platters(lba, *version))
            {
                return Err(format!(
                    "the drive reported flush {} although only its cache holds request {} on \
                        sector {lba}",
                    command.id.0, version.0
                ));
            }
        } else if command.fua {
            for request in self.requests_at_drive.get(&command.id).into_iter().flatten() {
                if let Some(lba) = sectors(request.extent).find(|lba| !on_platters(lba, request.id))
                {
                    return Err(format!(
                        "the drive reported forced write {} although sector {lba} is not on its \
                            platters",
                        command.id.0
                    ));
                }
            }
        }
        Ok(())
    }

    /// Records the outcome of a request.
    pub(super) fn settled(&mut self, id: RequestId, fate: WriteFate) {
        if let Some((_, open)) = self.fates.get_mut(&id) {
            *open = fate;
        }
    }

    pub(super) fn landed(&mut self, landing: &Landing) -> Result<(), String> {
        let Some(command) = landing.command else { return self.moved(landing) };
        if let Some((extent, _)) = self.for_scans.get(&command)
            && landing.op == Op::Read
            && let Some(extent) = extent.intersection(landing.extent)
        {
            for lba in sectors(extent) {
                let version = self.read_from(landing.layer, lba)?;
                self.seen_for_scans.entry(command).or_default().insert(lba, version);
            }
        }
        for request in self.requests_at_drive.get(&command).cloned().unwrap_or_default() {
            let Some(extent) = request.extent.intersection(landing.extent) else { continue };
            for lba in sectors(extent) {
                match (landing.op, landing.layer) {
                    (Op::Read, layer) => {
                        let version = self.read_from(layer, lba)?;
                        self.seen.entry(request.id).or_default().insert(lba, version);
                    }
                    (_, StorageLayer::Media) => {
                        self.platters.entry(lba).or_default().push((request.id, landing.at))
                    }
                    (_, StorageLayer::Cache) => {
                        self.cache.insert(lba, Cached { version: Some(request.id), unsaved: true });
                    }
                }
            }
        }
        Ok(())
    }

    /// The drive moved sectors by itself, into its cache or to the platters.
    fn moved(&mut self, landing: &Landing) -> Result<(), String> {
        for lba in sectors(landing.extent) {
            if landing.op == Op::Read {
                let version = self.on_platters(lba);
                if self
                    .cache
                    .insert(lba, Cached { version, unsaved: false })
                    .is_some_and(|before| before.unsaved)
                {
                    return Err(format!(
                        "sector {lba} was read over data that only the cache held"
                    ));
                }
            } else {
                let cached = self.cache.get_mut(&lba).ok_or_else(|| {
                    format!("sector {lba} was saved from the cache, which never held it")
                })?;
                cached.unsaved = false;
                self.platters
                    .entry(lba)
                    .or_default()
                    .extend(cached.version.map(|version| (version, landing.at)));
            }
        }
        Ok(())
    }

    fn read_from(&self, layer: StorageLayer, lba: Lba) -> Result<Option<RequestId>, String> {
        match layer {
            StorageLayer::Media => Ok(self.on_platters(lba)),
            StorageLayer::Cache => {
                self.cache.get(&lba).map(|cached| cached.version).ok_or_else(|| {
                    format!("sector {lba} was read from the cache, which never held it")
                })
            }
        }
    }

    fn on_platters(&self, lba: Lba) -> Option<RequestId> {
        self.platters.get(&lba).and_then(|versions| versions.last()).map(|(version, _)| *version)
    }

    /// Checks the versions seen by a successful read.
    pub(super) fn check_read(&mut self, read: &Request) -> Result<(), String> {
        let seen = self
            .seen
            .remove(&read.id)
            .ok_or_else(|| format!("read {} succeeded but never came to the media", read.id.0))?;
        for lba in sectors(read.extent) {
            let seen = *seen.get(&lba).ok_or_else(|| {
                format!("read {} succeeded but sector {lba} never came by", read.id.0)
            })?;
            self.check(lba, seen, read.id)
                .map_err(|error| format!("read {}: {error}", read.id.0))?;
        }
        Ok(())
    }

    /// Checks the versions delivered to a scan: those of the time when their command was sent, and
    /// of the scan's point in time if it has one.
    pub(super) fn check_delivery(
        &self,
        read: &BackgroundRead,
        point_in_time: Option<&Known>,
    ) -> Result<(), String> {
        let (_, sent) = &self.for_scans[&read.command];
        let seen = self.seen_for_scans.get(&read.command);
        for lba in sectors(read.extent) {
            let version = *seen
                .and_then(|seen| seen.get(&lba))
                .ok_or_else(|| format!("{read:?}: sector {lba} never came by"))?;
            for known in [Some(sent), point_in_time].into_iter().flatten() {
                self.check_known(lba, version, known)
                    .map_err(|error| format!("{read:?}: {error}"))?;
            }
        }
        Ok(())
    }

    /// Checks that a read of `lba` may see `version` if it reads the contents of the time of
    /// `known`: those of a request that was over then, or of one submitted before that was not.
    fn check_known(
        &self,
        lba: Lba,
        version: Option<RequestId>,
        known: &Known,
    ) -> Result<(), String> {
        let earlier = self.history.get(&lba).into_iter().flatten().rev();
        for id in earlier.filter(|id| **id < known.before) {
            match self.fates[id] {
                _ if version == Some(*id) => return Ok(()),
                (Op::Discard, fate) if fate != WriteFate::Removed => return Ok(()),
                (_, WriteFate::Done) if known.over.contains(id) => {
                    return Err(format!(
                        "sector {lba} shows {}, should show request {} or a later one before {}",
                        name(version),
                        id.0,
                        known.before.0
                    ));
                }
                _ => {}
            }
        }
        match version {
            None => Ok(()),
            Some(_) => Err(format!(
                "sector {lba} shows {}, should show one before {}",
                name(version),
                known.before.0
            )),
        }
    }

    /// Checks the final platters against all requests.
    pub(super) fn check_end(&self) -> Result<(), String> {
        let end = RequestId(u64::MAX);
        if let Some((lba, _)) = self.cache.iter().find(|(_, cached)| cached.unsaved) {
            return Err(format!("in the end sector {lba} is in the cache alone"));
        }
        self.history.keys().try_for_each(|lba| {
            self.check(*lba, self.on_platters(*lba), end)
                .map_err(|error| format!("in the end {error}"))
        })
    }

    /// Checks that a request submitted just before `before` may see `version` of `lba`.
    fn check(&self, lba: Lba, version: Option<RequestId>, before: RequestId) -> Result<(), String> {
        let earlier = self.history.get(&lba).into_iter().flatten().rev().filter(|id| **id < before);
        for id in earlier {
            match self.fates[id] {
                (_, WriteFate::Removed) => {}
                (_, WriteFate::Open) => {
                    return Err(format!(
                        "sector {lba} was passed by a later request: {} has not finished",
                        id.0
                    ));
                }
                (Op::Discard, _) => return Ok(()),
                _ if version == Some(*id) => return Ok(()),
                (_, WriteFate::Done) => {
                    return Err(format!(
                        "sector {lba} shows {}, should show request {}",
                        name(version),
                        id.0
                    ));
                }
                (_, WriteFate::Doubtful) => {}
            }
        }
        if version.is_none() {
            Ok(())
        } else {
            Err(format!("sector {lba} shows {}, should never have been written", name(version)))
        }
    }
}

fn sectors(extent: Extent) -> impl Iterator<Item = Lba> {
    (extent.start.get()..extent.end().get()).map(Lba::new)
}

fn name(version: Option<RequestId>) -> String {
    version.map_or_else(|| "nothing ever written".to_owned(), |id| format!("request {}", id.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_sched::{ClassId, StreamId, VolumeId};
    use headtime_units::Instant;

    fn request(id: u64, op: Op, start: u64, len: u64) -> Request {
        let extent = Extent::from_numbers(start, len);
        Request {
            id: RequestId(id),
            volume: VolumeId(0),
            class: ClassId(0),
            stream: StreamId(0),
            op,
            extent,
            fua: false,
            deadline: None,
        }
    }

    /// Lands requests in the given order; they were submitted in the order of their numbers.
    fn contents(submitted: &[Request], landing: &[Request]) -> SectorContents {
        let mut contents = SectorContents::default();
        submitted.iter().for_each(|request| contents.submitted(request));
        for (command, request) in (0..).map(CommandId).zip(landing) {
            contents.dispatched(command, vec![*request]);
            let landing = Landing {
                command: Some(command),
                op: request.op,
                extent: request.extent,
                at: Instant::ORIGIN,
                layer: StorageLayer::Media,
            };
            contents.landed(&landing).expect("the platters take anything");
            contents.settled(request.id, WriteFate::Done);
        }
        contents
    }

    #[test]
    fn a_read_that_sees_the_write_before_it_is_right_and_one_that_misses_it_is_not() {
        let (write, read) = (request(1, Op::Write, 0, 4), request(2, Op::Read, 3, 2));
        assert_eq!(contents(&[write, read], &[write, read]).check_read(&read), Ok(()));
        let passed = contents(&[write, read], &[read, write]).check_read(&read);
        assert_eq!(
            passed,
            Err("read 2: sector 3 shows nothing ever written, should show request 1".to_owned())
        );
    }

    #[test]
    fn a_read_must_not_see_a_write_submitted_after_it() {
        let (read, write) = (request(1, Op::Read, 0, 1), request(2, Op::Write, 0, 1));
        let seen = contents(&[read, write], &[write, read]).check_read(&read);
        assert_eq!(
            seen,
            Err("read 1: sector 0 shows request 2, should never have been written".to_owned())
        );
    }

    #[test]
    fn doubtful_writes_may_show_or_not_and_discards_leave_anything() {
        let (old, doubtful, read) =
            (request(1, Op::Write, 0, 1), request(2, Op::Write, 0, 1), request(3, Op::Read, 0, 1));
        for landing in [&[old, read][..], &[old, doubtful, read][..]] {
            let mut contents = contents(&[old, doubtful, read], landing);
            contents.settled(doubtful.id, WriteFate::Doubtful);
            assert_eq!(contents.check_read(&read), Ok(()));
        }
        let discard = request(2, Op::Discard, 0, 1);
        let mut discarded = contents(&[old, discard, read], &[old, read]);
        discarded.settled(discard.id, WriteFate::Done);
        assert_eq!(discarded.check_read(&read), Ok(()));
    }

    #[test]
    fn a_stale_copy_in_the_cache_shows() {
        let (write, read) = (request(1, Op::Write, 0, 1), request(2, Op::Read, 0, 1));
        let mut contents = contents(&[write, read], &[]);
        let landing = |command: Option<u64>, op, layer| Landing {
            command: command.map(CommandId),
            op,
            extent: write.extent,
            at: Instant::ORIGIN,
            layer,
        };
        contents.dispatched(CommandId(0), vec![write]);
        contents.dispatched(CommandId(1), vec![read]);
        for landing in [
            landing(None, Op::Read, StorageLayer::Cache),
            landing(Some(0), Op::Write, StorageLayer::Media),
            landing(Some(1), Op::Read, StorageLayer::Cache),
        ] {
            assert_eq!(contents.landed(&landing), Ok(()));
        }
        contents.settled(write.id, WriteFate::Done);
        assert_eq!(
            contents.check_read(&read),
            Err("read 2: sector 0 shows nothing ever written, should show request 1".to_owned())
        );
    }

    #[test]
    fn a_flush_that_was_reported_before_the_data_were_saved_shows() {
        let write = request(1, Op::Write, 0, 1);
        for (saved_ns, right) in [(500, true), (1_500, false)] {
            let mut contents = contents(&[write], &[]);
            contents.dispatched(CommandId(0), vec![write]);
            let taken = Landing {
                command: Some(CommandId(0)),
                op: Op::Write,
                extent: write.extent,
                at: Instant::ORIGIN,
                layer: StorageLayer::Cache,
            };
            contents.landed(&taken).expect("a cache takes writes");
            contents.flush_sent(CommandId(1));
            let saved = Landing {
                command: None,
                at: Instant::from_ns(saved_ns),
                layer: StorageLayer::Media,
                ..taken
            };
            contents.landed(&saved).expect("it is there");
            let flush = Command {
                id: CommandId(1),
                op: Op::Flush,
                extent: Extent::from_numbers(0, 0),
                fua: false,
                background: None,
                requests: Default::default(),
            };
            assert_eq!(contents.check_durable(&flush, Instant::from_ns(1_000)).is_ok(), right);
        }
    }

    #[test]
    fn in_the_end_the_last_write_stands_and_a_cancelled_one_does_not() {
        let (first, last) = (request(1, Op::Write, 0, 1), request(2, Op::Write, 0, 1));
        assert_eq!(contents(&[first, last], &[first, last]).check_end(), Ok(()));
        let swapped = contents(&[first, last], &[last, first]).check_end();
        assert_eq!(
            swapped,
            Err("in the end sector 0 shows request 1, should show request 2".to_owned())
        );
        let mut cancelled = contents(&[first, last], &[first, last]);
        cancelled.settled(last.id, WriteFate::Removed);
        assert_eq!(
            cancelled.check_end(),
            Err("in the end sector 0 shows request 2, should show request 1".to_owned())
        );
    }
}
