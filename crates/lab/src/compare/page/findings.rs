//! What the figures say, in sentences.

use super::{Scene, View, at_depth};
use crate::compare::outcome::Figures;
use crate::compare::results::{CaseResult, Entry};
use crate::compare::statistics::{Best, Metric, totals};

/// The page's first words.
pub(super) fn headline(view: &View<'_>) -> String {
    let (rate, tail) =
        (Metric::named("progress_harmonic_mean"), Metric::named("equal_load_response_ms_p99"));
    let said = |leading: &Leading, one: &str, many: &str| {
        format!(
            "{} {} {}",
            view.names(&leading.places),
            if leading.places.len() == 1 { one } else { many },
            leading.often()
        )
    };
    match (max_often(view, rate), max_often(view, tail)) {
        (Some(fast), Some(soon)) if fast.places == soon.places => {
            let answer = if soon.places.len() == 1 { "answers" } else { "answer" };
            format!(
                "{} and {answer} 99 % soonest at equal load {}",
                said(&fast, FASTEST, FASTEST_OF_SEVERAL),
                soon.often()
            )
        }
        (Some(fast), Some(soon)) => {
            format!(
                "{}; {}",
                said(&fast, FASTEST, FASTEST_OF_SEVERAL),
                said(&soon, SOONEST, SOONEST_OF_SEVERAL)
            )
        }
        (Some(fast), None) => format!(
            "{}; no policy answers 99 % sooner than all others at equal load",
            said(&fast, FASTEST, FASTEST_OF_SEVERAL)
        ),
        (None, Some(soon)) => format!(
            "{}; streams progress alike under all",
            said(&soon, SOONEST, SOONEST_OF_SEVERAL)
        ),
        (None, None) if view.comparison.plan.policies.len() < 2 => {
            format!("{} alone, without a comparison", view.policy(0))
        }
        (None, None) => "No policy is ahead of the others".to_string(),
    }
}

const FASTEST: &str = "has the highest progress of streams";
const FASTEST_OF_SEVERAL: &str = "have the highest progress of streams";
const SOONEST: &str = "answers 99 % soonest at equal load";
const SOONEST_OF_SEVERAL: &str = "answer 99 % soonest at equal load";

/// The policies that are among the best by a metric in more cases than any other.
pub(super) struct Leading {
    /// The policies: one, or several that do not differ.
    pub(super) places: Vec<usize>,
    cases: usize,
    of: usize,
}

impl Leading {
    fn often(&self) -> String {
        match (self.cases, self.of) {
            (1, 1) => "here".to_string(),
            (cases, of) if cases == of => "everywhere".to_string(),
            (cases, of) => format!("in {cases} of {of} cases"),
        }
    }
}

/// The policies that are among the best by `metric` in most cases, and of these the one that leads
/// alone most often; `None` if no case has a loser.
fn max_often(view: &View<'_>, metric: &Metric) -> Option<Leading> {
    let bests: Vec<Best> = view
        .comparison
        .cases
        .iter()
        .filter_map(|case| view.comparison.best(case, metric))
        .collect();
    let decided = || bests.iter().filter(|best| best.tells_apart());
    let wins = |place: &usize| {
        let among = decided().filter(|best| best.places.contains(place));
        (among.clone().count(), among.filter(|best| best.places.len() == 1).count())
    };
    let all = 0..view.comparison.plan.policies.len();
    let most = all.clone().map(|place| wins(&place)).max().filter(|(cases, _)| *cases > 0)?;
    Some(Leading {
        places: all.filter(|place| wins(place) == most).collect(),
        cases: most.0,
        of: bests.len(),
    })
}

/// A sentence for each metric of the first screen: the best policy, the number of cases, and its
/// largest gain over the baseline.
pub(super) fn verdicts(view: &View<'_>) -> Vec<(&'static str, Vec<usize>, String)> {
    let mut keys = vec![
        ("Highest progress of streams (harmonic mean)", "progress_harmonic_mean"),
        ("Highest sum of progress", "progress_sum"),
        ("Most requests served", "iops"),
        ("99 % answered soonest at equal load", "equal_load_response_ms_p99"),
    ];
    keys.extend(view.deadlines.then_some(("Fewest deadlines missed", "deadline_miss_share")));
    let verdict = |(words, key): (&'static str, &str)| {
        let metric = Metric::named(key);
        let Some(leading) = max_often(view, metric) else {
            return (words, Vec::new(), "no policy is ahead of the others".to_string());
        };
        let how = format!("{}{}", leading.often(), furthest(view, metric, leading.places[0]));
        (words, leading.places, how)
    };
    keys.into_iter().map(verdict).collect()
}

