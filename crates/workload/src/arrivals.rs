//! [`Arrivals`]: when requests come.
//!
//! A *closed loop* has clients, each with one request at a time. An *open loop* asks whether or not
//! earlier requests are served. A *paced* loop is a closed one whose requests come no faster than a
//! rate.
//!
//! Worked example of [`Interarrival::Bursts`], 100 requests a second in bursts of 2 s with 8 s
//! between: while a burst lasts, gaps are exponential with a mean of 10 ms; a gap that reaches
//! beyond the burst's end goes on, from where the burst ended, in the next. About 200 requests come
//! every 10 s.

use alloc::vec::Vec;

use headtime_units::{Instant, Nanos};
use rand::Rng;

use crate::cascade::Cascade;
use crate::check::{Check, LONGEST};
use crate::dice;
use crate::error::StreamFault;

/// The arrival times of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// A closed loop: each client waits for its request, thinks, and asks again.
    Closed {
        /// The number of clients, at least 1.
        clients: u32,
        /// The think time of each.
        think: ThinkTime,
    },
    /// A closed loop that is no faster than a schedule: a client whose request has finished issues
    /// the next one at the next time of the schedule, at once if that is past. The loop catches up
    /// with missed times (fio's `rate_iops`).
    Paced {
        /// The number of clients, at least 1: the maximum number of outstanding requests.
        clients: u32,
        /// The distance between two times of the schedule. The first is at the start.
        pace: Interarrival,
    },
    /// An open loop: requests arrive whether or not earlier ones are complete.
    Open(Interarrival),
}

/// The time from a completion to the next request of a client in a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkTime {
    /// Zero: each client always has one outstanding request. All clients begin at the start.
    None,
    /// Always this long. The first requests are spread evenly over one think time, so that clients
    /// are not synchronized.
    Constant(Nanos),
    /// Exponentially distributed with this mean, before the first request too.
    Exponential(Nanos),
    /// Every time from the least to the most with the same probability, before the first request
    /// too.
    Uniform {
        /// The shortest.
        min: Nanos,
        /// The longest; not before the shortest.
        max: Nanos,
    },
}

/// The time between arrivals of an open loop. The first request comes one such time after the
/// start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interarrival {
    /// The rate of a Poisson process, in requests per second.
    Poisson {
        /// The rate.
        per_second: f64,
    },
    /// One request in every span of this length.
    Constant(Nanos),
    /// A Poisson process that is switched on and off, on at the start: an interrupted Poisson
    /// process when both phases are exponential. The rate over all is `per_second` · on / (on +
    /// off).
    Bursts {
        /// The rate while it is on.
        per_second: f64,
        /// The time that it is on.
        on: Phase,
        /// The time that it is off.
        off: Phase,
    },
    /// Pareto distributed gaps: P(gap > x) = (least / x)^shape, the least chosen so that the mean
    /// is one over the rate. Gaps end at a day.
    Pareto {
        /// The rate.
        per_second: f64,
        /// More than 1 to 10; up to 2 the gaps have no variance, and counts are bursty at every
        /// scale (Willinger and others, Self-similarity through high-variability, 1997).
        shape: f64,
    },
    /// The b-model (Wang and others, Data mining meets performance evaluation: fast algorithms for
    /// modeling bursty traffic, 2002): of each window's requests a share of `bias` falls into one
    /// half of it, chosen by a fair coin, and so on for halves of halves, so many `levels` deep;
    /// within the smallest parts requests come at equal distances. Every window has the same number
    /// of requests. The Hurst parameter is ½ − ½ log₂(bias² + (1 − bias)²).
    Cascade {
        /// The rate.
        per_second: f64,
        /// From 0.5, which is a constant rate, to 0.99; recorded disk traffic was found at 0.6 to
        /// 0.8.
        bias: f64,
        /// The window.
        window: Nanos,
        /// The number of halvings, 1 to 20.
        levels: u32,
    },
}

/// The length of one phase of [`Interarrival::Bursts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Always this long.
    Constant(Nanos),
    /// Exponentially distributed with this mean.
    Exponential(Nanos),
}

impl Arrivals {
    /// The number of clients; an open loop counts as one.
    #[must_use]
    pub fn clients(&self) -> u32 {
        match self {
            Self::Closed { clients, .. } | Self::Paced { clients, .. } => *clients,
            Self::Open(_) => 1,
        }
    }

    pub(crate) fn check(&self, check: &Check) -> Result<(), StreamFault> {
        match self {
            Self::Closed { clients: 0, .. } | Self::Paced { clients: 0, .. } => Err(check.value(
                "clients",
                0,
                "at least 1",
                "a closed loop without clients asks for nothing",
            )),
            Self::Closed { think, .. } => think.check(check),
            Self::Paced { pace: gaps, .. } | Self::Open(gaps) => gaps.check(check),
        }
    }
}

