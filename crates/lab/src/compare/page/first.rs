//! The first screen: the best policies by metric, with numbers and intervals.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use headtime_io::ModelSource;

use super::{View, capital, findings, left_out};
use crate::compare::outcome::CellStatus;
use crate::compare::results::{CaseResult, Entry};
use crate::compare::statistics::{Metric, totals};
use crate::report::page::escape;

pub(super) fn first(out: &mut String, view: &View<'_>, headline: &str) {
    let plan = &view.comparison.plan;
    let spec = &plan.spec;
    let of =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let count =
        plan.policies.iter().map(|policy| policy.policy.as_str()).collect::<BTreeSet<_>>().len();
    let mut policies =
        if count == 1 { "1 policy".to_string() } else { format!("{count} policies") };
    match plan.beliefs.as_slice() {
        [one] if one.text == ModelSource::Profile.to_string() => {}
        [one] => policies.push_str(&format!(" by drive model {}", escape(&one.text))),
        several => policies.push_str(&format!(" by {} drive models", several.len())),
    }
    let _ = write!(
        out,
        "<header>\n<h1>{}</h1>\n<p class=\"lead\">{policies} on {} under {}: {} of {} requests \
            each, simulated by headtime {} with seed {}{}.</p>\n",
        escape(headline),
        of(plan.drives.len(), "drive"),
        of(plan.workloads.len(), "workload"),
        of(
            view.comparison
                .cases
                .iter()
                .map(|case| case.entries.iter().map(|entry| entry.replicas.len()).sum::<usize>())
                .sum(),
            "run"
        ),
        spec.requests.value,
        env!("CARGO_PKG_VERSION"),
        spec.seed.value,
        if spec.replicas.value > 1 {
            format!(" and the {} after it", spec.replicas.value - 1)
        } else {
            String::new()
        },
    );
    out.push_str("<ul class=\"verdicts\">\n");
    for (words, places, how) in findings::verdicts(view) {
        let mut chips: Vec<String> =
            places.iter().take(3).map(|place| view.chip(*place).into_string()).collect();
        chips.extend((places.len() > 3).then(|| format!("and {} more", places.len() - 3)));
        let _ = writeln!(
            out,
            "<li><span>{words}</span><div>{} {}</div></li>",
            chips.join(" "),
            escape(&how)
        );
    }
    out.push_str("</ul>\n");
    warnings(out, view);
    out.push_str("</header>\n<section class=\"maps\">\n");
    let mut maps =
        vec![("Highest progress of streams", "progress_harmonic_mean"), SOONEST_AT_EQUAL_LOAD];
    maps.extend(view.deadlines.then_some(("Fewest deadlines missed", "deadline_miss_share")));
    for (title, key) in maps {
        map(out, view, title, Metric::named(key));
    }
    out.push_str("</section>\n");
}

/// The second map: a closed loop's own times favor the policy that serves less.
const SOONEST_AT_EQUAL_LOAD: (&str, &str) =
    ("99 % answered soonest at equal load", "equal_load_response_ms_p99");

/// The reservations about the figures.
fn warnings(out: &mut String, view: &View<'_>) {
    for (status, words) in [
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
                or a shorter --warmup",
        ),
    ] {
        let of = |case: &&CaseResult| {
            case.entries
                .iter()
                .filter(|entry| {
                    entry.status() == status && entry.replicas.iter().any(Result::is_ok)
                })
                .count()
        };
        let hit: Vec<&CaseResult> =
            view.comparison.cases.iter().filter(|case| of(case) > 0).collect();
        let count: usize = hit.iter().map(of).sum();
        if let Some(first) = hit.first() {
            let names: Vec<&str> = first
                .entries
                .iter()
                .filter(|entry| entry.status() == status)
                .map(|entry| view.policy(entry.policy))
                .collect();
            let more = if hit.len() > 1 {
                format!("; {count} results of {} cases in all", hit.len())
            } else {
                String::new()
            };
            let which = format!(
                "{} under {}{more}",
                view.comparison.plan.name(&first.case),
                names.join(", ")
            );
            let _ = writeln!(
                out,
                "<p class=\"note\"><b>{}</b> – {words} ({}).</p>",
                capital(status.word()),
                escape(&which)
            );
        }
    }
    let failures = &view.comparison.failures;
    if let Some((name, reason)) = failures.first() {
        let _ = writeln!(
            out,
            "<p class=\"note\"><b>{} runs failed</b> – {}: {}.</p>",
            failures.len(),
            escape(name),
            escape(reason)
        );
    }
    if let [only] = view.comparison.plan.left_out.as_slice() {
        let _ = writeln!(out, "<p class=\"note\">Left out – {}.</p>", escape(&left_out(only)));
    } else if !view.comparison.plan.left_out.is_empty() {
        let count = view.comparison.plan.left_out.len();
        let _ = writeln!(
            out,
            "<p class=\"note\"><a href=\"#method\">{count} combinations are left out</a>, each \
                with its reason below.</p>"
        );
    }
}

