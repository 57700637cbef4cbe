//! The first screen: the best policies by metric, with numbers and intervals.

use std::collections::BTreeSet;

use headtime_io::ModelSource;
use maud::{Markup, html};

use super::{View, capital, findings, left_out};
use crate::compare::outcome::CellStatus;
use crate::compare::results::{CaseResult, Entry};
use crate::compare::statistics::{Metric, totals};

pub(super) fn first(view: &View<'_>, headline: &str) -> Markup {
    let plan = &view.comparison.plan;
    let spec = &plan.spec;
    let of =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let count =
        plan.policies.iter().map(|policy| policy.policy.as_str()).collect::<BTreeSet<_>>().len();
    let policies = if count == 1 { "1 policy".to_string() } else { format!("{count} policies") };
    let models = match plan.beliefs.as_slice() {
        [one] if one.text == ModelSource::Profile.to_string() => String::new(),
        [one] => format!(" by drive model {}", one.text),
        several => format!(" by {} drive models", several.len()),
    };
    let entries = view.comparison.cases.iter().flat_map(|case| &case.entries);
    let runs = entries.map(|entry| entry.replicas.len()).sum();
    let mut maps =
        vec![("Highest progress of streams", "progress_harmonic_mean"), SOONEST_AT_EQUAL_LOAD];
    maps.extend(view.deadlines.then_some(("Fewest deadlines missed", "deadline_miss_share")));
    html! {
        header {
            h1 { (headline) }
            p.lead {
                (policies) (models) " on " (of(plan.drives.len(), "drive")) " under "
                (of(plan.workloads.len(), "workload")) ": " (of(runs, "run")) " of "
                (spec.length()) " each, simulated by headtime "
                (env!("CARGO_PKG_VERSION")) " with seed " (spec.seed.value)
                @if spec.replicas.value > 1 { " and the " (spec.replicas.value - 1) " after it" }
                "."
            }
            ul.verdicts { @for (words, places, how) in findings::verdicts(view) { li {
                span { (words) }
                div {
                    @for place in places.iter().take(3) { (view.chip(*place)) " " }
                    @if places.len() > 3 { "and " (places.len() - 3) " more " }
                    (how)
                }
            } } }
            (warnings(view))
        }
        section.maps {
            @for (title, key) in maps { (map(view, title, Metric::named(key))) }
        }
    }
}

/// The second map: a closed loop's own times favor the policy that serves less.
const SOONEST_AT_EQUAL_LOAD: (&str, &str) =
    ("99 % answered soonest at equal load", "equal_load_response_ms_p99");

/// The reservations about the figures.
fn warnings(view: &View<'_>) -> Markup {
    let statuses = [
        (
            CellStatus::Overloaded,
            "requests came faster than the drive could serve them; response times are those until \
                the run ended and would go on growing",
        ),
        (
            CellStatus::NotSteady,
            "the first and the second half of the counted requests differ by more than their \
                intervals: the warm-up is too short, or the load changes",
        ),
        (
            CellStatus::Empty,
            "the workload ended within the warm-up, nothing was counted: ask for fewer --requests \
                or --seconds, or a shorter --warmup",
        ),
    ];
    let failures = &view.comparison.failures;
    let left = &view.comparison.plan.left_out;
    html! {
        @for (status, words) in statuses {
            @if let Some(which) = with_status(view, status) {
                p.note { b { (capital(status.word())) } " – " (words) " (" (which) ")." }
            }
        }
        @if let Some((name, reason)) = failures.first() {
            p.note { b { (failures.len()) " runs failed" } " – " (name) ": " (reason) "." }
        }
        @if let [only] = left.as_slice() {
            p.note { "Left out – " (left_out(only)) "." }
        } @else if !left.is_empty() {
            p.note {
                a href="#method" { (left.len()) " combinations are left out" }
                ", each with its reason below."
            }
        }
    }
}

