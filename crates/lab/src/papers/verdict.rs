//! [`Judged`]: the agreement of a measured effect with a published one, in three values.
//!
//! A figure is judged by its 95 % interval, on both sides. It is *reproduced* if the whole interval
//! lies within the tolerance, *not reproduced* if the whole interval lies outside, and
//! *inconclusive* otherwise: an interval wider than the tolerance never reproduces anything, and
//! less data never turns a miss into an agreement.
//!
//! The effect is what the paper states. A gain of 13 % is +0.13 and not a ratio of 1.13, whose
//! neighborhood contains 1. Example: +0.13 published, a tolerance of 0.04. Measured +0.11 ± 0.01 is
//! reproduced, +0.02 ± 0.01 is not, and +0.11 ± 0.06 is inconclusive.
//!
//! A bound is judged by the end of the interval: 0 events of 10,000 reach up to 0.037 %
//! ([`Measured::proportion`]) and do not show "at most 0.01 %".

use serde::{Serialize, Serializer};

use crate::papers::{Estimated, Published, clopper_pearson};

/// The agreement of a row with its publication or target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowVerdict {
    /// The whole interval lies within the tolerance.
    Reproduced,
    /// The whole interval lies outside of the tolerance.
    NotReproduced,
    /// The interval lies on both sides, or there is none.
    Inconclusive,
}

/// A measured value and its 95 % interval, which need not be symmetric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The value.
    pub value: f64,
    /// The lower and the upper end; infinite where the run sets no bound, `None` where it says
    /// nothing about the precision.
    pub interval: Option<(f64, f64)>,
}

/// A measured figure beside a published one, with the verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The published figure.
    pub published: Published,
    /// The measured figure.
    pub measured: Measured,
    /// The verdict.
    pub verdict: RowVerdict,
    /// The tolerance and its reason, as text.
    pub tolerance: String,
    /// Distance of the measured value from the published value, range or bound, in its unit.
    pub off: f64,
}

impl RowVerdict {
    /// The words in tables and JSON.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
            Self::Inconclusive => "inconclusive",
        }
    }

    /// The verdict on a value that must lie from `least` to `most`.
    fn within(measured: Measured, least: f64, most: f64) -> Self {
        match measured.interval {
            Some((low, high)) if least <= low && high <= most => Self::Reproduced,
            Some((low, high)) if high < least || most < low => Self::NotReproduced,
            _ => Self::Inconclusive,
        }
    }
}

impl Serialize for RowVerdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.words())
    }
}

impl From<Estimated> for Measured {
    fn from(estimated: Estimated) -> Self {
        Self { value: estimated.value, interval: estimated.low().zip(estimated.high()) }
    }
}

impl Measured {
    /// A figure that is no sample of anything, such as a size or a count of this very run.
    pub const fn exact(value: f64) -> Self {
        Self { value, interval: Some((value, value)) }
    }

    /// The largest of what a run showed, as a statement about longer runs: no less, and no bound
    /// above.
    pub const fn maximum_so_far(value: f64) -> Self {
        Self { value, interval: Some((value, f64::INFINITY)) }
    }

    /// The share of `events` in `trials` independent ones, with the interval of Clopper and
    /// Pearson. No event in n trials reaches up to about 3.7 / n.
    ///
    /// # Panics
    /// With more events than trials, or without a trial.
    pub fn proportion(events: u64, trials: u64) -> Self {
        Self {
            value: events as f64 / trials as f64,
            interval: Some(clopper_pearson(events, trials)),
        }
    }

    /// The same in another unit, `factor` of which make one of this; positive.
    pub fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            interval: self.interval.map(|(low, high)| (low * factor, high * factor)),
        }
    }
}

impl Judged {
    /// A published effect, which `tolerance` (in its unit) surrounds on both sides.
    pub fn effect(
        published: f64,
        measured: impl Into<Measured>,
        tolerance: f64,
        reason: &str,
    ) -> Self {
        let judged = Self::between((published, published), measured, tolerance, reason);
        Self { published: Published::Number(published), ..judged }
    }

    /// A published equality or absence in words, such as "identical": an effect of 0.
    pub fn none(
        published: &'static str,
        measured: impl Into<Measured>,
        tolerance: f64,
        reason: &str,
    ) -> Self {
        Self::effect(0.0, measured, tolerance, reason).published(Published::Shape(published))
    }

    /// A published range, extended by `tolerance` (in its unit) at both ends.
    pub fn between(
        (least, most): (f64, f64),
        measured: impl Into<Measured>,
        tolerance: f64,
        reason: &str,
    ) -> Self {
        let measured = measured.into();
        let off = (measured.value - most).max(0.0) + (measured.value - least).min(0.0);
        Self {
            published: Published::Between(least, most),
            measured,
            verdict: RowVerdict::within(measured, least - tolerance, most + tolerance),
            tolerance: format!("± {} ({reason})", digits(tolerance)),
            off,
        }
    }

    /// "At most `limit`", judged by the upper end of the interval. `reason` says where the limit
    /// comes from.
    pub fn at_most(limit: f64, measured: impl Into<Measured>, reason: &str) -> Self {
        let measured = measured.into();
        Self {
            published: Published::AtMost(limit),
            measured,
            verdict: RowVerdict::within(measured, f64::NEG_INFINITY, limit),
            tolerance: format!("at most {} ({reason})", digits(limit)),
            off: measured.value - limit,
        }
    }

