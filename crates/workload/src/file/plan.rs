//! [`StreamPlan`]: a stream as in its file, before the drive and the depth are known.

use alloc::format;
use alloc::string::{String, ToString};

use headtime_units::{Extent, SectorSize, Sectors};

use super::service::StreamTerms;
use super::written;
use crate::arrivals::{Arrivals, Interarrival, ThinkTime};
use crate::config::StreamConfig;
use crate::error::StreamFault;

/// One stream of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamPlan {
    /// The name.
    pub name: String,
    /// The class [default: the name].
    pub class: Option<String>,
    /// The clients of a closed or paced loop.
    pub clients: Option<Clients>,
    /// The think time of clients.
    pub think: Option<ThinkTime>,
    /// The rate of a Poisson process, in requests per second.
    pub rate: Option<f64>,
    /// Any other open loop.
    pub gaps: Option<Interarrival>,
    /// The part of the drive.
    pub range: Range,
    /// The terms of the stream.
    pub terms: StreamTerms,
    /// All other settings; [`StreamPlan::config`] fills in arrivals and range.
    pub stream: StreamConfig,
    /// The line at which the stream begins in its file, from 1; 0 without a file.
    pub line: usize,
}

/// A number of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Chosen for each run.
    Depth,
    /// Fixed.
    Count(u32),
}

/// The part of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// All of it.
    Whole,
    /// From one share of it to another.
    Shares {
        /// From 0 to 1.
        from: f64,
        /// More, up to 1.
        to: f64,
    },
    /// From one byte to another, or to the end.
    Bytes {
        /// The first byte.
        from: u64,
        /// The byte after the last; `None` for the end of the drive.
        to: Option<u64>,
    },
}

/// The keys that apply to a stream of processes.
const KEYS_OF_PROCESSES: &[&str] = &[
    "name",
    "class",
    "clients",
    "process",
    "think",
    "size",
    "range",
    "deadline",
    "start",
    "stop",
    "requests",
    "bytes",
    "reserve",
    "limit",
    "weight",
    "burst",
    "iops_limit",
    "bandwidth_limit",
    "priority",
];

impl StreamPlan {
    /// 4 KiB random reads of the whole drive, by a number of clients that is chosen for each run.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            class: None,
            clients: None,
            think: None,
            rate: None,
            gaps: None,
            range: Range::Whole,
            terms: StreamTerms::default(),
            stream: StreamConfig::closed(1),
            line: 0,
        }
    }

    /// The class of the stream.
    #[must_use]
    pub fn class(&self) -> &str {
        self.class.as_deref().unwrap_or(&self.name)
    }

    /// Returns true if the number of its clients is chosen for each run.
    #[must_use]
    pub fn takes_depth(&self) -> bool {
        matches!(self.arrivals(1), Arrivals::Closed { .. } | Arrivals::Paced { .. })
            && !matches!(self.clients, Some(Clients::Count(_)))
    }

    /// Returns true if requests arrive whether or not others are complete.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stream.process.is_none() && matches!(self.arrivals(1), Arrivals::Open(_))
    }

    /// The contradiction among the settings, if there is one.
    pub(crate) fn contradiction(&self) -> Option<String> {
        if self.stream.process.is_some()
            && let Some((key, _)) =
                written::keys(self).find(|(key, _)| !KEYS_OF_PROCESSES.contains(key))
        {
            return Some(format!(
                "{key} has no meaning for processes, which submit requests by their kind; remove \
                    {key}, or process"
            ));
        }
        let open = self.rate.is_some() || self.gaps.is_some();
        match () {
            () if self.rate.is_some() && self.gaps.is_some() => {
                Some("rate and arrivals exclude each other; keep one of them")
            }
            () if self.terms.limit.is_some_and(|limit| limit < self.terms.reserve) => {
                Some("limit is below reserve; raise limit, or lower reserve")
            }
            () if open && self.think.is_some() => Some(
                "think has no meaning where requests come by a rate; remove think, or the rate",
            ),
            () => None,
        }
        .map(ToString::to_string)
    }

    fn arrivals(&self, depth: u32) -> Arrivals {
        let clients = self.clients.map(|clients| match clients {
            Clients::Depth => depth,
            Clients::Count(count) => count,
        });
        let gaps = self.gaps.or(self.rate.map(|per_second| Interarrival::Poisson { per_second }));
        match (gaps, clients) {
            (Some(gaps), None) => Arrivals::Open(gaps),
            (Some(pace), Some(clients)) => Arrivals::Paced { clients, pace },
            (None, clients) => Arrivals::Closed {
                clients: clients.unwrap_or(depth),
                think: self.think.unwrap_or(ThinkTime::None),
            },
        }
    }

    /// The stream on a drive of `capacity` sectors of `sector` bytes, with `depth` clients if their
    /// number is open.
    ///
    /// # Errors
    /// When the range does not lie on the drive in whole sectors.
    pub fn config(
        &self,
        sector: SectorSize,
        capacity: Sectors,
        depth: u32,
    ) -> Result<StreamConfig, StreamFault> {
        Ok(StreamConfig {
            arrivals: self.arrivals(depth),
            range: self.range.on(sector, capacity)?,
            ..self.stream.clone()
        })
    }

    /// The stream as one TOML table, which reads back as the same stream.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let lines = written::keys(self).map(|(key, value)| format!("{key} = {value}\n"));
        "[[stream]]\n".to_string() + &lines.collect::<String>()
    }
}

impl Range {
    fn on(self, sector: SectorSize, capacity: Sectors) -> Result<Option<Extent>, StreamFault> {
        let (from, to) = match self {
            Self::Whole => return Ok(None),
            // Both ends rounded the same way, so that neighboring ranges share no sector.
            Self::Shares { from, to } => {
                let at = |share: f64| libm::floor(share * capacity.get() as f64) as u64;
                (at(from), if to >= 1.0 { capacity.get() } else { at(to) })
            }
            Self::Bytes { from, to } => {
                let whole = |bytes: u64| {
                    sector.sectors_of(bytes).map(Sectors::get).ok_or_else(|| StreamFault::Value {
                        key: "range",
                        value: format!(
                            "{from} to {} bytes",
                            to.map_or_else(|| "the end".to_string(), |to| to.to_string())
                        ),
                        expected: format!(
                            "multiples of the drive's sector of {} bytes",
                            sector.bytes()
                        ),
                        remedy: "round both ends to MiB",
                    })
                };
                (whole(from)?, to.map_or(Ok(capacity.get()), whole)?)
            }
        };
        let range = Extent::from_numbers(from, to.saturating_sub(from));
        if range.len.is_zero() || to > capacity.get() {
            Err(StreamFault::Range { range, capacity })
        } else {
            Ok(Some(range))
        }
    }
}