/// The case in which a policy that is among the best is furthest ahead of the baseline, in a
/// half-sentence; nothing for the baseline itself.
fn furthest(view: &View<'_>, metric: &Metric, place: usize) -> String {
    let baseline = view.comparison.plan.baseline;
    if place == baseline {
        return String::new();
    }
    // Only significant differences count: the largest of all differences belongs to the least
    // certain figures.
    let told_apart = |case: &&CaseResult| {
        view.comparison
            .best(case, metric)
            .is_some_and(|best| best.places.contains(&place) && !best.places.contains(&baseline))
    };
    let ahead = view.comparison.cases.iter().filter(told_apart).filter_map(|case| {
        let (mine, theirs) = (entry(case, place)?, entry(case, baseline)?);
        let (mine, theirs) = (totals(&mine.outcomes()), totals(&theirs.outcomes()));
        let (own, other) = (metric.estimate(&mine)?.value, metric.estimate(&theirs)?.value);
        let ahead = if metric.more { own - other } else { other - own };
        // A baseline of zero has no share.
        (other != 0.0).then(|| (ahead / other, case, own, other))
    });
    let Some((_, case, own, other)) =
        ahead.max_by(|one, next| one.0.total_cmp(&next.0)).filter(|(ahead, ..)| *ahead > 0.0)
    else {
        return String::new();
    };
    let unit = if metric.is_share { String::new() } else { format!(" {}", metric.unit) };
    let by = match (metric.more, own / other) {
        (true, times) if times >= 2.0 => format!("{times:.1} times as much as"),
        (true, times) => format!("{:.0} % more than", (times - 1.0) * 100.0),
        (false, share) => format!("{:.0} % less than", (1.0 - share) * 100.0),
    };
    let (own, other) = ((metric.show)(own), (metric.show)(other));
    format!(
        ", {by} {} at the most ({own} against {other}{unit}: {})",
        view.policy(baseline),
        view.comparison.plan.name(&case.case)
    )
}

/// The finding on a scene's request rates.
pub(super) fn of_rates(view: &View<'_>, case: &CaseResult) -> String {
    let metric = Metric::named("iops");
    let Some((best, value)) = leader(view, case, metric) else {
        return "Nothing was served".to_string();
    };
    let at = at_depth(case);
    if best.all_alike() {
        return format!("All serve about {} requests/s{at}", (metric.show)(value));
    }
    let against = ratio(case, metric, best.places[0], view.comparison.plan.baseline).map_or_else(
        String::new,
        |ratio| {
            format!(", {ratio:.2} times what {} does", view.policy(view.comparison.plan.baseline))
        },
    );
    format!(
        "{} {} {} requests/s{at}{against}",
        view.names(&best.places),
        if best.places.len() == 1 { "serves" } else { "serve" },
        (metric.show)(value)
    )
}

/// The finding on a scene's mean response times.
pub(super) fn of_means(view: &View<'_>, case: &CaseResult) -> String {
    let metric = Metric::named("response_ms_mean");
    let Some((best, value)) = leader(view, case, metric) else {
        return "Nothing was answered".to_string();
    };
    if best.all_alike() {
        return format!(
            "All answer within about {} ms on average{}",
            (metric.show)(value),
            at_depth(case)
        );
    }
    let verb = if best.places.len() == 1 { "answers" } else { "answer" };
    format!(
        "{} {verb} within {} ms on average{}{}",
        view.names(&best.places),
        (metric.show)(value),
        at_depth(case),
        worst(view, case, metric, "needs", " ms")
    )
}

/// The finding on the tails of a scene's response times.
pub(super) fn of_tails(view: &View<'_>, case: &CaseResult) -> String {
    let metric = Metric::named("response_ms_p99");
    let Some((best, value)) = leader(view, case, metric) else {
        return "Nothing was answered".to_string();
    };
    if best.all_alike() {
        return format!(
            "99 % end within about {} ms under all{}",
            (metric.show)(value),
            at_depth(case)
        );
    }
    format!(
        "99 % end within {} ms under {}{}{}",
        (metric.show)(value),
        view.names(&best.places),
        at_depth(case),
        worst(view, case, metric, "needs", " ms")
    )
}

/// The finding on a scene's throughput against its tail.
pub(super) fn of_trade_off(view: &View<'_>, case: &CaseResult) -> String {
    let rate = leader(view, case, Metric::named("iops"));
    let tail = leader(view, case, Metric::named("response_ms_p99"));
    let at = at_depth(case);
    let (Some((rate, _)), Some((tail, _))) = (rate, tail) else {
        return "Nothing was answered".to_string();
    };
    let (fast, soon) = (view.policy(rate.places[0]), view.policy(tail.places[0]));
    if fast == soon {
        format!("{fast} leads in both{at}: nothing is traded")
    } else if tail.places.contains(&rate.places[0]) {
        format!(
            "{fast} serves most{at}; its 99 % do not differ significantly from those of {soon}, \
                the soonest"
        )
    } else if rate.places.contains(&tail.places[0]) {
        format!(
            "{soon} answers 99 % soonest{at}; its throughput does not differ significantly from \
                that of {fast}, the most"
        )
    } else {
        format!("{fast} serves most, {soon} answers 99 % soonest{at}: no policy leads in both")
    }
}

