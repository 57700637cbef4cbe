//! [`AddressPattern`]: the distribution of start addresses over a range, for requests that continue
//! no run.
//!
//! Every kind is sampled in constant time (hot spots: in their number) and in memory that does not
//! depend on the range. A draw returns one of the aligned starts at which the request fits into the
//! range; draws beyond the last one return the last one.
//!
//! Worked example: [`AddressPattern::SelfSimilar`] with a share of 0.2: four fifths of the requests
//! go to one fifth of the chunks, and of those again four fifths to one fifth of that fifth.

use alloc::format;
use alloc::vec::Vec;

use headtime_units::Extent;
use rand::Rng;

use crate::check::Check;
use crate::dice;
use crate::error::StreamFault;
use crate::scatter::Scatter;
use crate::zipf::Zipf;

/// The distribution of start addresses over a range, for requests that continue no run.
#[derive(Clone, Debug, PartialEq)]
pub enum AddressPattern {
    /// Anywhere, evenly distributed.
    Uniform,
    /// One of a few starts, scattered over the range and fixed, all with the same probability.
    Fixed {
        /// The number of starts; at most the number of sectors.
        places: u64,
        /// The set of starts: the same number gives the same starts in all streams and with all
        /// seeds.
        set: u64,
    },
    /// In chunks whose popularity falls with their rank: the chunk of rank k with a probability in
    /// proportion to k^(−theta); evenly within the chunk.
    Zipf {
        /// 0.01 to 10; 0.99 is what the benchmark YCSB uses.
        theta: f64,
        /// The chunks.
        chunks: Chunks,
    },
    /// A share h of the chunks takes the share 1 − h of the requests, at every scale: rank = count
    /// · u^(ln h / ln (1 − h)) (Gray and others, Quickly generating billion-record synthetic
    /// databases, 1994; fio's `pareto`).
    SelfSimilar {
        /// The share h, 0.001 to 0.5; 0.5 is uniform.
        share: f64,
        /// The chunks.
        chunks: Chunks,
    },
    /// Consecutive regions of the range, each with its share of the requests; the remaining
    /// requests go to the remaining range (fio's `zoned`).
    HotSpots(Vec<HotSpot>),
    /// Normally distributed around a center; values outside of the range are drawn again.
    Normal {
        /// The center, as a share of the range.
        center: f64,
        /// The standard deviation, as a share of the range, 0.0001 to 1.
        deviation: f64,
    },
    /// Near the last request of the same client: the distance from the end of that request is a
    /// geometrically distributed number of aligned starts, before or after it (the discrete Laplace
    /// distribution without its middle), mirrored at the ends of the range. Clients start evenly
    /// spread.
    Near {
        /// The mean distance; a mean of less than one aligned start counts as one.
        mean: Distance,
        /// Share of requests that go anywhere in the range instead.
        jumps: f64,
    },
}

/// The parts of a range that have a popularity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// The size in bytes, whole sectors.
    pub bytes: u64,
    /// True if the most popular chunks lie at the start of the range, in order of popularity.
    /// Otherwise they are scattered, differently for every seed.
    pub ordered: bool,
}

/// A region with its own share of the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotSpot {
    /// Share of the requests.
    pub requests: f64,
    /// Share of the range.
    pub space: f64,
}

/// A distance on the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distance {
    /// In bytes.
    Bytes(u64),
    /// As a share of the range.
    Share(f64),
}