    /// "At least `limit`", judged by the lower end of the interval. `reason` says where the limit
    /// comes from.
    pub fn at_least(limit: f64, measured: impl Into<Measured>, reason: &str) -> Self {
        let measured = measured.into();
        Self {
            published: Published::AtLeast(limit),
            measured,
            verdict: RowVerdict::within(measured, limit, f64::INFINITY),
            tolerance: format!("at least {} ({reason})", digits(limit)),
            off: measured.value - limit,
        }
    }

    /// "One is above the other", by the difference or gain between them. A gain below `smallest`
    /// is none; `reason` says why it is so large or small.
    pub fn ordering(gain: impl Into<Measured>, smallest: f64, reason: &str) -> Self {
        Self::at_least(smallest, gain, reason).published(Published::Shape("above 0"))
    }

    /// The same with the publication in other words.
    pub fn published(self, published: Published) -> Self {
        Self { published, ..self }
    }

    /// The same as a target of the project: nothing is published.
    pub fn target(self) -> Self {
        self.published(Published::Nothing)
    }

    /// The sentence beside the verdict: for a figure that is not reproduced its distance and
    /// `why_not`, for an inconclusive one what is missing.
    pub fn sentence(&self, why_not: &str) -> Option<String> {
        match (self.verdict, self.measured.interval) {
            (RowVerdict::Reproduced, _) => None,
            (RowVerdict::NotReproduced, _) => {
                let sign = if self.off > 0.0 { "+" } else { "" };
                Some(format!("{sign}{} off the published value: {why_not}", digits(self.off)))
            }
            (RowVerdict::Inconclusive, None) => Some(NO_INTERVAL.to_string()),
            (RowVerdict::Inconclusive, Some(_)) => Some(TOO_WIDE.to_string()),
        }
    }
}

const NO_INTERVAL: &str =
    "The run is too short for an interval; more requests (--scale) may decide.";
const TOO_WIDE: &str =
    "The 95 % interval lies on both sides of a limit; more requests (--scale) narrow it.";

/// A number with three significant digits, without trailing zeros.
pub(crate) fn digits(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    rounded.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(value: f64, half_width: f64) -> Estimated {
        Estimated::new(value, Some(half_width))
    }

    #[test]
    fn an_effect_is_judged_on_both_sides_by_its_interval() {
        for (value, half_width, expected) in [
            (0.11, 0.01, RowVerdict::Reproduced),
            (0.15, 0.01, RowVerdict::Reproduced),
            (0.02, 0.01, RowVerdict::NotReproduced),
            (0.30, 0.01, RowVerdict::NotReproduced),
            // Less data is no agreement, not even exactly at the published value.
            (0.13, 0.05, RowVerdict::Inconclusive),
            (0.02, 0.10, RowVerdict::Inconclusive),
            (0.10, 0.02, RowVerdict::Inconclusive),
        ] {
            let judged = Judged::effect(0.13, gain(value, half_width), 0.04, "scatter of drives");
            assert_eq!(judged.verdict, expected, "{value} ± {half_width}");
        }
        let unknown = Judged::effect(0.13, Estimated::new(0.13, None), 0.04, "scatter");
        assert_eq!(unknown.verdict, RowVerdict::Inconclusive);
        // No effect at all is no reproduction of a gain of 13 %.
        assert_eq!(
            Judged::effect(0.13, Measured::exact(0.0), 0.04, "scatter").verdict,
            RowVerdict::NotReproduced
        );
    }

    #[test]
    fn a_bound_is_judged_by_the_end_of_the_interval() {
        let misses = |events, trials| {
            Judged::at_most(1e-4, Measured::proportion(events, trials), "target").verdict
        };
        assert_eq!(misses(0, 10_000), RowVerdict::Inconclusive);
        assert_eq!(misses(0, 50_000), RowVerdict::Reproduced);
        assert_eq!(misses(40, 100_000), RowVerdict::NotReproduced);
        let least =
            |value, half_width| Judged::at_least(0.95, gain(value, half_width), "target").verdict;
        assert_eq!(least(0.97, 0.01), RowVerdict::Reproduced);
        assert_eq!(least(0.97, 0.03), RowVerdict::Inconclusive);
        assert_eq!(least(0.90, 0.03), RowVerdict::NotReproduced);
        assert_eq!(
            Judged::at_most(5.0, Measured::maximum_so_far(4.0), "target").verdict,
            RowVerdict::Inconclusive
        );
        assert_eq!(
            Judged::at_most(5.0, Measured::maximum_so_far(6.0), "target").verdict,
            RowVerdict::NotReproduced
        );
    }

    #[test]
    fn no_gain_is_no_ordering() {
        let above = |value, half_width| Judged::ordering(gain(value, half_width), 0.01, "guess");
        assert_eq!(above(0.0, 0.005).verdict, RowVerdict::NotReproduced);
        assert_eq!(above(0.0, 0.05).verdict, RowVerdict::Inconclusive);
        assert_eq!(above(0.05, 0.01).verdict, RowVerdict::Reproduced);
    }

    #[test]
    fn a_sentence_names_the_distance_or_what_is_missing() {
        let judged = Judged::effect(0.13, gain(0.02, 0.01), 0.04, "scatter of drives");
        assert_eq!(judged.tolerance, "± 0.04 (scatter of drives)");
        assert_eq!(
            judged.sentence("the arm is slower.").as_deref(),
            Some("-0.11 off the published value: the arm is slower.")
        );
        let wide = Judged::effect(0.13, gain(0.13, 0.2), 0.04, "scatter").sentence("");
        assert_eq!(wide.as_deref(), Some(TOO_WIDE));
    }
}
