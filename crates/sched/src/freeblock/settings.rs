//! [`FillSettings`]: the settings of background reading.

use headtime_units::{Nanos, Sectors};

/// The settings of gap searches and the limits on the cost of background reading.
///
/// | setting | unit | default | origin |
/// |---|---|---|---|
/// | `conservatism` | time | four deviations, at least 0.1 ms | docs/limits.md 7; P2: 0.3–0.4 ms |
/// | `max_impact` | fraction of the mean response | 0.01 | guess: not noticeable |
/// | `read_ahead` | | unknown | P2 section 3.3 |
/// | `merge_front`, `merge_back` | | yes | P2 section 3.3; docs/limits.md 7 |
/// | `waiting_needed` | requests | 1 | measured: 3 (P2 section 4.2) leaves most gaps unused |
/// | `controls` | gaps | 16 | guess: a sixteenth of the free bandwidth |
/// | `edge` | sectors | 4 | measured: see below |
/// | `effort` | tracks | 48 | measured: `cargo bench -p headtime-sim --bench decide` |
/// | `idle.grace` | time | 20 ms | guess: longer than the pause of a busy client |
/// | `idle.away` | time | 1 s | guess |
/// | `idle.largest` | sectors | 2048 | guess: 1 MiB of 512-byte sectors, some 5 ms |
/// | `tail` | fraction of a scan | 0.03 | paid by `max_impact`: see below |
/// | `tail_share` | fraction of time | 0.05 | guess: a revolution in some 0.2 s |
/// | `retry_grain` | sectors | 8 | one physical block of a drive with 512-byte sectors |
///
/// `edge`: with 1, slips unknown to a profile made a sixteenth of the fills on a simulated Atlas
/// 10K end on the next track; most of its regions have fewer than 4. `tail`: by then `max_impact`
/// has saved up 1 % of the time, at five times the rate of gaps, and half of it for the cost of
/// gaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FillSettings {
    /// The delay of the arm beyond the most likely time, at the track read on the way and at the
    /// next request, that does no harm. `None`: four times the deviation of the drive model, and at
    /// least 0.1 ms. Never used in the order of clients' requests.
    pub conservatism: Option<Nanos>,
    /// The fraction by which the mean response of clients may grow; infinity: no bound.
    pub max_impact: f64,
    /// True if the drive reads ahead.
    pub read_ahead: ReadAhead,
    /// True if sectors right before a read are read together with it.
    pub merge_front: bool,
    /// True if sectors after a request on its track are read as a command of their own; only for a
    /// drive known not to read ahead.
    pub merge_back: bool,
    /// The number of requests of clients that must be held, the next one and those at the drive
    /// included, before a gap is searched.
    pub waiting_needed: usize,
    /// One gap in so many is left unfilled, and four times as many at first, to measure what the
    /// drive does without fills; 0: none, and no stretches without reads either.
    pub controls: u64,
    /// The maximum number of sectors left out at either end of a track: as many as the drive model
    /// has seen displaced by slipped sectors that the layout does not contain. They are read if
    /// there is time to go to the next track, in idle time, or as the tail of a scan.
    pub edge: Sectors,
    /// The maximum number of tracks visited per search; a quarter of it while the drive is idle.
    pub effort: u32,
    /// Reading while clients are idle.
    pub idle: IdleSettings,
    /// With this fraction of a scan left or less, and for retries, time is taken from clients as
    /// far as `max_impact` and `tail_share` allow; 0 turns it off.
    pub tail: f64,
    /// The maximum share of the drive's time taken from clients for that, 0 to 1. Unused impact is
    /// saved up for it.
    pub tail_share: f64,
    /// Failed reads are retried in pieces down to this length.
    pub retry_grain: Sectors,
    /// True if the drive's own firmware is imitated, so that two commands on one track do no harm.
    /// For oracles in simulation.
    pub in_firmware: bool,
}

/// Settings of reading while clients are idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSettings {
    /// True if it is enabled.
    pub enabled: bool,
    /// The time from the last completion of a client's request to its start.
    pub grace: Nanos,
    /// The time without requests after which clients count as away: then reads are not kept short
    /// for a returning client.
    pub away: Nanos,
    /// The maximum length of a command.
    pub largest: Sectors,
}

/// Read-ahead: the drive reads on by itself after a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAhead {
    /// Unknown, so it may: at most one command per track and gap.
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
            waiting_needed: 1,
            controls: 16,
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
    /// Returns whether two commands on one track do no harm.
    pub(crate) fn several_per_track(&self) -> bool {
        self.in_firmware || self.read_ahead == ReadAhead::Off
    }
}