/// A table that shows the best policy of each case by color. A workload without a depth has one
/// cell as wide as all depths.
fn map(out: &mut String, view: &View<'_>, title: &str, metric: &Metric) {
    let mut depths: Vec<u32> =
        view.comparison.cases.iter().filter_map(|case| case.case.depth).collect();
    depths.sort_unstable();
    depths.dedup();
    let wide = if depths.len() > 2 { " full" } else { "" };
    let against = escape(view.policy(view.comparison.plan.baseline));
    let _ = write!(
        out,
        "<table class=\"map{wide}\">\n<caption>{title} <span>{}, against \
            {against}</span></caption>\n",
        metric.unit
    );
    if !depths.is_empty() {
        out.push_str("<thead><tr><th></th>");
        depths.iter().for_each(|depth| out.push_str(&format!("<th>depth {depth}</th>")));
        out.push_str("</tr></thead>\n");
    }
    out.push_str("<tbody>\n");
    for scene in view
        .scenes
        .iter()
        .filter(|scene| scene.cases.iter().any(|case| view.comparison.best(case, metric).is_some()))
    {
        let (drive, workload) = (escape(view.drive(scene)), escape(view.workload(scene)));
        let _ = write!(
            out,
            "<tr><th><a href=\"#{}\">{drive}<br/><span>{workload}</span></a></th>",
            scene.anchor()
        );
        match scene.cases.as_slice() {
            [case] if case.case.depth.is_none() => {
                winner(out, view, case, metric, depths.len().max(1))
            }
            cases => {
                for depth in &depths {
                    match cases.iter().find(|case| case.case.depth == Some(*depth)) {
                        Some(case) => winner(out, view, case, metric, 1),
                        None => out.push_str("<td></td>"),
                    }
                }
            }
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n");
}

/// One cell: the best policy, its figure, and the difference from the baseline.
fn winner(out: &mut String, view: &View<'_>, case: &CaseResult, metric: &Metric, columns: usize) {
    let known = view
        .comparison
        .best(case, metric)
        .and_then(|best| Some((findings::entry(case, *best.places.first()?)?, best)));
    let Some((entry, best)) = known else {
        let _ = write!(out, "<td colspan=\"{columns}\">–</td>");
        return;
    };
    let outcomes = entry.outcomes();
    let figures = totals(&outcomes);
    let value =
        metric.estimate(&figures).map_or_else(String::new, |estimate| metric.text(estimate));
    if best.all_alike() {
        let _ = write!(
            out,
            "<td class=\"alike\" colspan=\"{columns}\">all alike<br/><span>{value}</span></td>"
        );
        return;
    }
    let against = view
        .comparison
        .baseline(case)
        .filter(|_| entry.policy != view.comparison.plan.baseline)
        .map(Entry::outcomes);
    let difference = against.and_then(|outcomes| metric.difference(&figures, &totals(&outcomes)));
    let difference = difference.map_or_else(String::new, |difference| {
        format!(" <em>{}</em>", metric.difference_text(&difference))
    });
    // A wide cell has room for all of them.
    let shown = if columns > 1 { best.places.len() } else { 2 };
    let mut names: Vec<String> =
        best.places.iter().take(shown).map(|place| view.chip(*place).into_string()).collect();
    names.extend(
        (best.places.len() > shown)
            .then(|| format!("<span>+{} alike</span>", best.places.len() - shown)),
    );
    let untested = if best.tested || best.of < 2 { "" } else { " untested" };
    let class = view.class(entry.policy);
    let _ = write!(
        out,
        "<td class=\"win {class}{untested}\" \
            colspan=\"{columns}\">{}<br/><span>{value}</span>{difference}</td>",
        names.join(" ")
    );
}
