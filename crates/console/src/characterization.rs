//! A characterization beside clients as text.

use headtime_serve::beside::{BesideResult, BesideState, BesideStatus};

use crate::scans::duration;

/// The state of a characterization, in lines.
pub fn text(status: &BesideStatus) -> String {
    let mut text = format!("characterization: {}", status.state);
    if status.state != BesideState::Complete {
        text.push_str(&format!(
            ", {}, {:.1} % of at most {} of drive time, {} reads, {} of them to be repeated",
            status.stage,
            status.progress * 100.0,
            duration(status.seconds),
            status.reads,
            status.disturbed
        ));
    }
    let line = |text: &mut String, line: String| {
        text.push_str("\n  ");
        text.push_str(&line);
    };
    if let Some(idle) = status.idle_seconds.filter(|_| status.waits_for.is_some()) {
        line(&mut text, format!("the last read was {} ago", duration(idle)));
    }
    if let Some(reason) = &status.waits_for {
        line(&mut text, format!("it waits: {reason}"));
    }
    if !status.reason.is_empty() {
        line(&mut text, status.reason.clone());
    }
    match &status.result {
        Some(result) => {
            result_lines(result).into_iter().for_each(|of| line(&mut text, of));
        }
        None => {
            let out = status.out.iter().map(|path| format!("profile: {}", path.display()));
            let state = status.saved_in.iter().map(|path| format!("state: {}", path.display()));
            out.chain(state).for_each(|of| line(&mut text, of));
        }
    }
    text.push('\n');
    text
}

fn result_lines(result: &BesideResult) -> Vec<String> {
    let mut lines = vec![result.verdict.clone()];
    if let Some(own) = result.within_150_us {
        let before = result.model_within_150_us.map_or_else(
            || "the model in use before predicted no times".to_owned(),
            |share| format!("the model in use before: {:.1} %", share * 100.0),
        );
        lines.push(format!("predicted within 150 us: {:.1} %; {before}", own * 100.0));
    }
    lines.push(result.use_reason.clone());
    lines.extend(result.written.iter().map(|path| format!("profile: {}", path.display())));
    lines.extend(result.remembered_in.iter().map(|path| format!("kept in {}", path.display())));
    lines.extend(result.remarks.iter().map(|remark| format!("remark: {remark}")));
    lines
}
