//! The end of the page: how it was measured, and what was left out.

use headtime_mechanics::NoiseLevel;
use maud::{Markup, html};

use super::{View, left_out};

pub(super) fn method(view: &View<'_>) -> Markup {
    let plan = &view.comparison.plan;
    let spec = &plan.spec;
    let warm_ups: Vec<u64> = view.comparison.cases.iter().map(|case| case.case.warm_up).collect();
    let (least, most) =
        (warm_ups.iter().min().copied().unwrap_or(0), warm_ups.iter().max().copied().unwrap_or(0));
    let warm_up = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let facts = [
        ("program", format!("headtime {}", env!("CARGO_PKG_VERSION"))),
        ("seeds", plan.seeds().map(|seed| seed.to_string()).collect::<Vec<_>>().join(", ")),
        (
            "measured",
            match spec.times() {
                None => format!("{} of each run, after a warm-up of {warm_up}", spec.length()),
                Some([_, warm_up]) => {
                    let warm_up = warm_up.as_secs_f64();
                    format!("{} of each run, after a warm-up of {warm_up} s", spec.length())
                }
            },
        ),
        (
            "instances",
            match spec.noise {
                NoiseLevel::Off => "follow their profiles exactly, without noise".to_string(),
                level => format!(
                    "differ from their profiles, and their times vary, drawn by the seed at the \
                        level of noise {level}"
                ),
            },
        ),
        (
            "at the drive",
            spec.outstanding.as_ref().map_or_else(
                || "as many commands as each policy chooses".to_string(),
                |most| format!("at most {} commands", most.value),
            ),
        ),
        (
            "drive model",
            plan.beliefs.iter().map(|belief| belief.text.clone()).collect::<Vec<_>>().join(", "),
        ),
        ("intervals", view.comparison.intervals()),
        ("baseline", plan.policies[plan.baseline].text.clone()),
    ];
    html! { section id="method" {
        h2 { "How this was measured" }
        dl {
            dt { "command" } dd { code { (spec.command()) } }
            @for (name, value) in facts { dt { (name) } dd { (value) } }
        }
        h3 { "Policies" }
        dl { @for (place, policy) in plan.policies.iter().enumerate() {
            dt { (view.chip(place)) }
            dd {
                (policy.entry.summary.trim_end_matches('.')) "."
                @if policy.entry.oracle {
                    " Oracle: it knows the truth of the simulated drive, which no real scheduler \
                        does."
                }
            }
        } }
        h3 { "Workloads" }
        dl { @for workload in &plan.workloads {
            dt { (workload.name) } dd { (workload.choice.describe()) }
        } }
        @if !plan.left_out.is_empty() {
            h3 { "Left out" }
            ul { @for one in &plan.left_out { li { (left_out(one)) "." } } }
        }
        p.fine {
            "The best policies are the leader and all that do not differ significantly from it at \
             95 %. Oracles and overloaded policies are shown but not called best. With many \
             policies and cases some differences are significant by chance: one in twenty of those \
             that do not exist."
        }
    } }
}
