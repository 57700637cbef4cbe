//! One color for each policy, the same in every plot and, for policies without settings, in every
//! report.

use std::fmt::Write as _;

use headtime_sched::POLICIES;

use super::View;
use crate::compare::plan::Plan;

/// The class of each policy of a plan. A policy without settings under the first drive model has
/// its own color; any other has it too if it is free, or the next free color.
pub(super) fn classes(plan: &Plan) -> Vec<String> {
    let mut colors = vec![0; plan.policies.len()];
    let mut taken: Vec<usize> = Vec::new();
    for with_settings in [false, true] {
        for (place, policy) in plan.policies.iter().enumerate().filter(|(_, policy)| {
            ((policy.policy != policy.entry.name) || policy.belief.is_some_and(|belief| belief > 0))
                == with_settings
        }) {
            let own =
                POLICIES.iter().position(|entry| entry.name == policy.entry.name).unwrap_or(0);
            let mut free = std::iter::once(own).chain(POLICIES.len()..);
            colors[place] = free.find(|color| !taken.contains(color)).unwrap_or(own);
            taken.push(colors[place]);
        }
    }
    colors.into_iter().map(|color| format!("p{color}")).collect()
}

/// Color number `place` for light and for dark paper. Consecutive colors differ in hue by the
/// golden angle and in lightness, so that any number of them stays apart, also for readers
/// without red or green. The name stands beside every line as well.
fn color(place: usize) -> (String, String) {
    let hue = place as f64 * 137.508 % 360.0;
    let step = [0, 12, 6][place % 3];
    (format!("hsl({hue:.1} 60% {}%)", 30 + step), format!("hsl({hue:.1} 70% {}%)", 76 - step))
}

/// The colors that this page needs, for light and dark.
pub(super) fn style(view: &View<'_>) -> String {
    let mut needed: Vec<usize> =
        view.classes.iter().filter_map(|class| class[1..].parse().ok()).collect();
    needed.sort_unstable();
    needed.dedup();
    let (mut light, mut dark) = (String::new(), String::new());
    for place in needed {
        let (on_light, on_dark) = color(place);
        let _ = writeln!(light, ".p{place} {{ --c: {on_light}; }}");
        let _ = writeln!(dark, ".p{place} {{ --c: {on_dark}; }}");
    }
    format!("{light}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::spec::{CompareSpec, Located};

    #[test]
    fn a_policy_keeps_its_color_and_its_settings_get_others() {
        let colors = |policies: &[&str]| {
            let policies =
                policies.iter().map(|name| Located::new((*name).to_string(), "here")).collect();
            let plan = Plan::new(CompareSpec { policies, ..CompareSpec::default() })
                .map_err(|failure| failure.message())
                .expect("it is right");
            classes(&plan)
        };
        assert_eq!(
            colors(&["headtime", "fcfs"]),
            [colors(&["headtime"]), colors(&["fcfs"])].concat()
        );
        let several = colors(&["firmware:depth=2", "firmware", "firmware:depth=8", "headtime"]);
        let mut distinct = several.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 4, "{several:?}");
        assert_eq!(several[1], colors(&["firmware"])[0]);
        let mut all: Vec<(String, String)> = (0..200).map(color).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 200, "two of many policies have one color");
    }
}