/// [`AddressPattern`] checked, for one range.
#[derive(Clone, Debug)]
pub(crate) enum Spots {
    Uniform,
    /// The first numbers of a permutation of the range's sectors.
    Fixed {
        places: u64,
        scatter: Scatter,
    },
    Ranked {
        ranks: Ranks,
        chunk: u64,
        scatter: Option<Scatter>,
    },
    /// The cumulative share of requests, and the start and end of the region, as shares.
    Regions(Vec<(f64, f64, f64)>),
    Normal {
        center: f64,
        deviation: f64,
    },
    /// The mean in sectors.
    Near {
        mean: f64,
        jumps: f64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Ranks {
    Zipf(Zipf),
    SelfSimilar { count: u64, power: f64 },
}

/// The possible aligned starts of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Starts {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) alignment: u64,
}

impl Starts {
    /// The starts in `range` for `len` sectors; `None` where there are none.
    pub(crate) fn of(range: Extent, alignment: u64, len: u64) -> Option<Self> {
        let first = range.start.get().checked_next_multiple_of(alignment)?;
        let room = range.end().get().checked_sub(len)?.checked_sub(first)?;
        Some(Self { first, count: room / alignment + 1, alignment })
    }

    fn sector(&self, index: u64) -> u64 {
        self.first + index.min(self.count - 1) * self.alignment
    }

    /// The start at this share of all, from 0 to 1.
    fn at_share(&self, share: f64) -> u64 {
        self.sector((share * self.count as f64) as u64)
    }
}

impl Spots {
    pub(crate) fn new(
        place: &AddressPattern,
        range: Extent,
        check: &Check,
        rng: &mut impl Rng,
    ) -> Result<Self, StreamFault> {
        match *place {
            AddressPattern::Uniform => Ok(Self::Uniform),
            AddressPattern::Fixed { places, set } => {
                let max = range.len.get();
                if !(1..=max).contains(&places) {
                    return Err(check.value(
                        "places",
                        places,
                        format!("1 to {max}, the sectors of the range"),
                        "for any address choose uniform places",
                    ));
                }
                Ok(Self::Fixed { places, scatter: Scatter::new(max, set) })
            }
            AddressPattern::Zipf { theta, chunks } => {
                check.number(
                    "theta",
                    theta,
                    0.01,
                    10.0,
                    "for even popularity choose uniform places",
                )?;
                Self::ranked(chunks, range, check, rng, |count| {
                    Ranks::Zipf(Zipf::new(count, theta))
                })
            }
            AddressPattern::SelfSimilar { share, chunks } => {
                check.number(
                    "share of popular chunks",
                    share,
                    0.001,
                    0.5,
                    "0.2 sends 80 % of the requests to 20 % of the chunks",
                )?;
                let power = libm::log(share) / libm::log1p(-share);
                Self::ranked(chunks, range, check, rng, |count| Ranks::SelfSimilar { count, power })
            }
            AddressPattern::HotSpots(ref spots) => Self::regions(spots, check),
            AddressPattern::Normal { center, deviation } => {
                check.share("center", center)?;
                check.number(
                    "deviation",
                    deviation,
                    1e-4,
                    1.0,
                    "0.1 puts two thirds within a fifth of the range",
                )?;
                Ok(Self::Normal { center, deviation })
            }
            AddressPattern::Near { mean, jumps } => {
                check.share("jumps", jumps)?;
                let mean = match mean {
                    Distance::Bytes(bytes) => bytes as f64 / f64::from(check.sector.bytes()),
                    Distance::Share(share) => {
                        check.share("mean distance", share)?;
                        share * range.len.get() as f64
                    }
                };
                Ok(Self::Near { mean, jumps })
            }
        }
    }

    fn ranked(
        chunks: Chunks,
        range: Extent,
        check: &Check,
        rng: &mut impl Rng,
        ranks: impl FnOnce(u64) -> Ranks,
    ) -> Result<Self, StreamFault> {
        let chunk = check.sectors("chunk", chunks.bytes)?;
        let count = range.len.get().div_ceil(chunk);
        let scatter = (!chunks.ordered).then(|| Scatter::new(count, rng.next_u64()));
        Ok(Self::Ranked { ranks: ranks(count), chunk, scatter })
    }

