//! The profile as text for people: TOML with comments that give the origin and the error of each
//! figure.

use std::fmt::Write as _;

use headtime_mechanics::DriveProfile;
use headtime_probe::{Figure, Finding, SelfCheck};
use headtime_units::Nanos;

/// `profile`, which is the finding's with its name, as TOML with comments. Reading it back gives
/// the profile.
#[must_use]
pub fn annotated(profile: &DriveProfile, finding: &Finding, drive: &str) -> String {
    let mut text = String::new();
    let mut comment = |line: &str| wrapped(&mut text, line);
    comment(&format!(
        "Found by `headtime characterize` {} from {} timed reads in {} of drive time. Drive: \
            {drive}.",
        env!("CARGO_PKG_VERSION"),
        finding.reads,
        clock(finding.drive_time),
    ));
    comment(&finding.check.as_ref().map_or_else(
        || "It was not checked against fresh reads: the time was over before.".to_owned(),
        |check| format!("Self-check: {}", check_line(check)),
    ));
    for deviation in &finding.deviations {
        comment(&format!(
            "Not within 50 us: {:.1} %, {}",
            deviation.share * 100.0,
            deviation.reason
        ));
    }
    for remark in &finding.remarks {
        comment(&format!("- {remark}"));
    }
    comment(
        "Behind each figure stands its standard error, where it was measured; docs/characterize.md \
            says how.",
    );
    let toml = profile.to_toml();
    let mut left: Vec<&Figure> = finding.figures.iter().collect();
    for line in toml.lines() {
        // The first table of a kind has the figures of all of them before it.
        let section = line.trim().trim_matches(['[', ']']);
        if line.trim_start().starts_with('[') {
            let (here, rest) = left.into_iter().partition(|figure| section_of(figure) == section);
            left = rest;
            if !text.ends_with("\n\n") {
                text.push('\n');
            }
            for figure in here as Vec<&Figure> {
                wrapped(&mut text, &format!("{}: {}", figure.name, uncertainty(figure)));
            }
        }
        if !line.is_empty() || !text.ends_with("\n\n") {
            let _ = writeln!(text, "{line}");
        }
    }
    if !left.is_empty() {
        text.push('\n');
        for figure in left {
            wrapped(&mut text, &format!("{}: {}", figure.name, uncertainty(figure)));
        }
    }
    text
}

/// The self-check in a line.
#[must_use]
pub fn check_line(check: &SelfCheck) -> String {
    let hits = if check.hits > 0 {
        format!(" ({} more came from the cache)", check.hits)
    } else {
        String::new()
    };
    format!(
        "of {} fresh random reads of 4 KiB{hits}, {:.1} % within 50 us, {:.1} % within 150 us, \
            {:.1} % a turn off; median {:.1} us",
        check.reads,
        check.within_50_us * 100.0,
        check.within_150_us * 100.0,
        check.turn_missed * 100.0,
        check.median_error_us,
    )
}

/// The value of a figure and its error.
#[must_use]
pub fn uncertainty(figure: &Figure) -> String {
    if figure.is_lower_bound {
        format!("{:.6} or more", figure.value)
    } else if figure.error.is_finite() {
        format!("{:.6} ± {:.2e}", figure.value, figure.error)
    } else {
        format!("{:.6}, taken for granted rather than seen", figure.value)
    }
}

/// Minutes and seconds.
#[must_use]
pub fn clock(span: Nanos) -> String {
    let seconds = span.as_ns() / 1_000_000_000;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// The table of the profile that a figure belongs to, by the first word that is known.
fn section_of(figure: &Figure) -> String {
    let known = SECTIONS.iter().find(|(word, _)| figure.name.contains(word));
    let section = known.map_or("", |(_, section)| section);
    let table = if figure.name.starts_with("second arm") { "second_actuator." } else { "" };
    format!("{table}{section}")
}

/// Words of figures' names, and the tables of the profile.
const SECTIONS: &[(&str, &str)] = &[
    ("period", "rotation"),
    ("zone", "zone"),
    ("seek", "seek"),
    ("arm", "seek"),
    ("head switch", "seek"),
    ("settle", "seek"),
    ("queue", "firmware"),
    ("starv", "firmware"),
    ("cache", "cache"),
    ("segment", "cache"),
    ("read-ahead", "cache"),
    ("command", "interface"),
    ("bus", "interface"),
    ("noise", "variation"),
];

/// A comment in lines that can be read.
fn wrapped(text: &mut String, comment: &str) {
    let mut line = String::from("#");
    for word in comment.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.len() > 1 {
            let _ = writeln!(text, "{line}");
            line = String::from("#  ");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(text, "{line}");
}

const WIDTH: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_minutes_and_seconds() {
        assert_eq!(clock(Nanos::from_ms(59_999)), "0:59");
        assert_eq!(clock(Nanos::from_secs(1_200)), "20:00");
    }
}
