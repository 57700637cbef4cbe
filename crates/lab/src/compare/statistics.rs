//! What runs say together: means over replicas with 95 % intervals, differences against a baseline
//! in pairs, and the best policies.
//!
//! With two replicas or more, intervals are Student's over replicas, and a difference is the mean
//! of the replicas' differences: both policies had the same unit and the same requests, and what
//! those did to both cancels. With one replica, intervals of means come from batches of that one
//! run, percentiles have none, and the interval of a difference is as wide as if the two runs had
//! nothing in common.
//!
//! Worked example: three replicas give a baseline 100, 110 and 120 requests a second and a policy
//! 104, 113 and 125. The differences are 4, 3 and 5: mean 4, standard deviation 1, and with two
//! degrees of freedom 4 ± 4.303 · 1/√3 = 4 ± 2.48. Unpaired, 4 would drown in the ± 25 of either.

use crate::papers::Estimated;

use super::outcome::{CellOutcome, CellStatus, Figures};
use headtime_console::figures::{show_ms, show_percent};

/// A figure by which policies are compared.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Its name in files, with the unit.
    pub key: &'static str,
    /// Its name for people, without.
    pub title: &'static str,
    /// Its unit for people.
    pub unit: &'static str,
    /// True if larger is better.
    pub more: bool,
    /// The figure of one run; `None` when it has none.
    pub of: fn(&Figures) -> Option<f64>,
    /// Half the width of its 95 % interval from that run alone; `None` when one run does not tell.
    pub alone: fn(&Figures) -> Option<f64>,
    /// As text, without the unit.
    pub show: fn(f64) -> String,
    /// True for a share, whose differences are in percentage points.
    pub is_share: bool,
}

/// A time that is better if it is shorter, without an interval of one run.
const TIME: Metric = Metric {
    key: "",
    title: "",
    unit: "ms",
    more: false,
    of: |_| None,
    alone: |_| None,
    show: show_ms,
    is_share: false,
};

/// A rate that is better if it is larger.
const PROGRESS: Metric = Metric {
    unit: "of rates alone",
    more: true,
    alone: half_width_of_progress,
    show: show_rate,
    ..TIME
};

/// Every figure by which policies are compared.
pub const METRICS: &[Metric] = &[
    Metric {
        key: "progress",
        title: "progress",
        unit: "of the rate alone",
        of: |figures| figures.progress,
        ..PROGRESS
    },
    Metric {
        key: "progress_sum",
        title: "sum of progress",
        of: |figures| figures.progress_sum,
        ..PROGRESS
    },
    Metric {
        key: "progress_harmonic_mean",
        title: "harmonic mean of progress",
        of: |figures| figures.progress_harmonic_mean,
        ..PROGRESS
    },
    Metric {
        key: "equal_load_response_ms_p99",
        title: "response within which 99 % end at equal load",
        of: |figures| figures.equal_load.map(|equal_load| equal_load.response_ms_p99),
        ..TIME
    },
    Metric {
        key: "iops",
        title: "throughput",
        unit: "requests/s",
        of: |figures| Some(figures.iops),
        alone: |figures| figures.iops_half_width_95,
        ..PROGRESS
    },
    Metric {
        key: "mib_per_second",
        title: "throughput",
        unit: "MiB/s",
        of: |figures| Some(figures.mib_per_second),
        // Bytes of requests do not depend on when they are served, so the two rates are as unsure
        // as each other.
        alone: |figures| {
            figures.iops_half_width_95.map(|half_width| {
                half_width / figures.iops.max(f64::MIN_POSITIVE) * figures.mib_per_second
            })
        },
        ..PROGRESS
    },
    Metric {
        key: "response_ms_mean",
        title: "mean response",
        of: |figures| response(figures, figures.response_ms.mean),
        alone: |figures| figures.response_ms_mean_half_width_95,
        ..TIME
    },
    Metric {
        key: "response_ms_p50",
        title: "median response",
        of: |figures| response(figures, figures.response_ms.p50),
        ..TIME
    },
    Metric {
        key: "response_ms_p95",
        title: "response within which 95 % end",
        of: |figures| response(figures, figures.response_ms.p95),
        ..TIME
    },
    Metric {
        key: "response_ms_p99",
        title: "response within which 99 % end",
        of: |figures| response(figures, figures.response_ms.p99),
        ..TIME
    },
    Metric {
        key: "response_ms_p999",
        title: "response within which 99.9 % end",
        of: |figures| response(figures, figures.response_ms.p999),
        ..TIME
    },
    Metric {
        key: "response_ms_max",
        title: "longest response",
        of: |figures| response(figures, figures.response_ms.max),
        ..TIME
    },
    Metric {
        key: "deadline_miss_share",
        title: "deadlines missed",
        unit: "of those due",
        of: Figures::miss_share,
        show: show_percent,
        is_share: true,
        ..TIME
    },
];

