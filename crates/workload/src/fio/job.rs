//! One job of a fio file, and its streams.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_config::TextError;
use headtime_units::Nanos;

use super::EarlierJobs;
use super::ini::{Given, Section};
use super::keys::{Support, find};
use super::values::{self, Extent, KbBase};
use crate::arrivals::{Interarrival, ThinkTime};
use crate::config::Alignment;
use crate::file::{Clients, Range, StreamPlan, constant};
use crate::mix::Mix;
use crate::order::Order;
use crate::place::{AddressPattern, Chunks, HotSpot};
use crate::sizes::{SizeWeight, Sizes};

/// Engines that wait for each request: a job with one of them has one outstanding request.
const SYNCHRONOUS: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice"];
/// fio's defaults.
const DEFAULT_ENGINE: &str = "psync";
const DEFAULT_BYTES: u64 = 4_096;

/// One job: the last option of each name, and the errors in them.
pub(super) struct Job<'a> {
    file: &'a str,
    section: &'a Section,
    options: Vec<(&'static str, &'a Given)>,
    errors: &'a mut Vec<TextError>,
    pub(super) notes: Vec<String>,
    base: KbBase,
}

/// The value of `rw`.
struct Direction {
    random: bool,
    reads: bool,
    writes: bool,
    trims: bool,
    /// The number after a colon: requests of a run, or bytes of a gap.
    modifier: Option<u64>,
}

impl<'a> Job<'a> {
    pub(super) fn new(file: &'a str, section: &'a Section, errors: &'a mut Vec<TextError>) -> Self {
        let mut job = Self {
            file,
            section,
            options: Vec::new(),
            errors,
            notes: Vec::new(),
            base: KbBase::Binary,
        };
        for given in &section.options {
            let Some(option) = find(&given.key) else {
                job.error(
                    given,
                    format!(
                        "option `{}` is unknown and may change the requests; remove it, or \
                            write the workload as TOML",
                        given.key
                    ),
                );
                continue;
            };
            match option.support {
                Support::Supported(_) => {
                    job.options.retain(|(name, _)| *name != option.names[0]);
                    job.options.push((option.names[0], given));
                }
                Support::NoEffect => {}
                Support::Ignored(why) => {
                    job.notes.push(format!("line {}: {} is ignored: {why}", given.line, given.key))
                }
                Support::Refused(_) if given.value == "0" => {}
                Support::Refused(remedy) => job.error(
                    given,
                    format!("{}={} is not supported; {remedy}", given.key, given.value),
                ),
            }
        }
        job.base = match job.parsed("kb_base", values::whole) {
            None | Some(1_024) => KbBase::Binary,
            Some(1_000) => KbBase::Decimal,
            Some(_) => job.refuse("kb_base", "expected 1000 or 1024", KbBase::Binary),
        };
        job
    }

    fn error(&mut self, given: &Given, message: String) {
        self.errors.push(TextError::at_line(self.file, given.line, message));
    }