    fn regions(spots: &[HotSpot], check: &Check) -> Result<Self, StreamFault> {
        let (mut requests, mut space) = (0.0, 0.0);
        let mut regions = Vec::with_capacity(spots.len() + 1);
        for spot in spots {
            check.share("requests of a hot spot", spot.requests)?;
            check.number(
                "space of a hot spot",
                spot.space,
                1e-9,
                1.0,
                "leave out spots without space",
            )?;
            regions.push((requests + spot.requests, space, space + spot.space));
            (requests, space) = (requests + spot.requests, space + spot.space);
        }
        for (key, sum) in
            [("requests of all hot spots", requests), ("space of all hot spots", space)]
        {
            if sum > 1.0 + 1e-9 {
                return Err(check.value(
                    key,
                    sum,
                    "at most 1",
                    "lower one of the shares; the remainder goes to the rest of the range",
                ));
            }
        }
        if requests < 1.0 - 1e-9 && space > 1.0 - 1e-9 {
            return Err(check.value(
                "requests of all hot spots",
                requests,
                "1, because they take all the space",
                "raise a share of requests",
            ));
        }
        if requests < 1.0 {
            regions.push((1.0, space.min(1.0 - 1e-9), 1.0));
        }
        Ok(Self::Regions(regions))
    }

    /// Returns true if a draw depends on the last request of the client.
    pub(crate) fn remembers(&self) -> bool {
        matches!(self, Self::Near { .. })
    }

    /// Draws a start; `last` is the end of the client's last request.
    pub(crate) fn draw(&self, rng: &mut impl Rng, starts: Starts, range: Extent, last: u64) -> u64 {
        match self {
            Self::Uniform => starts.sector(dice::below(rng, starts.count)),
            Self::Fixed { places, scatter } => {
                let sector = range.start.get() + scatter.place(dice::below(rng, *places));
                starts.sector(sector.saturating_sub(starts.first) / starts.alignment)
            }
            Self::Ranked { ranks, chunk, scatter } => {
                let rank = match *ranks {
                    Ranks::Zipf(zipf) => zipf.draw(rng) - 1,
                    Ranks::SelfSimilar { count, power } => {
                        ((count as f64 * libm::pow(dice::above_zero(rng), power)) as u64)
                            .min(count - 1)
                    }
                };
                let number = scatter.map_or(rank, |scatter| scatter.place(rank));
                // The end of the range may cut the last chunk short.
                let offset = number * chunk
                    + dice::below(rng, (*chunk).min(range.len.get() - number * chunk));
                starts.sector(
                    (range.start.get() + offset).saturating_sub(starts.first) / starts.alignment,
                )
            }
            Self::Regions(regions) => {
                let point = dice::above_zero(rng);
                let at =
                    regions.partition_point(|(up_to, ..)| *up_to < point).min(regions.len() - 1);
                let (_, from, to) = regions[at];
                starts.at_share(from + (to - from) * (1.0 - dice::above_zero(rng)))
            }
            Self::Normal { center, deviation } => loop {
                // At least a third of the draws lie within, because the deviation is at most the
                // range and the center lies in it.
                let share = center + deviation * dice::normal(rng);
                if (0.0..1.0).contains(&share) {
                    return starts.at_share(share);
                }
            },
            Self::Near { mean, jumps } => {
                if *jumps > 0.0 && dice::above_zero(rng) <= *jumps {
                    return starts.sector(dice::below(rng, starts.count));
                }
                let mean = mean / starts.alignment as f64;
                let distance = i128::from(if mean > 1.0 { dice::geometric(rng, mean) } else { 1 });
                let distance = if rng.next_u64() >> 63 == 0 { distance } else { -distance };
                let from = i128::from(last.saturating_sub(starts.first) / starts.alignment);
                // Mirrored at both ends, repeatedly if the distance exceeds the range.
                let (count, turn) = (i128::from(starts.count), 2 * i128::from(starts.count));
                let unfolded = (from + distance).rem_euclid(turn);
                starts.sector(if unfolded < count { unfolded } else { turn - 1 - unfolded } as u64)
            }
        }
    }
}
