//! Every policy of the table has a page, all pages have the same headings, and their names, sources
//! and parameters are those of the table.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use headtime_sched::{POLICIES, Parameter};

const HEADINGS: [&str; 10] = [
    "Name",
    "What it does",
    "Worked example",
    "Golden order",
    "Guarantees",
    "Does not guarantee",
    "Parameters",
    "Cost",
    "Source",
    "When to use / when not",
];

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "policies"].iter().collect()
}

fn page(policy: &str) -> String {
    let path = folder().join(format!("{policy}.md"));
    fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; every policy of the table needs its page there", path.display())
    })
}

/// The sections of a page, by heading, without empty lines at their ends.
fn sections(page: &str) -> Vec<(String, String)> {
    let (_, body) = page.split_once("\n## ").expect("a page has headings");
    let section = |text: &str| {
        let (heading, body) = text.split_once('\n').unwrap_or((text, ""));
        (heading.to_string(), body.trim().to_string())
    };
    body.split("\n## ").map(section).collect()
}

fn section(policy: &str, heading: &str) -> String {
    let found = sections(&page(policy)).into_iter().find(|(name, _)| name == heading);
    found.unwrap_or_else(|| panic!("{policy}.md has no section `{heading}`")).1
}

fn row(parameter: &Parameter) -> String {
    let Parameter { name, summary, default, min, max, origin, .. } = parameter;
    format!("| `{name}` | {default} | {min} | {max} | {summary} | {origin} |")
}

#[test]
fn every_policy_has_a_page_with_the_same_headings_and_something_under_each() {
    for entry in POLICIES {
        let page = page(entry.name);
        assert!(
            page.starts_with(&format!("# {}\n", entry.name)),
            "{}.md starts with its name",
            entry.name
        );
        let sections = sections(&page);
        assert_eq!(
            sections.iter().map(|(heading, _)| heading.as_str()).collect::<Vec<_>>(),
            HEADINGS,
            "headings of {}.md",
            entry.name
        );
        for (heading, body) in sections {
            assert!(!body.is_empty(), "{}.md says nothing under `{heading}`", entry.name);
        }
    }
}

#[test]
fn names_and_sources_are_those_of_the_table() {
    for entry in POLICIES {
        assert_eq!(section(entry.name, "Name"), format!("`{}` — {}", entry.name, entry.summary));
        assert_eq!(
            section(entry.name, "Source").lines().next(),
            Some(entry.source),
            "the first line under Source in {}.md",
            entry.name
        );
    }
}

#[test]
fn parameters_are_those_of_the_table_with_their_bounds() {
    for entry in POLICIES {
        let body = section(entry.name, "Parameters");
        let rows: Vec<&str> = body.lines().filter(|line| line.starts_with("| `")).collect();
        let expected: Vec<String> = entry.parameters.iter().map(row).collect();
        assert_eq!(rows, expected, "parameters in {}.md", entry.name);
        assert_eq!(
            body == "None.",
            entry.parameters.is_empty(),
            "{}.md says `None.` and nothing else when there are none",
            entry.name
        );
    }
}

#[test]
fn no_page_describes_a_policy_that_does_not_exist() {
    let files = fs::read_dir(folder())
        .expect("the folder of the pages")
        .map(|file| file.expect("a file of the folder").file_name());
    let pages: BTreeSet<String> = files.map(|name| name.to_string_lossy().into_owned()).collect();
    let expected: BTreeSet<String> =
        POLICIES.iter().map(|entry| format!("{}.md", entry.name)).collect();
    assert_eq!(pages, expected);
}