    fn given(&self, name: &str) -> Option<&'a Given> {
        self.options.iter().find(|(other, _)| *other == name).map(|(_, given)| *given)
    }

    /// The value of an option, if it was given and can be read.
    fn parsed<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let given = self.given(name)?;
        match read(&given.value) {
            Ok(value) => Some(value),
            Err(message) => {
                self.error(given, format!("{}={}: {message}", given.key, given.value));
                None
            }
        }
    }

    /// Reports an error in an option and returns the value to continue with.
    fn refuse<T>(&mut self, name: &'static str, message: &str, instead: T) -> T {
        if let Some(given) = self.given(name) {
            self.error(given, format!("{}={}: {message}", given.key, given.value));
        }
        instead
    }

    fn boolean(&mut self, name: &'static str) -> bool {
        self.parsed(name, values::boolean).unwrap_or(false)
    }

    /// The streams of the job's clones.
    pub(super) fn streams(&mut self, earlier: &mut EarlierJobs) -> Vec<StreamPlan> {
        let direction = self.direction();
        let mut plan = StreamPlan::new(self.section.name.clone());
        plan.line = self.section.line;
        plan.class = Some(self.section.name.clone());
        self.mix(&direction, &mut plan);
        self.sizes(&direction, &mut plan);
        self.order(&direction, &mut plan);
        self.cache();
        let depth = self.depth();
        plan.clients = Some(Clients::Count(depth));
        self.pace(&direction, depth, &mut plan);
        self.times(earlier, &mut plan);

        let clones = self.parsed("numjobs", values::whole).unwrap_or(1);
        let clones = if (1..=crate::file::MAX_STREAMS as u64 * 64).contains(&clones) {
            clones
        } else {
            self.refuse("numjobs", "expected 1 to 16384", 1)
        };
        let ranges = self.ranges(clones, earlier, &mut plan);
        let alike = plan.stream.order == Order::Random
            && plan.gaps.is_none()
            && ranges.windows(2).all(|pair| pair[0] == pair[1]);
        if alike && let Some(first) = ranges.first() {
            let clients = clones.saturating_mul(u64::from(depth)).min(u64::from(u32::MAX)) as u32;
            plan.clients = Some(Clients::Count(clients));
            plan.range = *first;
            plan.stream.bytes = plan.stream.bytes.map(|bytes| bytes.saturating_mul(clones));
            return Vec::from([plan]);
        }
        let named = |(clone, range)| {
            let name = if clones == 1 {
                self.section.name.clone()
            } else {
                format!("{}.{clone}", self.section.name)
            };
            StreamPlan { name, range, ..plan.clone() }
        };
        ranges.into_iter().enumerate().map(named).collect()
    }

    fn direction(&mut self) -> Direction {
        let text = self.given("rw").map_or("read", |given| given.value.as_str());
        let (kind, modifier) =
            text.split_once(':').map_or((text, None), |(kind, modifier)| (kind, Some(modifier)));
        let (base, sequencer) = (
            self.base,
            self.given("rw_sequencer").map_or("sequential", |given| given.value.as_str()),
        );
        if sequencer != "sequential" {
            self.refuse(
                "rw_sequencer",
                "expected sequential; identical repeats one address, which is not supported",
                (),
            );
        }
        let modifier = modifier.and_then(|modifier| match values::bytes(modifier, base) {
            Ok(0) | Err(_) => self.refuse(
                "rw",
                "expected a number after the colon: requests of a run if random, bytes of a gap if \
                    sequential",
                None,
            ),
            Ok(number) => Some(number),
        });
        let of =
            |random, reads, writes, trims| Direction { random, reads, writes, trims, modifier };
        match kind {
            "read" => of(false, true, false, false),
            "write" => of(false, false, true, false),
            "trim" => of(false, false, false, true),
            "randread" => of(true, true, false, false),
            "randwrite" => of(true, false, true, false),
            "randtrim" => of(true, false, false, true),
            "rw" | "readwrite" => of(false, true, true, false),
            "randrw" => of(true, true, true, false),
            _ => {
                let expected = "expected read, write, trim, randread, randwrite, randtrim, rw, \
                    readwrite or randrw; write other mixes as TOML";
                self.refuse("rw", expected, of(false, true, false, false))
            }
        }
    }

    fn mix(&mut self, direction: &Direction, plan: &mut StreamPlan) {
        let of_reads = self.parsed("rwmixread", values::percent);
        let of_writes = self.parsed("rwmixwrite", values::percent).map(|writes| 1.0 - writes);
        let reads = match (direction.reads, direction.writes) {
            (true, true) => of_writes.or(of_reads).unwrap_or(0.5),
            (reads, _) => f64::from(u8::from(reads)),
        };
        let discards = f64::from(u8::from(direction.trims));
        let fua = match self.given("sync").map(|given| given.value.as_str()) {
            None | Some("0" | "none") => 0.0,
            Some("1" | "sync" | "dsync") => 1.0,
            Some(_) => self.refuse("sync", "expected none, sync or dsync", 0.0),
        };
        plan.stream.mix = Mix { reads, discards, fua, ..Mix::reads(reads) };
        let fsync =
            self.parsed("fsync", values::whole).or_else(|| self.parsed("fdatasync", values::whole));
        plan.stream.flush_every = fsync.filter(|writes| *writes > 0);
    }

    fn sizes(&mut self, direction: &Direction, plan: &mut StreamPlan) {
        let [reads, writes, trims] = self.sizes_by_direction();
        plan.stream.sizes = if direction.trims {
            trims
        } else if direction.reads {
            reads.clone()
        } else {
            writes.clone()
        };
        if direction.reads && direction.writes && reads != writes {
            plan.stream.write_sizes = Some(writes);
        }
        let base = self.base;
        plan.stream.alignment = match self.parsed("ba", |text| values::bytes(text, base)) {
            Some(bytes) if bytes > 0 => Alignment::Bytes(bytes),
            Some(_) => self.refuse("ba", "expected a size above 0", Alignment::Size),
            None => Alignment::Size,
        };
    }

    fn sizes_by_direction(&mut self) -> [Sizes; 3] {
        let base = self.base;
        let fixed = || Sizes::Fixed { bytes: DEFAULT_BYTES };
        let each = |text: &str,
                    read: &dyn Fn(&str) -> Result<Sizes, String>|
         -> Result<[Sizes; 3], String> {
            let [reads, writes, trims] = values::by_direction(text)
                .map(|part| part.map_or_else(|| Ok(fixed()), |part| read(&part)));
            Ok([reads?, writes?, trims?])
        };
        let mut sizes = None;
        for (name, read) in [
            (
                "bssplit",
                &(|text: &str| split(text, base)) as &dyn Fn(&str) -> Result<Sizes, String>,
            ),
            ("bsrange", &|text: &str| range(text, base)),
            ("bs", &|text: &str| one_size(text, base)),
        ] {
            let of_option = self.parsed(name, |text| each(text, read));
            sizes = sizes.or(of_option);
        }
        sizes.unwrap_or_else(|| [fixed(), fixed(), fixed()])
    }

    fn order(&mut self, direction: &Direction, plan: &mut StreamPlan) {
        let random_share = self.parsed("percentage_random", values::percent);
        let place = self.place(plan);
        plan.stream.order = match (direction.random, direction.modifier) {
            (true, Some(requests)) => Order::FixedRuns { requests },
            (false, Some(gap_bytes)) => Order::Strided { gap_bytes },
            (false, None) => Order::Sequential,
            (true, None) => match random_share {
                None => Order::Random,
                Some(share) if share >= 1.0 => Order::Random,
                Some(share) if share > 0.0 => Order::Runs { mean_requests: 1.0 / share },
                Some(_) => Order::Sequential,
            },
        };
        if !plan.stream.order.passes_the_range() {
            plan.stream.place = place;
        }
        if plan.stream.order != Order::Random {
            // A job of fio continues one run at any depth, but reads and writes have separate runs.
            plan.stream.positions = Some(1);
            plan.stream.separate_runs = direction.reads && direction.writes;
        }
    }

    fn place(&mut self, plan: &StreamPlan) -> AddressPattern {
        let Some(given) = self.given("random_distribution") else { return AddressPattern::Uniform };
        let (kind, values) = given.value.split_once(':').unwrap_or((&given.value, ""));
        let number = values.parse::<f64>().ok();
        let chunks = Chunks { bytes: smallest(&plan.stream.sizes), ordered: false };
        match (kind, number) {
            ("random", _) => AddressPattern::Uniform,
            ("zipf", None) if values.is_empty() => AddressPattern::Zipf { theta: 1.1, chunks },
            ("zipf", Some(theta)) => AddressPattern::Zipf { theta, chunks },
            ("pareto", None) if values.is_empty() => {
                AddressPattern::SelfSimilar { share: 0.2, chunks }
            }
            ("pareto", Some(share)) => AddressPattern::SelfSimilar { share, chunks },
            ("normal", Some(deviation)) => {
                AddressPattern::Normal { center: 0.5, deviation: deviation / 100.0 }
            }
            ("zoned", _) => self
                .parsed("random_distribution", |_| zones(values))
                .map_or(AddressPattern::Uniform, AddressPattern::HotSpots),
            _ => {
                let expected = "expected random, zipf:THETA, pareto:SHARE, normal:PERCENT or \
                    zoned:REQUESTS/SPACE:…; write other places as TOML";
                self.refuse("random_distribution", expected, AddressPattern::Uniform)
            }
        }
    }

    fn cache(&mut self) {
        let direct =
            self.boolean("direct") || self.parsed("buffered", values::boolean) == Some(false);
        if !direct {
            self.notes.push(format!(
                "job {}: without direct=1 fio uses the page cache, which is not simulated",
                self.section.name
            ));
        }
    }

    /// Requests held by one clone.
    fn depth(&mut self) -> u32 {
        let depth = self.parsed("iodepth", values::whole).unwrap_or(1);
        let depth = if (1..=1_000_000).contains(&depth) {
            depth as u32
        } else {
            self.refuse("iodepth", "expected 1 to 1000000", 1)
        };
        let engine = self.given("ioengine").map_or(DEFAULT_ENGINE, |given| given.value.as_str());
        if depth > 1 && SYNCHRONOUS.contains(&engine) {
            self.notes.push(format!(
                "job {}: iodepth={depth} has no effect with the synchronous \
                engine {engine}; 1 is used",
                self.section.name
            ));
            return 1;
        }
        depth
    }

    fn pace(&mut self, direction: &Direction, depth: u32, plan: &mut StreamPlan) {
        let base = self.base;
        let rates = |text: &str| -> Result<[Option<f64>; 2], String> {
            let [reads, writes, _] = values::by_direction(text);
            let rate = |text: Option<String>| {
                text.map(|text| values::bytes(&text, base))
                    .transpose()
                    .map(|rate| rate.filter(|rate| *rate > 0).map(|rate| rate as f64))
            };
            Ok([rate(reads)?, rate(writes)?])
        };
        let (of_requests, of_bytes) = (self.parsed("rate_iops", rates), self.parsed("rate", rates));
        if of_requests.is_some() && of_bytes.is_some() {
            self.refuse("rate", "rate_iops is given too; keep one of them", ());
        }
        let read_bytes = mean_bytes(&plan.stream.sizes);
        let write_bytes = plan.stream.write_sizes.as_ref().map_or(read_bytes, mean_bytes);
        let of_bytes = of_bytes.map(|[reads, writes]| {
            [reads.map(|rate| rate / read_bytes), writes.map(|rate| rate / write_bytes)]
        });
        let per_second = match (
            of_requests.or(of_bytes),
            direction.reads,
            direction.writes || direction.trims,
        ) {
            (None, ..) => None,
            (Some([reads, _]), true, false) => reads,
            (Some([_, writes]), false, _) => writes,
            (Some([Some(reads), Some(writes)]), true, true) => {
                plan.stream.mix.reads = reads / (reads + writes);
                Some(reads + writes)
            }
            (Some([None, None]), ..) => None,
            (Some(_), true, true) => {
                let name = if self.given("rate_iops").is_some() { "rate_iops" } else { "rate" };
                self.refuse(
                    name,
                    "reads and writes of one job share its queue, so both have a rate or neither; \
                    split the job in two",
                    None,
                )
            }
        };
        let poisson = match self.given("rate_process").map(|given| given.value.as_str()) {
            None | Some("linear") => false,
            Some("poisson") => true,
            Some(_) => self.refuse("rate_process", "expected linear or poisson", false),
        };
        plan.gaps = per_second.map(|per_second| {
            if poisson { Interarrival::Poisson { per_second } } else { constant(per_second) }
        });
        let think =
            self.parsed("thinktime", |text| values::time(text, 1_000)).filter(|time| *time > 0);
        if think.is_some() && (depth > 1 || plan.gaps.is_some()) {
            self.refuse(
                "thinktime",
                "the whole job pauses in fio, which is not supported with an iodepth above 1 or a \
                    rate; use numjobs, or remove it",
                (),
            );
        }
        plan.think = think.map(|ns| ThinkTime::Constant(Nanos::from_ns(ns)));
    }

    fn times(&mut self, earlier: &mut EarlierJobs, plan: &mut StreamPlan) {
        let seconds = |text: &str| values::time(text, 1_000_000_000).map(Nanos::from_ns);
        let runtime = self.parsed("runtime", seconds).filter(|time| !time.is_zero());
        let delay = self.parsed("startdelay", seconds).unwrap_or(Nanos::ZERO);
        if self.boolean("stonewall") {
            match earlier.ends {
                None => {}
                Some(Some(end)) => earlier.barrier = end,
                Some(None) => {
                    self.refuse(
                        "stonewall",
                        "the end of the jobs before it is unknown; give each of them a runtime, or \
                            write start and stop as TOML",
                        (),
                    );
                }
            }
        }
        plan.stream.start = delay.max(earlier.barrier);
        plan.stream.stop = runtime.map(|runtime| plan.stream.start + runtime);
        earlier.ends_at(plan.stream.stop);
        if self.boolean("time_based") && runtime.is_none() {
            self.refuse(
                "time_based",
                "a job that is time_based needs a runtime; add runtime=60",
                (),
            );
        }
    }

    /// The range of each clone; also sets the bytes that each accesses.
    fn ranges(
        &mut self,
        clones: u64,
        earlier: &mut EarlierJobs,
        plan: &mut StreamPlan,
    ) -> Vec<Range> {
        let base = self.base;
        let extent = |text: &str| values::extent(text, base);
        let size = self.parsed("size", extent).filter(|size| *size != Extent::Share(1.0));
        let offset = self.parsed("offset", extent).unwrap_or(Extent::Bytes(0));
        let increment = self.parsed("offset_increment", extent).unwrap_or(Extent::Bytes(0));
        let io_size = self.parsed("io_size", extent);
        let loops = self.parsed("loops", values::whole).unwrap_or(1).max(1);
        if !self.boolean("time_based") {
            plan.stream.bytes = match io_size.or(size) {
                Some(Extent::Bytes(bytes)) => Some(bytes.saturating_mul(loops)),
                Some(Extent::Share(_)) => {
                    self.notes.push(format!(
                        "job {}: a size in percent does not end the job; give it a runtime",
                        self.section.name
                    ));
                    None
                }
                None => None,
            };
        }
        let filename = self.given("filename").map(|given| given.value.as_str());
        if filename.is_some_and(|name| name.replace("\\:", "").contains(':')) {
            self.refuse(
                "filename",
                "several files in one job are not supported; make a job for each",
                (),
            );
        }
        if size.is_none() && filename.is_some_and(|name| !name.starts_with("/dev/")) {
            self.notes.push(format!(
                "job {}: a file without size may be anywhere, so the whole drive is used",
                self.section.name
            ));
        }
        let mut ranges = Vec::new();
        for clone in 0..clones {
            let range = match (offset, increment, size) {
                (
                    Extent::Bytes(offset),
                    Extent::Bytes(increment),
                    size @ (None | Some(Extent::Bytes(_))),
                ) => {
                    let shifted = offset.saturating_add(increment.saturating_mul(clone));
                    let size =
                        if let Some(Extent::Bytes(bytes)) = size { Some(bytes) } else { None };
                    let first = match (filename, size) {
                        (Some(name), _) if name.starts_with("/dev/") => 0,
                        (Some(name), Some(size)) => {
                            earlier.file(name, shifted.saturating_add(size))
                        }
                        (None, Some(size)) => earlier.file(
                            &format!("{}.{}.{clone}", self.section.name, self.section.line),
                            shifted.saturating_add(size),
                        ),
                        (_, None) => 0,
                    };
                    let from = first.saturating_add(shifted);
                    if from == 0 && size.is_none() {
                        Range::Whole
                    } else {
                        Range::Bytes { from, to: size.map(|size| from.saturating_add(size)) }
                    }
                }
                (offset, increment, size) => {
                    let share = |extent| match extent {
                        Extent::Share(share) => Some(share),
                        Extent::Bytes(0) => Some(0.0),
                        Extent::Bytes(_) => None,
                    };
                    match (
                        share(offset),
                        share(increment),
                        size.map_or(Some(None), |size| share(size).map(Some)),
                    ) {
                        (Some(offset), Some(increment), Some(size)) => {
                            let from = offset + increment * clone as f64;
                            let to = size.map_or(1.0, |size| (from + size).min(1.0));
                            if from < to {
                                Range::Shares { from, to }
                            } else {
                                self.refuse(
                                    "offset",
                                    "no part of the drive lies after it",
                                    Range::Whole,
                                )
                            }
                        }
                        _ => {
                            let name =
                                if self.given("offset").is_some() { "offset" } else { "size" };
                            return self.refuse(
                                name,
                                "offset, offset_increment and size are to be all in percent or all \
                                    in bytes",
                                Vec::from([Range::Whole]),
                            );
                        }
                    }
                }
            };
            ranges.push(range);
        }
        ranges
    }
}