/// The policies with this status in the first case that has any, and how often it occurs.
fn with_status(view: &View<'_>, status: CellStatus) -> Option<String> {
    let of = |case: &CaseResult| {
        let ran = |entry: &&Entry| entry.replicas.iter().any(Result::is_ok);
        case.entries.iter().filter(ran).filter(|entry| entry.status() == status).count()
    };
    let hit: Vec<&CaseResult> = view.comparison.cases.iter().filter(|case| of(case) > 0).collect();
    let first = hit.first()?;
    let with_it = first.entries.iter().filter(|entry| entry.status() == status);
    let names: Vec<&str> = with_it.map(|entry| view.policy(entry.policy)).collect();
    let count: usize = hit.iter().map(|case| of(case)).sum();
    let more = if hit.len() > 1 {
        format!("; {count} results of {} cases in all", hit.len())
    } else {
        String::new()
    };
    let case = view.comparison.plan.name(&first.case);
    Some(format!("{case} under {}{more}", names.join(", ")))
}

/// A table that shows the best policy of each case by color. A workload without a depth has one
/// cell as wide as all depths.
fn map(view: &View<'_>, title: &str, metric: &Metric) -> Markup {
    let mut depths: Vec<u32> =
        view.comparison.cases.iter().filter_map(|case| case.case.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    let against = view.policy(view.comparison.plan.baseline);
    let shown = view.scenes.iter().filter(|scene| {
        scene.cases.iter().any(|case| view.comparison.best(case, metric).is_some())
    });
    html! { table.map.full[depths.len() > 2] {
        caption { (title) " " span { (metric.unit) ", against " (against) } }
        @if !depths.is_empty() {
            thead { tr { th {} @for depth in &depths { th { "depth " (depth) } } } }
        }
        tbody { @for scene in shown { tr {
            th { a href={ "#" (scene.anchor()) } {
                (view.drive(scene)) br; span { (view.workload(scene)) }
            } }
            @match scene.cases.as_slice() {
                [case] if case.case.depth.is_none() => {
                    (winner(view, case, metric, depths.len().max(1)))
                }
                cases => { @for depth in &depths {
                    @match cases.iter().find(|case| case.case.depth == Some(*depth)) {
                        Some(case) => { (winner(view, case, metric, 1)) }
                        None => { td {} }
                    }
                } }
            }
        } } }
    } }
}

/// One cell: the best policy, its figure, and the difference from the baseline.
fn winner(view: &View<'_>, case: &CaseResult, metric: &Metric, columns: usize) -> Markup {
    let known = view
        .comparison
        .best(case, metric)
        .and_then(|best| Some((findings::entry(case, *best.places.first()?)?, best)));
    let Some((entry, best)) = known else {
        return html! { td colspan=(columns) { "–" } };
    };
    let outcomes = entry.outcomes();
    let figures = totals(&outcomes);
    let value =
        metric.estimate(&figures).map_or_else(String::new, |estimate| metric.text(estimate));
    if best.all_alike() {
        return html! { td.alike colspan=(columns) { "all alike" br; span { (value) } } };
    }
    let against = view
        .comparison
        .baseline(case)
        .filter(|_| entry.policy != view.comparison.plan.baseline)
        .map(Entry::outcomes);
    let difference = against.and_then(|outcomes| metric.difference(&figures, &totals(&outcomes)));
    // A wide cell has room for all of them.
    let shown = if columns > 1 { best.places.len() } else { 2 };
    let untested = !best.tested && best.of >= 2;
    html! { td.win.(view.class(entry.policy)).untested[untested] colspan=(columns) {
        @for place in best.places.iter().take(shown) { (view.chip(*place)) " " }
        @if best.places.len() > shown { span { "+" (best.places.len() - shown) " alike" } }
        br;
        span { (value) }
        @if let Some(one) = difference { " " em { (metric.difference_text(&one)) } }
    } }
}
