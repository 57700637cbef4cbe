//! The end of the page: how it was measured, and what was left out.

use std::fmt::Write as _;

use super::{View, left_out};
use crate::report::html::escape;
use headtime_console::arguments::NoiseSwitch;

pub(super) fn method(out: &mut String, view: &View<'_>) {
    let plan = &view.comparison.plan;
    let spec = &plan.spec;
    out.push_str("<section id=\"method\">\n<h2>How this was measured</h2>\n<dl>\n");
    let warm_ups: Vec<u64> = view.comparison.cases.iter().map(|case| case.case.warm_up).collect();
    let (least, most) =
        (warm_ups.iter().min().copied().unwrap_or(0), warm_ups.iter().max().copied().unwrap_or(0));
    let warm_up = if least == most { least.to_string() } else { format!("{least} to {most}") };
    let facts = [
        ("program", format!("headtime {}", env!("CARGO_PKG_VERSION"))),
        ("again", spec.command()),
        ("seeds", plan.seeds().map(|seed| seed.to_string()).collect::<Vec<_>>().join(", ")),
        (
            "counted",
            format!("{} requests of each run, after {warm_up} that were not", spec.requests.value),
        ),
        (
            "units",
            match spec.noise {
                NoiseSwitch::On => {
                    "differ from their profiles and scatter as the profiles say, drawn by the seed"
                        .to_string()
                }
                NoiseSwitch::Off => "are exactly as their profiles say, without noise".to_string(),
            },
        ),
        (
            "at the drive",
            spec.outstanding.as_ref().map_or_else(
                || "as many commands as each policy likes".to_string(),
                |most| format!("at most {} commands", most.value),
            ),
        ),
        (
            "belief",
            plan.beliefs.iter().map(|belief| belief.text.clone()).collect::<Vec<_>>().join(", "),
        ),
        ("intervals", view.comparison.intervals()),
        ("baseline", plan.policies[plan.baseline].text.clone()),
    ];
    for (name, value) in facts {
        let value = if name == "again" {
            format!("<code>{}</code>", escape(&value))
        } else {
            escape(&value)
        };
        let _ = writeln!(out, "<dt>{name}</dt><dd>{value}</dd>");
    }
    out.push_str("</dl>\n<h3>Policies</h3>\n<dl>\n");
    for (place, policy) in plan.policies.iter().enumerate() {
        let oracle = if policy.entry.oracle {
            " Oracle: it is given what no real scheduler knows, the truth of the simulated drive."
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "<dt>{}</dt><dd>{}.{oracle}</dd>",
            view.chip(place),
            escape(policy.entry.summary.trim_end_matches('.'))
        );
    }
    out.push_str("</dl>\n<h3>Workloads</h3>\n<dl>\n");
    for workload in &plan.workloads {
        let _ = writeln!(
            out,
            "<dt>{}</dt><dd>{}</dd>",
            escape(&workload.name),
            escape(&workload.choice.describe())
        );
    }
    out.push_str("</dl>\n");
    if !plan.left_out.is_empty() {
        out.push_str("<h3>Left out</h3>\n<ul>\n");
        for one in &plan.left_out {
            let _ = writeln!(out, "<li>{}.</li>", escape(&left_out(one)));
        }
        out.push_str("</ul>\n");
    }
    out.push_str(
        "<p class=\"fine\">Best is who leads, and whoever is not told apart from the leader at 95 \
            %; oracles and policies that do not keep up are shown, and not \
         called best. With many policies and cases some differences look sure by chance: one in \
         twenty of those that are none.</p>\n</section>\n",
    );
}