fn one_size(text: &str, base: KbBase) -> Result<Sizes, String> {
    match values::bytes(text, base)? {
        0 => Err("a size of 0 is not possible".to_string()),
        bytes => Ok(Sizes::Fixed { bytes }),
    }
}

/// `4k-64k`.
fn range(text: &str, base: KbBase) -> Result<Sizes, String> {
    let expected = || format!("`{text}` is not a range of sizes; write it such as 4k-64k");
    let (min, max) = text.split_once('-').ok_or_else(expected)?;
    let (min_bytes, max) = (values::bytes(min, base)?, values::bytes(max, base)?);
    if min_bytes == 0 || max < min_bytes {
        return Err(expected());
    }
    Ok(Sizes::Uniform {
        min_bytes,
        max_bytes: max / min_bytes * min_bytes,
        multiple_bytes: min_bytes,
    })
}

/// `4k/10:64k/50:32k/`: sizes with their percent; those without divide the remainder evenly.
fn split(text: &str, base: KbBase) -> Result<Sizes, String> {
    let mut entries = Vec::new();
    for part in text.split(':') {
        let (size, share) = part.split_once('/').unwrap_or((part, ""));
        let share = if share.is_empty() { None } else { Some(values::percent(share)?) };
        entries.push((values::bytes(size, base)?, share));
    }
    let given: f64 = entries.iter().filter_map(|(_, share)| *share).sum();
    let open = entries.iter().filter(|(_, share)| share.is_none()).count();
    if given > 1.0 + 1e-9 {
        return Err("the shares add up to more than 100 %".to_string());
    }
    let rest = if open > 0 { (1.0 - given) / open as f64 } else { 0.0 };
    let weighted = entries
        .into_iter()
        .map(|(bytes, share)| SizeWeight { bytes, weight: share.unwrap_or(rest) * 100.0 });
    // A size with a share of 0 is never drawn.
    Ok(Sizes::Weighted(weighted.filter(|entry| entry.weight > 0.0).collect()))
}