impl Metric {
    /// The metric of this name.
    ///
    /// # Panics
    /// When there is none: the name is a constant of the program.
    pub fn named(key: &str) -> &'static Self {
        METRICS
            .iter()
            .find(|metric| metric.key == key)
            .unwrap_or_else(|| panic!("{key} stands in the table of metrics"))
    }

    /// The mean over the replicas; `None` if none of them has the figure, or if some ran without
    /// it, as at equal load under an overloaded policy: the others are the fortunate ones.
    pub fn estimate(&self, replicas: &[Option<&Figures>]) -> Option<Estimated> {
        let known: Vec<(&Figures, f64)> = replicas
            .iter()
            .flatten()
            .filter_map(|figures| Some((*figures, (self.of)(figures)?)))
            .collect();
        // A run without a deadline tells nothing about misses and is no bad sign.
        let some_lack_it = known.len() < replicas.iter().flatten().count() && !self.is_share;
        match known.as_slice() {
            [] => None,
            _ if some_lack_it => None,
            [(figures, value)] => {
                Some(Estimated::new(*value, (self.alone)(figures).filter(|_| replicas.len() == 1)))
            }
            several => Some(Estimated::of_runs(
                &several.iter().map(|(_, value)| *value).collect::<Vec<_>>(),
            )),
        }
    }

    /// The difference of `replicas` from those of the baseline, in pairs; `None` if there is
    /// nothing to compare.
    pub fn difference(
        &self,
        replicas: &[Option<&Figures>],
        baseline: &[Option<&Figures>],
    ) -> Option<PairedDifference> {
        self.estimate(replicas).and(self.estimate(baseline))?;
        let both =
            replicas.iter().zip(baseline).filter_map(|(mine, theirs)| Some(((*mine)?, (*theirs)?)));
        let pairs: Vec<_> = both
            .filter_map(|(mine, theirs)| Some((mine, theirs, (self.of)(mine)?, (self.of)(theirs)?)))
            .collect();
        let by = match pairs.as_slice() {
            [] => return None,
            [(mine, theirs, value, against)] => {
                let half_widths =
                    (self.alone)(mine).zip((self.alone)(theirs)).filter(|_| replicas.len() == 1);
                Estimated::new(
                    value - against,
                    half_widths.map(|(mine, theirs)| libm::hypot(mine, theirs)),
                )
            }
            several => Estimated::of_runs(
                &several.iter().map(|(.., value, against)| value - against).collect::<Vec<_>>(),
            ),
        };
        let base = pairs.iter().map(|(.., against)| against).sum::<f64>() / pairs.len() as f64;
        Some(PairedDifference {
            by,
            share: (base != 0.0).then(|| by.times(1.0 / base)),
            paired: pairs.len() > 1,
        })
    }

    /// The figure with its interval, without the unit.
    pub fn text(&self, estimated: Estimated) -> String {
        let value = (self.show)(estimated.value);
        match estimated.half_width {
            // One sign for both: 31 ± 9.7 %.
            Some(half_width) => {
                format!("{} ± {}", value.trim_end_matches(" %"), (self.show)(half_width))
            }
            None => value,
        }
    }

    /// A difference as text: in percent of the other's figure with its interval, or in percentage
    /// points of a share.
    pub fn difference_text(&self, difference: &PairedDifference) -> String {
        let (shown, unit) = match difference.share {
            _ if self.is_share => (difference.by, "points"),
            Some(share) => (share, "%"),
            None => return String::new(),
        };
        let percent = |share: f64| {
            let percent = share.abs() * 100.0;
            if percent < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
        };
        let sign = match shown.value {
            value if value < 0.0 => "−",
            value if value > 0.0 => "+",
            _ => "±",
        };
        let within = shown
            .half_width
            .map_or_else(String::new, |half_width| format!(" ± {}", percent(half_width)));
        format!("{sign}{}{within} {unit}", percent(shown.value))
    }

    /// Returns true if the first figure is better than the second.
    pub fn better(&self, one: f64, other: f64) -> bool {
        if self.more { one > other } else { one < other }
    }
}

