//! [`StreamTerms`] and [`ScanPlan`]: the promises of a server to the streams of a file, and the
//! scan that it runs beside them.

use alloc::format;
use alloc::string::{String, ToString};

use headtime_config::{Key, Value};
use headtime_units::{Nanos, Share};

use super::written;

/// The terms of a stream: those of a volume that only it uses, by the same names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamTerms {
    /// The guaranteed share of disk time.
    pub reserve: Share,
    /// The maximum share of disk time. `None`: no limit.
    pub limit: Option<Share>,
    /// Its part of unreserved time. `None`: as one of all.
    pub weight: Option<u16>,
    /// The time for which unused reserve and limit are saved up. `None`: the scheduler's own.
    pub burst: Option<Nanos>,
    /// The maximum number of requests per second.
    pub iops_limit: Option<u32>,
    /// The maximum number of bytes per second.
    pub bandwidth_limit: Option<u64>,
    /// The I/O priority, as class and level from 0 to 7. `None`: best effort.
    pub priority: Option<(String, u8)>,
}

/// A background scan of the whole drive, which starts again when it ends.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanPlan {
    /// The fraction by which the mean response of the streams may grow.
    pub max_impact: f64,
    /// True if it also reads while no stream has a request.
    pub idle: bool,
    /// Sectors are read in aligned pieces of this many bytes; `None`: as a
    /// server does.
    pub piece_bytes: Option<u64>,
}

/// The keys of a scan.
pub const SCAN_KEYS: &[Key<ScanPlan>] = &[
    Key {
        name: "max_impact",
        takes: "share, 0.02 or \"2%\"",
        summary: "share by which the mean response of the streams may grow",
        default: "0.01",
        set: |scan, value| value.fraction().map(|share| scan.max_impact = share),
    },
    Key {
        name: "idle",
        takes: "true or false",
        summary: "it also reads while no stream has a request",
        default: "true",
        set: |scan, value| value.boolean().map(|idle| scan.idle = idle),
    },
    Key {
        name: "piece",
        takes: "size",
        summary: "sectors are read in aligned pieces of this size",
        default: "one sector; on drives of more than 2^24 sectors up to 128",
        set: |scan, value| {
            value.size_within(512, 1 << 30).map(|size| scan.piece_bytes = Some(size.get()))
        },
    },
];

impl Default for ScanPlan {
    /// The settings of a server.
    fn default() -> Self {
        Self { max_impact: 0.01, idle: true, piece_bytes: None }
    }
}

impl ScanPlan {
    /// The scan as one TOML table, which reads back as the same scan.
    pub(super) fn to_toml(&self) -> String {
        let default = Self::default();
        let keys = [
            ("max_impact", Some(written::number(self.max_impact))),
            ("idle", (self.idle != default.idle).then(|| self.idle.to_string())),
            ("piece", self.piece_bytes.map(written::quoted_bytes)),
        ];
        let lines =
            keys.into_iter().filter_map(|(key, value)| Some(format!("{key} = {}\n", value?)));
        "[[scan]]\n".to_string() + &lines.collect::<String>()
    }
}

/// A class and a level of I/O priority, written `rt`, `be/7`.
pub(super) fn priority(value: &Value<'_>) -> Result<(String, u8), headtime_config::ValueErrors> {
    let text = value.text()?;
    let (class, level) =
        text.split_once('/').map_or((text, Some(USUAL_LEVEL)), |(class, level)| {
            (class, level.parse().ok().filter(|level| *level < LEVELS))
        });
    match level {
        Some(level) if ["rt", "be", "idle"].contains(&class) => Ok((class.to_string(), level)),
        _ => Err(value.unexpected(
            "rt, be or idle, with a level from 0 (most urgent) to 7 after it",
            "\"rt/2\"",
        )),
    }
}

/// The level of a class without one, as in Linux.
const USUAL_LEVEL: u8 = 4;
const LEVELS: u8 = 8;
