//! `headtime explain`: where the time of slow and missed requests of a running `headtime serve`
//! went.

use std::collections::BTreeMap;

use clap::Args;
use headtime_serve::control::{ExplainAnswer, ExplainArguments, ExplainedRequest};
use headtime_serve::status::{DriveStatus, ServerStatus, SwitchStatus};
use headtime_units::ByteSize;

use super::control::ask;
use super::scan::ServerArguments;
use headtime_console::Failure;
use headtime_console::output::{print, print_json};

/// Arguments of `headtime explain`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Export, such as vol0 or vol0@bulk, or the number of a request from an earlier answer
    /// [default: all exports]
    #[arg(value_name = "VOLUME|REQUEST")]
    pub target: Option<String>,
    /// Maximum number of requests, the latest first
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub last: usize,
    /// Show the last switches of the policy `auto` and their reasons instead of requests
    #[arg(long, conflicts_with_all = ["target", "last"])]
    pub switches: bool,
    /// Server to address
    #[command(flatten)]
    pub server: ServerArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.switches {
        let mut client = arguments.server.choice.connect("")?;
        let status: ServerStatus = ask(&mut client, "status", &serde_json::json!({}))?;
        return match arguments.server.json {
            true => print_json(&status.drive.switches),
            false => print(&switches(&status.drive)),
        };
    }
    let request = ExplainArguments { target: arguments.target.clone(), last: Some(arguments.last) };
    let answer: ExplainAnswer =
        ask(&mut arguments.server.choice.connect("")?, "explain", &request)?;
    if arguments.server.json { print_json(&answer) } else { print(&text(&answer)) }
}

/// A line of each switch, and one of its reason.
fn switches(drive: &DriveStatus) -> String {
    let lines = drive.switches.iter().map(|switch| {
        let SwitchStatus { ago_seconds, from, to, cause } = switch;
        format!("{ago_seconds:.1} s ago: {to} instead of {from}\n    {cause}\n")
    });
    let last = match drive.policy == drive.active_policy {
        true => format!("policy {}\n", drive.policy),
        false => format!("policy {}: {} decides\n", drive.policy, drive.active_policy),
    };
    lines.chain([last]).collect()
}

fn text(answer: &ExplainAnswer) -> String {
    if answer.requests.is_empty() {
        return "no request was slow, failed or missed its deadline since the server started, as \
            far as is remembered\n"
            .to_owned();
    }
    let mut text: String = answer.requests.iter().map(one).collect();
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (part, ms) in answer.requests.iter().flat_map(|request| &request.parts_ms) {
        *sums.entry(part).or_default() += ms;
    }
    let all: f64 = answer.requests.iter().map(|request| request.response_ms).sum();
    let mut sums: Vec<(&str, f64)> = sums.into_iter().collect();
    sums.sort_by(|one, other| other.1.total_cmp(&one.1));
    let parts: Vec<String> = sums
        .iter()
        .map(|(part, ms)| format!("{part} {:.0} %", 100.0 * ms / all.max(f64::MIN_POSITIVE)))
        .collect();
    text.push_str(&format!("together: {}\n", parts.join(", ")));
    text
}

/// A line of what it was, and one of where its time went, the longest part first.
fn one(request: &ExplainedRequest) -> String {
    let mut parts: Vec<(&String, &f64)> = request.parts_ms.iter().collect();
    parts.sort_by(|one, other| other.1.total_cmp(one.1));
    let parts: Vec<String> = parts.iter().map(|(part, ms)| format!("{part} {ms:.1} ms")).collect();
    let outcome = match (request.failed, request.missed, request.deadline_ms) {
        (true, ..) => "failed".to_owned(),
        (_, true, Some(deadline)) => format!("missed its deadline of {deadline:.1} ms"),
        _ => "slow".to_owned(),
    };
    let (export, length) = (
        if request.export.is_empty() { "(the server)" } else { &request.export },
        ByteSize::new(request.length_bytes),
    );
    format!(
        "{export}: {} of {length} at byte {}, {:.1} s ago, request {}: {outcome}, took {:.1} \
            ms\n    {}\n",
        request.op,
        request.offset_bytes,
        request.ago_seconds,
        request.request,
        request.response_ms,
        parts.join(", ")
    )
}

const AFTER_HELP: &str = "\
Parts of a response time. own queue: the drive served the same volume; other volumes, background: \
it served those; held: it served none, because of a limit or to wait for a better request; \
at the drive: queued after another command; overhead, seek, rotation, transfer: by the \
drive model; unpredicted: time of the drive beyond the model. See docs/explain.md.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_part_stands_first_and_all_are_summed_up() {
        let parts_ms = [("seek", 4.0), ("own queue", 90.0), ("unpredicted", 6.0)]
            .map(|(part, ms)| (part.to_owned(), ms))
            .into();
        let request = ExplainedRequest {
            request: 7,
            export: "vm1".to_owned(),
            op: "read".to_owned(),
            offset_bytes: 4096,
            length_bytes: 8192,
            ago_seconds: 1.5,
            response_ms: 100.0,
            deadline_ms: Some(50.0),
            missed: true,
            failed: false,
            parts_ms,
        };
        let text = text(&ExplainAnswer { requests: vec![request] });
        assert_eq!(
            text,
            "vm1: read of 8 KiB at byte 4096, 1.5 s ago, request 7: missed its deadline of 50.0 \
                ms, took 100.0 ms\n    \
             own queue 90.0 ms, unpredicted 6.0 ms, seek 4.0 ms\ntogether: own queue 90 %, \
             unpredicted 6 %, seek 4 %\n"
        );
    }
}
