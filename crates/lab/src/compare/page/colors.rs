//! One color for each policy, the same in every plot and, for policies without settings, in every
//! report.

use std::fmt::Write as _;

use headtime_sched::POLICIES;

use super::View;
use crate::compare::plan::Plan;

/// Colors for light and for dark paper. They are told apart also by those who see no red or green,
/// in the order of the table of policies; names stand beside every line all the same.
const COLOURS: [(&str, &str); 22] = [
    ("#6f7478", "#9aa1a8"),
    ("#8a7f1c", "#c2b64c"),
    ("#117a55", "#3fc08f"),
    ("#b0569b", "#e08bcb"),
    ("#2f94c8", "#6cc4f0"),
    ("#1f7bb0", "#58b6ea"),
    ("#1b4fa8", "#7aa5ff"),
    ("#7d1d4f", "#e0699f"),
    ("#d2551a", "#ff8a4a"),
    ("#26292c", "#e8eaec"),
    ("#4f3aa0", "#a996ff"),
    ("#d99a06", "#ffc94a"),
    ("#1f9aa0", "#56d3d8"),
    ("#7a4a22", "#cf9a6a"),
    ("#5c6f2e", "#a9c267"),
    ("#a83232", "#f28b82"),
    ("#3d6b7d", "#8fbccc"),
    ("#8d5fa8", "#c9a6e0"),
    ("#b5852f", "#e3c07e"),
    ("#2e7d32", "#81c784"),
    ("#c2557a", "#f0a3bd"),
    ("#455a9c", "#9fb0ea"),
];

/// The class of each policy of a plan: a policy without settings by the first belief has its own
/// color, any other that too where it is free, or the next that is.
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
            let mut from_own = (0..COLOURS.len()).map(|step| (own + step) % COLOURS.len());
            colors[place] =
                from_own.find(|color| !taken.contains(color)).unwrap_or(own % COLOURS.len());
            taken.push(colors[place]);
        }
    }
    colors.into_iter().map(|color| format!("p{color}")).collect()
}

/// The colors that this page needs, for light and dark.
pub(super) fn style(view: &View<'_>) -> String {
    let mut needed: Vec<usize> =
        view.classes.iter().filter_map(|class| class[1..].parse().ok()).collect();
    needed.sort_unstable();
    needed.dedup();
    let (mut light, mut dark) = (String::new(), String::new());
    for place in needed {
        let (on_light, on_dark) = COLOURS[place];
        let _ = writeln!(light, ".p{place} {{ --c: {on_light}; }}");
        let _ = writeln!(dark, ".p{place} {{ --c: {on_dark}; }}");
    }
    format!("{light}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::asked::{Asked, Placed};

    #[test]
    fn a_policy_keeps_its_color_and_its_settings_get_others() {
        let colors = |policies: &[&str]| {
            let policies =
                policies.iter().map(|name| Placed::new((*name).to_string(), "here")).collect();
            let plan = Plan::new(Asked { policies, ..Asked::default() })
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
        assert!(POLICIES.len() <= COLOURS.len(), "a policy has no color of its own; add one");
    }
}