/// The difference between two policies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedDifference {
    /// In the figure's unit.
    pub by: Estimated,
    /// As a share of the other's figure; `None` where that is nothing.
    pub share: Option<Estimated>,
    /// True if it was computed in pairs of replicas.
    pub paired: bool,
}

impl PairedDifference {
    /// Returns true if the interval excludes zero; `None` without an interval.
    pub fn is_sure(&self) -> Option<bool> {
        self.by.half_width.map(|half_width| self.by.value.abs() > half_width)
    }
}

/// The best policies by one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// Places of the leader and of all that are not surely worse, the leader first.
    pub places: Vec<usize>,
    /// True if the leader was compared with the others by intervals; otherwise only by values.
    pub tested: bool,
    /// The number of candidates.
    pub of: usize,
}

impl Best {
    /// Returns true if some policy is significantly worse than the leader.
    pub fn tells_apart(&self) -> bool {
        self.places.len() < self.of
    }

    /// Returns true if there are several and none differs significantly from the leader.
    pub fn all_alike(&self) -> bool {
        self.of > 1 && !self.tells_apart()
    }
}

/// One policy of a case, as far as [`best`] looks at it.
pub struct RankedPolicy<'a> {
    /// Its place.
    pub place: usize,
    /// Its replicas.
    pub replicas: Vec<Option<&'a Figures>>,
    /// True if it may be named best: not an oracle and not overloaded.
    pub eligible: bool,
}

/// The best of the eligible policies by `metric`; `None` if no policy has the figure.
pub fn best(metric: &Metric, candidates: &[RankedPolicy<'_>]) -> Option<Best> {
    let known: Vec<(&RankedPolicy<'_>, Estimated)> = candidates
        .iter()
        .filter(|candidate| candidate.eligible)
        .filter_map(|candidate| Some((candidate, metric.estimate(&candidate.replicas)?)))
        .collect();
    // Of equals the first stays.
    let (leader, _) = known.iter().reduce(|first, next| {
        if metric.better(next.1.value, first.1.value) { next } else { first }
    })?;
    let mut places = vec![leader.place];
    let mut tested = known.len() > 1;
    for (other, _) in known.iter().filter(|(other, _)| other.place != leader.place) {
        let Some(difference) = metric.difference(&other.replicas, &leader.replicas) else {
            continue;
        };
        let sure = difference.is_sure();
        tested &= sure.is_some();
        if !sure.unwrap_or(difference.by.value != 0.0) {
            places.push(other.place);
        }
    }
    Some(Best { places, tested, of: known.len() })
}

/// The figures of all requests of each replica, for [`Metric::estimate`].
pub fn totals<'a>(outcomes: &[Option<&'a CellOutcome>]) -> Vec<Option<&'a Figures>> {
    outcomes.iter().map(|outcome| outcome.map(|outcome| &outcome.total)).collect()
}

