//! What can be set of background reading: [`FillSettings`].

use headtime_units::{Nanos, Sectors};

/// How gaps are searched and what background reading may cost.
///
/// | setting | unit | default | origin |
/// |---|---|---|---|
/// | `conservatism` | time | four deviations of the arrival, at least 0.1 ms | docs/limits.md 7; P2 section 3.3 sets 0.3–0.4 ms by hand |
/// | `max_impact` | part of the mean response | 0.01 | guess: what nobody notices |
/// | `read_ahead` | | unknown | P2 section 3.3 |
/// | `merge_front`, `merge_back` | | yes | P2 section 3.3; docs/limits.md 7 |
/// | `waiting_needed` | requests | 3 | P2 section 4.2 |
/// | `edge` | sectors | 4 | measured: with 1, slips that a profile does not know of made a sixteenth of the fills on a drawn Atlas 10K end on the next track; most of its regions have fewer than 4 |
/// | `effort` | tracks | 48 | measured: `cargo bench -p headtime-sim --bench decide` |
/// | `idle.grace` | time | 20 ms | guess: longer than a client that answers at once thinks |
/// | `idle.away` | time | 1 s | guess |
/// | `idle.largest` | sectors | 2048 | guess: 1 MiB of 512-byte sectors, some 5 ms |
/// | `tail` | part of a scan | 0.03 | what `max_impact` has saved up by then pays for: 1 % of the time, at five times the rate of gaps, and half of it for what gaps cost |
/// | `tail_share` | part of the drive's time | 0.05 | guess: a command of one turn in some 0.2 s is felt by nobody |
/// | `retry_grain` | sectors | 8 | one physical block of a drive with 512-byte sectors |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FillSettings {
    /// How much later than most likely the arm may arrive, at the track that is read on the way and
    /// at the request behind it, without harm. `None`: four times the belief's deviation, and at
    /// least 0.1 ms. Never used in the order of clients' requests.
    pub conservatism: Option<Nanos>,
    /// By which part of it the mean response of clients may grow.
    pub max_impact: f64,
    /// Whether the drive reads ahead.
    pub read_ahead: ReadAhead,
    /// Whether what lies right before a read is read together with it.
    pub merge_front: bool,
    /// Whether what lies behind a request on its track is read after it, as a command of its own;
    /// only where the drive is known not to read ahead.
    pub merge_back: bool,
    /// How many requests of clients must be held, the next one and those at the drive included,
    /// before a gap is searched.
    pub waiting_needed: usize,
    /// So many sectors are left at either end of a track, at most: as many as the belief has seen
    /// them displaced by, because the unit has slipped sectors that its layout does not know of.
    /// They are read where there is time for going to the next track, in idle time, or as the tail
    /// of a scan.
    pub edge: Sectors,
    /// Tracks looked at per search, at most; a quarter of it while the drive has nothing to do.
    pub effort: u32,
    /// Reading while nobody else asks.
    pub idle: IdleSettings,
    /// With this part of a scan left or less, and for what failed, time is taken from clients as
    /// far as `max_impact` and `tail_share` allow; 0 turns it off.
    pub tail: f64,
    /// The most of the drive's time that is taken from clients for that, 0 to 1. What `max_impact`
    /// allows is saved up for it while it is not needed.
    pub tail_share: f64,
    /// What fails is tried again in pieces down to this length.
    pub retry_grain: Sectors,
    /// Whether the drive's own firmware is imitated: two commands on one track do no harm. For
    /// oracles in simulation.
    pub in_firmware: bool,
}

/// Reading while nobody else asks for anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSettings {
    /// Whether it is done.
    pub enabled: bool,
    /// How long after a client's last request was over it begins.
    pub grace: Nanos,
    /// After so long without any, clients are taken to be away: then nothing is saved up for the
    /// one that comes back.
    pub away: Nanos,
    /// The longest command.
    pub largest: Sectors,
}

/// Whether the drive reads on by itself behind what it was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAhead {
    /// Nobody knows, so it may: at most one command per track and gap.
    #[default]
    Unknown,
    /// It does: as `Unknown`.
    On,
    /// It does not: several commands on a track are allowed.
    Off,
}

impl Default for FillSettings {
    fn default() -> Self {
        Self {
            conservatism: None,
            max_impact: 0.01,
            read_ahead: ReadAhead::Unknown,
            merge_front: true,
            merge_back: true,
            waiting_needed: 3,
            edge: Sectors::new(4),
            effort: 48,
            idle: IdleSettings::default(),
            tail: 0.03,
            tail_share: 0.05,
            retry_grain: Sectors::new(8),
            in_firmware: false,
        }
    }
}

impl Default for IdleSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            grace: Nanos::from_ms(20),
            away: Nanos::from_secs(1),
            largest: Sectors::new(2048),
        }
    }
}

impl FillSettings {
    /// Whether two commands on one track do no harm.
    pub(crate) fn several_per_track(&self) -> bool {
        self.in_firmware || self.read_ahead == ReadAhead::Off
    }
}