/// `60/10:30/20:8/30`: percent of requests over percent of the range.
fn zones(text: &str) -> Result<Vec<HotSpot>, String> {
    text.split(':')
        .map(|part| {
            let (requests, space) = part.split_once('/').ok_or_else(|| {
                format!(
                    "`{part}` is not a zone; write it such as 60/10, percent of requests and of \
                        space"
                )
            })?;
            Ok(HotSpot { requests: values::percent(requests)?, space: values::percent(space)? })
        })
        .collect()
}

fn smallest(sizes: &Sizes) -> u64 {
    match sizes {
        Sizes::Fixed { bytes } => *bytes,
        Sizes::Weighted(weighted) => {
            weighted.iter().map(|entry| entry.bytes).min().unwrap_or(DEFAULT_BYTES)
        }
        Sizes::Uniform { min_bytes, .. } => *min_bytes,
        Sizes::Exponential { multiple_bytes, .. } | Sizes::LogNormal { multiple_bytes, .. } => {
            *multiple_bytes
        }
    }
}

/// The mean of sizes.
fn mean_bytes(sizes: &Sizes) -> f64 {
    match sizes {
        Sizes::Fixed { bytes } => *bytes as f64,
        Sizes::Weighted(weighted) => {
            let sum: f64 = weighted.iter().map(|entry| entry.weight).sum();
            weighted.iter().map(|entry| entry.bytes as f64 * entry.weight).sum::<f64>() / sum
        }
        Sizes::Uniform { min_bytes, max_bytes, .. } => {
            (*min_bytes as f64 + *max_bytes as f64) / 2.0
        }
        Sizes::Exponential { mean_bytes, .. } => *mean_bytes as f64,
        Sizes::LogNormal { median_bytes, .. } => *median_bytes as f64,
    }
}
