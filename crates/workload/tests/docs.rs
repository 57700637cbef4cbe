//! docs/workloads.md says what the tables say, row by row. A test that fails prints the rows as
//! they should be.

use headtime_config::Key;
use headtime_workload::file::{
    ARRIVALS, FieldHelp, KEYS, Kind, PLACES, PROCESSES, RUNS, SCAN_KEYS, SIZE_ENTRY, SIZES,
    SPOT_ENTRY, THINKS,
};
use headtime_workload::{BUILTINS, fio};

fn page() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/workloads.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn assert_on_the_page(rows: &[String]) {
    let page = page();
    let missing: Vec<&String> =
        rows.iter().filter(|row| !page.lines().any(|line| line == row.as_str())).collect();
    assert!(
        missing.is_empty(),
        "docs/workloads.md lacks {} of these rows:\n{}",
        missing.len(),
        rows.join("\n")
    );
}

/// A cell of a table: what would end it is written otherwise.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn of_kinds<T>(kinds: &[Kind<T>]) -> Vec<String> {
    let keys = |keys: &[FieldHelp]| {
        let shown: Vec<String> = keys
            .iter()
            .map(|key| format!("`{}` ({}; {})", key.name, key.takes, key.default))
            .collect();
        if shown.is_empty() { "–".to_string() } else { shown.join(", ") }
    };
    kinds
        .iter()
        .map(|kind| {
            format!("| `{}` | {} | {} |", kind.name, cell(kind.summary), cell(&keys(kind.keys)))
        })
        .collect()
}

#[test]
fn every_key_of_a_stream_is_on_the_page() {
    let row = |key: &headtime_config::Key<headtime_workload::file::StreamPlan>| {
        format!(
            "| `{}` | {} | {} | {} |",
            key.name,
            cell(key.takes),
            cell(key.summary),
            cell(key.default)
        )
    };
    assert_on_the_page(&KEYS.iter().map(row).collect::<Vec<_>>());
    let row = |key: &headtime_config::Key<headtime_workload::file::ScanPlan>| {
        let Key { name, takes, summary, default, .. } = key;
        format!("| `{name}` | {takes} | {summary} | {default} |")
    };
    assert_on_the_page(&SCAN_KEYS.iter().map(row).collect::<Vec<_>>());
    for key in SIZE_ENTRY.iter().chain(SPOT_ENTRY) {
        assert!(page().contains(&format!("`{}`", key.name)), "`{}` is not on the page", key.name);
    }
}

#[test]
fn every_kind_is_on_the_page_with_its_formula() {
    assert_on_the_page(&of_kinds(SIZES));
    assert_on_the_page(&of_kinds(PLACES));
    assert_on_the_page(&of_kinds(RUNS));
    assert_on_the_page(&of_kinds(ARRIVALS));
    assert_on_the_page(&of_kinds(THINKS));
    assert_on_the_page(&of_kinds(PROCESSES));
}

#[test]
fn every_workload_that_ships_is_on_the_page() {
    let row = |builtin: &headtime_workload::Builtin| {
        let file = builtin.load().unwrap_or_else(|errors| panic!("{errors}"));
        let streams: Vec<String> = file.streams.iter().map(|stream| stream.name.clone()).collect();
        format!(
            "| `{}` | {} | {} |",
            builtin.name,
            streams.join(", "),
            file.description.expect("those that ship say what they are for")
        )
    };
    assert_on_the_page(&BUILTINS.iter().map(row).collect::<Vec<_>>());
}

#[test]
fn every_option_of_fio_is_on_the_page_with_what_becomes_of_it() {
    let names = |option: &fio::FioOption| {
        option.names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let row = |option: &fio::FioOption| match option.support {
        fio::Support::Supported(but) => {
            Some(format!("| {} | supported | {} |", names(option), cell(but)))
        }
        fio::Support::Ignored(why) => {
            Some(format!("| {} | ignored, with a note | {} |", names(option), cell(why)))
        }
        fio::Support::Refused(remedy) => {
            Some(format!("| {} | refused | {} |", names(option), cell(remedy)))
        }
        fio::Support::NoEffect => None,
    };
    assert_on_the_page(&fio::OPTIONS.iter().filter_map(row).collect::<Vec<_>>());
    let silent = fio::OPTIONS
        .iter()
        .filter(|option| option.support == fio::Support::NoEffect)
        .map(names)
        .collect::<Vec<_>>()
        .join(", ");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/workloads.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(&format!("{silent}.")), "docs/workloads.md lacks: {silent}.");
}