/// The finding on a scene's deadlines.
pub(super) fn of_deadlines(view: &View<'_>, case: &CaseResult) -> String {
    let metric = Metric::named("deadline_miss_share");
    let Some((best, value)) = leader(view, case, metric) else {
        return "No request had a deadline".to_string();
    };
    if best.all_alike() {
        return format!(
            "All miss about {} of their deadlines{}",
            (metric.show)(value),
            at_depth(case)
        );
    }
    let verb = if best.places.len() == 1 { "misses" } else { "miss" };
    format!(
        "{} {verb} {} of the deadlines{}{}",
        view.names(&best.places),
        (metric.show)(value),
        at_depth(case),
        worst(view, case, metric, "misses", "")
    )
}

/// The finding on the drive's time: positioning is what a scheduler can save.
pub(super) fn of_disk_time(view: &View<'_>, case: &CaseResult) -> String {
    let known: Vec<(usize, f64)> = case
        .entries
        .iter()
        .filter(|entry| !view.oracle(entry.policy))
        .filter_map(|entry| Some((entry.policy, positioning_ms(entry)?)))
        .collect();
    let least = known.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let most = known.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    match (least, most) {
        (Some(least), Some(most)) if most.1 > least.1 * 1.02 => format!(
            "Each request costs {} {:.1} ms of seeking and waiting for rotation{}, and {} {:.1} ms",
            view.policy(least.0),
            least.1,
            at_depth(case),
            view.policy(most.0),
            most.1
        ),
        (Some(least), _) => format!(
            "Each request costs about {:.1} ms of seeking and waiting for rotation{}",
            least.1,
            at_depth(case)
        ),
        _ => "Nothing was served".to_string(),
    }
}

/// Seek and rotation for each request, in milliseconds, over all replicas.
pub(super) fn positioning_ms(entry: &Entry) -> Option<f64> {
    let outcomes = entry.outcomes();
    let sums = outcomes.iter().flatten().map(|outcome| {
        let time = outcome.simulated_seconds * (outcome.disk_time.seek + outcome.disk_time.rotate);
        (time * 1e3, outcome.total.requests as f64)
    });
    let (time, requests) = sums.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (requests > 0.0).then(|| time / requests)
}

/// The entry of a policy in a case.
pub(super) fn entry(case: &CaseResult, place: usize) -> Option<&Entry> {
    case.entries.iter().find(|entry| entry.policy == place)
}

fn leader(view: &View<'_>, case: &CaseResult, metric: &Metric) -> Option<(Best, f64)> {
    let best = view.comparison.best(case, metric)?;
    let outcomes = entry(case, best.places[0])?.outcomes();
    let value = metric.estimate(&totals(&outcomes))?.value;
    Some((best, value))
}

/// The last of the policies that are not oracles, as a clause that follows the first one.
fn worst(view: &View<'_>, case: &CaseResult, metric: &Metric, verb: &str, unit: &str) -> String {
    let known =
        case.entries.iter().filter(|entry| !view.oracle(entry.policy)).filter_map(|entry| {
            let outcomes = entry.outcomes();
            Some((entry.policy, metric.estimate(&totals(&outcomes))?.value))
        });
    let last = known.reduce(|last, next| if metric.better(last.1, next.1) { next } else { last });
    last.map_or_else(String::new, |(place, value)| {
        format!("; {} {verb} {}{unit}", view.policy(place), (metric.show)(value))
    })
}

fn ratio(case: &CaseResult, metric: &Metric, place: usize, other: usize) -> Option<f64> {
    let value = |place| {
        let outcomes = entry(case, place)?.outcomes();
        let figures: Vec<Option<&Figures>> = totals(&outcomes);
        Some(metric.estimate(&figures)?.value)
    };
    let (mine, theirs) = (value(place)?, value(other)?);
    (place != other && theirs > 0.0).then(|| mine / theirs)
}

/// The summary of a scene.
pub(super) fn of_scene(view: &View<'_>, scene: &Scene<'_>) -> String {
    let case = scene.focus();
    if view.comparison.best(case, Metric::named("iops")).is_some_and(|best| best.tells_apart()) {
        of_rates(view, case)
    } else {
        of_means(view, case)
    }
}
