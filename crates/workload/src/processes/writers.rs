//! [`Writers`]: processes that write files through the page cache.
//!
//! Each pass truncates the file and writes it from start to end, as `dd of=file` does. What the
//! pass before it left dirty is forgotten.

use alloc::vec::Vec;

use headtime_units::{Extent, Instant};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::output::Output;
use super::read_ahead::WAKE_UP;
use super::write_back::WriteBack;
use super::{Common, fits, parts};
use crate::arrivals::ThinkTime;
use crate::error::StreamFault;
use crate::process::PageCache;
use crate::sizes::SectorSizes;
use crate::source::ClientId;

/// The writers of one stream and their page cache.
#[derive(Clone, Debug)]
pub(crate) struct Writers {
    calls: SectorSizes,
    think: ThinkTime,
    cache: WriteBack,
    starts: Vec<Instant>,
    writers: Vec<Writer>,
}

#[derive(Clone, Debug)]
struct Writer {
    file: Extent,
    rng: ChaCha8Rng,
    next: u64,
    passes_left: u64,
    /// The process; `None` after the last pass.
    client: Option<ClientId>,
    /// The process waits for the hard limit.
    waits: bool,
}

impl Writers {
    pub(crate) fn new(
        file_bytes: Option<u64>,
        passes: Option<u64>,
        cache: &PageCache,
        common: &mut Common<'_>,
    ) -> Result<Self, StreamFault> {
        let Common { config, check, rng, .. } = common;
        let (clients, think) = super::closed(config, check)?;
        if think == ThinkTime::None {
            return Err(check.value(
                "think",
                "none",
                "a time above 0 between the calls of a process that writes to the cache",
                "3ms between calls of 1 MiB is a copy at 333 MiB/s",
            ));
        }
        check.some("passes", passes, "leave it out for no limit")?;
        let parts = parts(common.range, clients, check);
        let part = parts[0].len.get();
        let len = match file_bytes {
            Some(bytes) => check.length("file", bytes)?,
            None => part.max(check.page()),
        };
        fits("file", len, part, check)?;
        let cache = WriteBack::new(cache, clients, check)?;
        if passes.is_none() && len <= cache.background() {
            return Err(check.value(
                "file",
                alloc::format!("{} bytes", check.bytes(len)),
                alloc::format!(
                    "more than the background limit of {} bytes: each pass truncates the file, \
                        and a smaller one never reaches the drive",
                    check.bytes(cache.background())
                ),
                "enlarge file, lower memory or background, or limit passes",
            ));
        }
        let starts = think.first_times(Instant::ORIGIN + config.start, clients, rng);
        let writer = |part: Extent| Writer {
            file: Extent::from_numbers(part.start.get(), len),
            rng: ChaCha8Rng::seed_from_u64(rng.next_u64()),
            next: part.start.get(),
            passes_left: passes.unwrap_or(u64::MAX),
            client: None,
            waits: false,
        };
        Ok(Self {
            calls: SectorSizes::new(&config.sizes, check)?,
            think,
            cache,
            starts,
            writers: parts.into_iter().map(writer).collect(),
        })
    }

    /// Begins all writers.
    pub(crate) fn start(&mut self, out: &mut Output<'_>) {
        for (place, (writer, at)) in self.writers.iter_mut().zip(&self.starts).enumerate() {
            let client = out.begin(place as u32);
            writer.client = Some(client);
            out.wake(*at, client);
        }
        self.cache.start(out);
    }

    /// The next call of a writer is due, or the flusher has to visit old pages.
    pub(crate) fn wake(&mut self, now: Instant, place: u32, out: &mut Output<'_>) {
        if (place as usize) < self.writers.len() {
            self.call(place, now, out);
        }
        self.cache.advance(now, out);
        self.end_if_over(now, out);
    }

    /// A write of the flusher is complete.
    pub(crate) fn finished(&mut self, now: Instant, out: &mut Output<'_>) {
        self.cache.finished();
        self.cache.advance(now, out);
        if !self.cache.is_over_limit() {
            for writer in self.writers.iter_mut().filter(|writer| writer.waits) {
                writer.waits = false;
                if let Some(client) = writer.client {
                    out.wake(now + WAKE_UP + self.think.draw(&mut writer.rng), client);
                }
            }
        }
        self.end_if_over(now, out);
    }

    fn call(&mut self, place: u32, now: Instant, out: &mut Output<'_>) {
        let writer = &mut self.writers[place as usize];
        let Some(mut client) = writer.client else { return };
        if writer.next == writer.file.end().get() {
            out.end(now, client);
            writer.passes_left -= 1;
            writer.client = None;
            if writer.passes_left == 0 {
                return;
            }
            client = out.begin(place);
            writer.client = Some(client);
            writer.next = writer.file.start.get();
            self.cache.forget(u64::from(place));
        }
        if self.cache.is_closed() || !out.limits.allow(now) {
            out.end(now, client);
            writer.client = None;
            return;
        }
        let len = self.calls.draw(&mut writer.rng).min(writer.file.end().get() - writer.next);
        self.cache.dirty(now, u64::from(place), Extent::from_numbers(writer.next, len));
        writer.next += len;
        if self.cache.is_over_limit() {
            writer.waits = true;
        } else {
            out.wake(now + self.think.draw(&mut writer.rng), client);
        }
    }

    /// Ends the flusher after all writers.
    fn end_if_over(&mut self, now: Instant, out: &mut Output<'_>) {
        if self.writers.iter().all(|writer| writer.client.is_none()) {
            self.cache.end_if_idle(now, out);
        }
    }
}
