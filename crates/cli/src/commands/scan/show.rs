//! Scans for people: how far each is, what it has found, and what is wrong with it in the end.

use headtime_serve::control::ScanAnswer;
use headtime_serve::scans::{GapFigures, ImpactFigures, RangeList, ScanState, ScanStatus};
use headtime_units::ByteSize;

use headtime_console::Failure;
use headtime_console::output::{print, print_json};
use headtime_console::scans::line;

/// Prints an answer, for people or as JSON.
pub(super) fn show(answer: &ScanAnswer, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(answer);
    }
    if answer.scans.is_empty() {
        return print("no scans");
    }
    let mut text = String::new();
    for scan in &answer.scans {
        text.push_str(&lines(scan).join("\n  "));
        text.push('\n');
    }
    if !answer.alone {
        text.push_str(&format!(
            "clients' mean response is longer by {:.2} % of at most {:.2} %\n",
            answer.impact * 100.0,
            answer.max_impact * 100.0
        ));
        text.push_str(&measured(answer));
        text.extend(gaps(&answer.gaps).map(|line| line + "\n"));
    }
    print(&text)
}

/// The impact by comparison with stretches without reads. It is known to half of the bound or
/// exceeds the bound, or there is no figure.
fn measured(answer: &ScanAnswer) -> String {
    let figure = match answer.measured {
        Some(ImpactFigures { mean, lower, upper }) => {
            let [mean, lower, upper] = [mean, lower, upper].map(|share| share * 100.0);
            format!("{mean:+.2} % (95 % interval {lower:+.2} to {upper:+.2} %)")
        }
        None => format!("not measured to ±{:.2} % yet", answer.max_impact * 50.0),
    };
    format!("compared with stretches without reads of scans: {figure}\n")
}

/// The use of the gaps before clients' requests, and what to change where few are used.
fn gaps(gaps: &GapFigures) -> impl Iterator<Item = String> {
    let all = gaps.all();
    let percent = |part: u64| part as f64 / all as f64 * 100.0;
    let unused = gaps.unused().into_iter().filter(|(_, _, gaps)| *gaps > 0);
    let parts: Vec<String> =
        unused.map(|(_, name, gaps)| format!("{name} {:.1} %", percent(gaps))).collect();
    let line = (all > 0).then(|| {
        let unused = if parts.is_empty() { "none".to_owned() } else { parts.join(", ") };
        format!(
            "of {all} gaps before requests {:.1} % are used; unused: {unused}",
            percent(gaps.used)
        )
    });
    line.into_iter().chain(gaps.remedy().map(|remedy| format!("few gaps are used: {remedy}")))
}

/// Prints what was cancelled: how far it had come, and that nothing is remembered of it any more.
pub(super) fn show_cancelled(answer: &ScanAnswer, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(answer);
    }
    let line = |scan: &ScanStatus| {
        let came = if scan.bytes > 0 {
            format!(" at {:.1} % of {}", scan.share_done() * 100.0, ByteSize::new(scan.bytes))
        } else {
            String::new()
        };
        let left = if scan.output.is_empty() {
            String::new()
        } else {
            format!("; {} stays where it is, and is no backup", scan.output)
        };
        let left = if scan.state == ScanState::Complete {
            left.replace(", and is no backup", "")
        } else {
            left
        };
        format!("{} of {}: cancelled{came}, and forgotten{left}\n", scan.task, scan.target)
    };
    print(&answer.scans.iter().map(line).collect::<String>())
}

/// One scan for people: that line, and what else there is to say below it.
fn lines(scan: &ScanStatus) -> Vec<String> {
    let mut lines = vec![line(scan)];
    if !scan.reason.is_empty() {
        lines.push(scan.reason.clone());
    }
    let read: u64 = scan.sources.parts().iter().map(|(_, bytes)| bytes).sum();
    if read > 0 {
        let part = |(name, bytes): (&str, u64)| {
            format!("{name} {:.1} %", bytes as f64 / read as f64 * 100.0)
        };
        lines.push(format!(
            "read in: {}",
            scan.sources
                .parts()
                .into_iter()
                .filter(|(_, bytes)| *bytes > 0)
                .map(part)
                .collect::<Vec<_>>()
                .join(", ")
        ));
    }
    if scan.errors.sectors > 0 {
        lines.push(format!("cannot be read: {}", ranges(&scan.errors)));
    }
    if let Some(digests) = &scan.digests {
        let table = digests
            .table
            .as_ref()
            .map_or_else(String::new, |table| format!(", all together {table}"));
        lines.push(format!(
            "digests: {} compared with the last pass, {} not compared{table}",
            digests.compared, digests.not_compared
        ));
        if digests.changed.sectors > 0 {
            lines.push(format!("changed by itself: {}", ranges(&digests.changed)));
        }
    }
    if scan.configured {
        lines.push("by [[scan]] of the configuration".to_owned());
    }
    if !scan.during.is_empty() {
        lines.push(format!("reads in {}", scan.during));
    }
    if !scan.every.is_empty() {
        let next = scan.next_start.as_ref();
        let next = next.map_or_else(String::new, |at| format!(", next at {at}"));
        lines.push(format!("starts every {}{next}", scan.every));
    }
    if !scan.output.is_empty() {
        lines.push(format!("into {}", scan.output));
    }
    lines.push(if scan.state_file.is_empty() {
        "its state is not kept over a restart".to_owned()
    } else {
        format!("state in {}", scan.state_file)
    });
    lines
}

fn ranges(list: &RangeList) -> String {
    let runs: Vec<String> =
        list.ranges.iter().map(|(start, len)| format!("LBA {start}..+{len}")).collect();
    let more = if list.more > 0 { format!(" and {} more runs", list.more) } else { String::new() };
    format!("{} sectors: {}{more}", list.sectors, runs.join(", "))
}

/// The problem that a finished scan found, if any.
pub(super) fn finding(scan: &ScanStatus) -> Option<String> {
    let name = format!("the {} of {}", scan.task, scan.target);
    let changed = scan.digests.as_ref().map_or(0, |digests| digests.changed.sectors);
    match scan.state {
        ScanState::Broken => Some(format!("{name} cannot be finished: {}", scan.reason)),
        _ if scan.errors.sectors > 0 || changed > 0 => Some(format!(
            "{name} found {} sectors that cannot be read and {changed} that have changed by \
                themselves",
            scan.errors.sectors
        )),
        _ => None,
    }
}