/// The worst that any replica says.
pub fn worst_status(outcomes: &[Option<&CellOutcome>]) -> CellStatus {
    let status =
        |outcome: &Option<&CellOutcome>| outcome.map_or(CellStatus::Failed, |it| it.status());
    outcomes.iter().map(status).max().unwrap_or(CellStatus::Empty)
}

/// A response time, `None` when nothing responded.
fn response(figures: &Figures, ms: f64) -> Option<f64> {
    (figures.requests > 0).then_some(ms)
}

/// Progress is the rate ÷ a rate that all policies share, and as unsure; of several streams one run
/// does not tell.
fn half_width_of_progress(figures: &Figures) -> Option<f64> {
    Some(figures.iops_half_width_95? / figures.iops.max(f64::MIN_POSITIVE) * figures.progress?)
}

/// A rate with about three significant digits.
pub fn show_rate(rate: f64) -> String {
    match rate.abs() {
        size if size >= 100.0 => format!("{rate:.0}"),
        size if size >= 10.0 => format!("{rate:.1}"),
        _ => format!("{rate:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::outcome::EqualLoad;
    use crate::compare::outcome::tests::outcome;

    fn runs(rates: &[f64]) -> Vec<Figures> {
        rates
            .iter()
            .map(|iops| Figures {
                requests: 100,
                iops: *iops,
                iops_half_width_95: Some(3.0),
                ..Figures::default()
            })
            .collect()
    }

    fn some(runs: &[Figures]) -> Vec<Option<&Figures>> {
        runs.iter().map(Some).collect()
    }

    /// The worked example above, by hand.
    #[test]
    fn a_difference_is_taken_replica_by_replica() {
        let (baseline, policy) = (runs(&[100.0, 110.0, 120.0]), runs(&[104.0, 113.0, 125.0]));
        let iops = Metric::named("iops");
        let difference = iops.difference(&some(&policy), &some(&baseline)).expect("both ran");
        assert_eq!(
            (difference.by.value, difference.paired, difference.is_sure()),
            (4.0, true, Some(true))
        );
        let half_width = difference.by.half_width.expect("there are three replicas");
        assert!((half_width - 4.303 / 3.0_f64.sqrt()).abs() < 1e-12, "{half_width}");
        assert_eq!(iops.difference_text(&difference), "+3.6 ± 2.3 %");
        let alone = iops.estimate(&some(&baseline)).expect("it ran");
        assert!(
            (alone.half_width.expect("three replicas") - 4.303 * 10.0 / 3.0_f64.sqrt()).abs()
                < 1e-9
        );
    }

    #[test]
    fn one_run_has_the_interval_of_its_batches_and_a_difference_of_two_is_not_paired() {
        let (baseline, policy) = (runs(&[100.0]), runs(&[104.0]));
        let iops = Metric::named("iops");
        assert_eq!(iops.estimate(&some(&policy)), Some(Estimated::new(104.0, Some(3.0))));
        let difference = iops.difference(&some(&policy), &some(&baseline)).expect("both ran");
        assert_eq!(
            difference,
            PairedDifference {
                by: Estimated::new(4.0, Some(18.0_f64.sqrt())),
                share: difference.share,
                paired: false
            }
        );
        assert_eq!(difference.is_sure(), Some(false));
        let p99 = Metric::named("response_ms_p99");
        assert_eq!(
            p99.estimate(&some(&policy)),
            Some(Estimated::new(0.0, None)),
            "one run says nothing about its percentiles"
        );
    }

    #[test]
    fn a_policy_with_a_failed_replica_has_failed() {
        let ran = outcome(100.0);
        assert_eq!(worst_status(&[Some(&ran), Some(&ran)]), CellStatus::Fine);
        assert_eq!(worst_status(&[Some(&ran), None]), CellStatus::Failed);
    }

    #[test]
    fn a_replica_that_failed_is_missing_on_both_sides() {
        let (baseline, policy) = (runs(&[100.0, 110.0, 120.0]), runs(&[104.0, 113.0, 125.0]));
        let mut with_gap = some(&policy);
        with_gap[2] = None;
        let difference = Metric::named("iops")
            .difference(&with_gap, &some(&baseline))
            .expect("two of three ran");
        assert_eq!(difference.by.value, 3.5);
        with_gap[1] = None;
        let difference = Metric::named("iops")
            .difference(&with_gap, &some(&baseline))
            .expect("one of three ran");
        assert_eq!((difference.by, difference.paired), (Estimated::new(4.0, None), false));
        assert_eq!(Metric::named("iops").difference(&[None], &[None]), None);
    }

    /// Of three runs at equal load, the drive kept up with two.
    #[test]
    fn a_policy_that_was_overloaded_in_one_replica_has_no_mean_of_the_others() {
        let loaded = |p99: Option<f64>| Figures {
            equal_load: p99
                .map(|response_ms_p99| EqualLoad { response_ms_p99, ..Default::default() }),
            ..Figures::default()
        };
        let (steady, fortunate) = (
            [Some(90.0), Some(100.0), Some(110.0)].map(loaded),
            [Some(50.0), Some(60.0), None].map(loaded),
        );
        let p99 = Metric::named("equal_load_response_ms_p99");
        assert_eq!(p99.estimate(&some(&fortunate)), None);
        assert_eq!(p99.difference(&some(&fortunate), &some(&steady)), None);
        let of = |place, figures| RankedPolicy { place, replicas: some(figures), eligible: true };
        let best = best(p99, &[of(0, &steady), of(1, &fortunate)]).expect("one kept up");
        assert_eq!(best.places, [0]);
    }

    #[test]
    fn the_best_are_the_leader_and_all_that_are_not_significantly_worse() {
        let (slow, fast, close) = (
            runs(&[100.0, 110.0, 120.0]),
            runs(&[104.0, 113.0, 125.0]),
            runs(&[104.5, 112.0, 124.0]),
        );
        let of =
            |place, figures, eligible| RankedPolicy { place, replicas: some(figures), eligible };
        let iops = Metric::named("iops");
        let candidates = [of(0, &slow, true), of(1, &fast, true), of(2, &close, true)];
        assert_eq!(best(iops, &candidates), Some(Best { places: vec![1, 2], tested: true, of: 3 }));
        let candidates = [of(0, &slow, true), of(1, &fast, false), of(2, &slow, true)];
        assert_eq!(
            best(iops, &candidates),
            Some(Best { places: vec![0, 2], tested: true, of: 2 }),
            "an oracle is not praised"
        );
        assert_eq!(best(iops, &[]), None);
        let p99 = Metric::named("response_ms_p99");
        let one = runs(&[100.0]);
        assert_eq!(
            best(p99, &[of(0, &one, true), of(1, &one, true)]),
            Some(Best { places: vec![0, 1], tested: false, of: 2 })
        );
    }

    #[test]
    fn differences_read_as_signed_shares_and_those_of_shares_as_points() {
        let text = |metric: &str, value, half_width, base: f64| {
            let by = Estimated::new(value, half_width);
            Metric::named(metric).difference_text(&PairedDifference {
                by,
                share: (base != 0.0).then(|| by.times(1.0 / base)),
                paired: true,
            })
        };
        assert_eq!(text("iops", 85.0, Some(2.0), 100.0), "+85 ± 2.0 %");
        assert_eq!(text("iops", -8.5, None, 100.0), "−8.5 %");
        assert_eq!(text("iops", 0.0, Some(0.0), 100.0), "±0.0 ± 0.0 %");
        assert_eq!(text("iops", 1.0, None, 0.0), "");
        assert_eq!(text("deadline_miss_share", -0.25, Some(0.01), 0.0), "−25 ± 1.0 points");
        assert_eq!(
            Metric::named("deadline_miss_share").text(Estimated::new(0.31, Some(0.097))),
            "31 ± 9.7 %"
        );
    }
}
