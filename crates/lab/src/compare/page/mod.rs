//! `report.html`: what came out of a comparison, on one page that one would rather look at than
//! read.
//!
//! The first screen says which policy is best for what; below it, each drive under each workload
//! has its plots; the end says how it was measured. The page carries its style and plots within
//! itself and fetches nothing; it follows the reader's light or dark, and prints. Every sentence is
//! made from the figures.

mod colors;
mod findings;
mod first;
mod method;
mod scene;
mod style;

use maud::{Markup, html};

use super::plan::LeftOut;
use super::results::{CaseResult, Comparison};
use crate::chart;
use crate::report;

/// The page.
pub fn page(comparison: &Comparison) -> String {
    let view = View::new(comparison);
    let headline = findings::headline(&view);
    let content = html! {
        (first::first(&view, &headline))
        @for scene in &view.scenes { (scene::scene(&view, scene)) }
        (method::method(&view))
    };
    let style = format!(
        ":root {{ color-scheme: light dark; }}\n{}{}{}",
        chart::style(),
        style::STYLE,
        colors::style(&view)
    );
    report::page::page(&format!("{headline} – headtime compare"), &style, &content)
}

/// Why a combination is not there, in a sentence without its full stop.
pub fn left_out(left_out: &LeftOut) -> String {
    let mut what: Vec<String> = left_out.policy.iter().cloned().collect();
    what.push(left_out.drive.clone());
    what.extend(left_out.workload.clone());
    if let Some(depths) = left_out.depths.as_ref().filter(|depths| !depths.is_empty()) {
        let depths: Vec<String> = depths.iter().map(u32::to_string).collect();
        what.push(format!("depth {}", depths.join(", ")));
    }
    format!("{}: {}", what.join(", "), left_out.reason)
}

/// The data that all parts of the page show.
struct View<'a> {
    comparison: &'a Comparison,
    scenes: Vec<Scene<'a>>,
    /// The class of each policy's color.
    classes: Vec<String>,
    /// True if any request had a deadline.
    deadlines: bool,
}

/// One drive under one workload: its cases by depth.
struct Scene<'a> {
    drive: usize,
    workload: usize,
    cases: Vec<&'a CaseResult>,
}

impl<'a> View<'a> {
    fn new(comparison: &'a Comparison) -> Self {
        let mut scenes: Vec<Scene<'a>> = Vec::new();
        for case in &comparison.cases {
            let (drive, workload) = (case.case.drive, case.case.workload);
            match scenes.last_mut() {
                Some(scene) if (scene.drive, scene.workload) == (drive, workload) => {
                    scene.cases.push(case)
                }
                _ => scenes.push(Scene { drive, workload, cases: vec![case] }),
            }
        }
        let classes = colors::classes(&comparison.plan);
        let outcomes = || {
            comparison
                .cases
                .iter()
                .flat_map(|case| &case.entries)
                .flat_map(|entry| entry.replicas.iter().flatten())
        };
        let deadlines = outcomes().any(|outcome| outcome.total.deadline_requests > 0);
        Self { comparison, scenes, classes, deadlines }
    }

    fn policy(&self, place: usize) -> &'a str {
        &self.comparison.plan.policies[place].text
    }

    /// Several policies in a sentence, two of them by name.
    fn names(&self, places: &[usize]) -> String {
        match places {
            [] => "no policy".to_string(),
            [one] => self.policy(*one).to_string(),
            [one, other] => format!("{} and {}", self.policy(*one), self.policy(*other)),
            [one, others @ ..] => format!("{} and {} others", self.policy(*one), others.len()),
        }
    }

    fn oracle(&self, place: usize) -> bool {
        self.comparison.plan.policies[place].entry.oracle
    }

    fn class(&self, place: usize) -> String {
        self.classes[place].clone()
    }

    /// A policy's name as markup: its color before it, an oracle in italics.
    fn chip(&self, place: usize) -> Markup {
        let name = self.policy(place);
        html! { b.chip.(self.class(place)).oracle[self.oracle(place)] title=(name) { (name) } }
    }

    fn drive(&self, scene: &Scene<'_>) -> &'a str {
        &self.comparison.plan.drives[scene.drive].text
    }

    fn workload(&self, scene: &Scene<'_>) -> &'a str {
        &self.comparison.plan.workloads[scene.workload].name
    }
}

impl<'a> Scene<'a> {
    /// The case that plots of one depth show: the deepest, where policies have most to choose from.
    fn focus(&self) -> &'a CaseResult {
        self.cases.iter().max_by_key(|case| case.case.depth).expect("a scene has a case")
    }

    /// The anchor of the scene in the page.
    fn anchor(&self) -> String {
        format!("s{}-{}", self.drive, self.workload)
    }
}

/// `words` as they begin a sentence.
fn capital(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A case's depth in a sentence; nothing where there is none.
fn at_depth(case: &CaseResult) -> String {
    case.case.depth.map_or_else(String::new, |depth| format!(" at depth {depth}"))
}