impl ThinkTime {
    fn check(self, check: &Check) -> Result<(), StreamFault> {
        match self {
            Self::None => Ok(()),
            Self::Constant(time) | Self::Exponential(time) => {
                check.span("think time", time, "for no think time choose none")
            }
            Self::Uniform { min, max } if min <= max => {
                check.span("longest think time", max, "for no think time choose none")
            }
            Self::Uniform { min, .. } => Err(check.value(
                "shortest think time",
                min,
                "no more than the longest",
                "exchange the two, or choose a constant think time",
            )),
        }
    }

    /// Draws a think time.
    pub(crate) fn draw(self, rng: &mut impl Rng) -> Nanos {
        match self {
            Self::None => Nanos::ZERO,
            Self::Constant(span) => span,
            Self::Exponential(mean) => dice::exponential_span(rng, mean.as_ns() as f64),
            Self::Uniform { min, max } => {
                min + Nanos::from_ns(dice::below(rng, (max - min).as_ns() + 1))
            }
        }
    }

    /// The times of the first requests of `clients` clients.
    pub(crate) fn first_times(
        self,
        start: Instant,
        clients: u32,
        rng: &mut impl Rng,
    ) -> Vec<Instant> {
        let first = |client: u64| match self {
            Self::Constant(span) => Nanos::from_ns(
                (u128::from(span.as_ns()) * u128::from(client) / u128::from(clients)) as u64,
            ),
            _ => self.draw(rng),
        };
        (0..u64::from(clients)).map(first).map(|span| start + span).collect()
    }
}

impl Interarrival {
    fn check(&self, check: &Check) -> Result<(), StreamFault> {
        match *self {
            Self::Constant(time) => check.span(
                "interarrival time",
                time,
                "a rate is above 0 and at most 1000000000 a second",
            ),
            Self::Poisson { per_second } => check.rate(per_second),
            Self::Bursts { per_second, on, off } => {
                check.rate(per_second)?;
                check.span("length of bursts", on.mean(), "correct it")?;
                check.span(
                    "time between bursts",
                    off.mean(),
                    "for no pauses choose a Poisson process",
                )
            }
            Self::Pareto { per_second, shape } => {
                check.rate(per_second)?;
                check.number(
                    "shape of gaps",
                    shape,
                    1.01,
                    10.0,
                    "1.5 makes bursts at every scale; a shape of 1 or less has no mean",
                )
            }
            Self::Cascade { per_second, bias, window, levels } => {
                check.rate(per_second)?;
                check.number("bias", bias, 0.5, 0.99, "0.7 is a common value")?;
                check.span("window", window, "a minute suits most rates")?;
                check.number(
                    "levels",
                    f64::from(levels),
                    1.0,
                    20.0,
                    "12 divide a minute into parts of 15 ms",
                )
            }
        }
    }
}

impl Phase {
    fn mean(self) -> Nanos {
        let (Self::Constant(span) | Self::Exponential(span)) = self;
        span
    }

    fn draw(self, rng: &mut impl Rng) -> Nanos {
        match self {
            Self::Constant(span) => span,
            Self::Exponential(mean) => dice::exponential_span(rng, mean.as_ns() as f64),
        }
    }
}

/// The sequence of gaps of an [`Interarrival`].
#[derive(Clone, Debug)]
pub(crate) struct Gaps {
    kind: Interarrival,
    /// The remainder of the current burst; `None` before the first.
    burst: Option<Nanos>,
    cascade: Option<Cascade>,
}

impl Gaps {
    pub(crate) fn new(kind: Interarrival) -> Self {
        let cascade = match kind {
            Interarrival::Cascade { per_second, bias, window, levels } => {
                Some(Cascade::new(per_second, bias, window, levels))
            }
            _ => None,
        };
        Self { kind, burst: None, cascade }
    }

    /// The time to the next arrival.
    pub(crate) fn next(&mut self, rng: &mut impl Rng) -> Nanos {
        match self.kind {
            Interarrival::Constant(span) => span,
            Interarrival::Poisson { per_second } => dice::exponential_span(rng, 1e9 / per_second),
            Interarrival::Bursts { per_second, on, off } => {
                let mut gap = dice::exponential_span(rng, 1e9 / per_second);
                let mut passed = Nanos::ZERO;
                let mut left = self.burst.unwrap_or_else(|| on.draw(rng));
                while gap > left {
                    gap -= left;
                    passed = passed.saturating_add(left).saturating_add(off.draw(rng));
                    left = on.draw(rng);
                }
                self.burst = Some(left - gap);
                passed.saturating_add(gap)
            }
            Interarrival::Pareto { per_second, shape } => {
                let min = 1e9 / per_second * (shape - 1.0) / shape;
                let gap = min * libm::pow(dice::above_zero(rng), -1.0 / shape);
                // A float that is too large converts to the largest integer.
                Nanos::from_ns(libm::round(gap) as u64).min(LONGEST)
            }
            Interarrival::Cascade { .. } => self
                .cascade
                .as_mut()
                .expect("a cascade is made with the gaps of its kind")
                .next(rng),
        }
    }
}
