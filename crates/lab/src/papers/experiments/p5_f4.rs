//! `p5.f4`: P5, figure 4. Two streams that have reserved all of the drive between them, by disk
//! time.

use super::p5::{self, Course, RESERVED, Run, STREAMS};
use crate::papers::{
    Axis, Context, ExperimentError, Findings, Judged, PaperExperiment, Plot, Published, Row,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p5.f4",
    title: "shares of disk time by reservation: a sequential and a random stream",
    source: "P5, figure 4 and section 4.2",
    takes: "40 s",
    find,
};

/// The project's targets: maximum deviation of a share over ten seconds and over any single one, in
/// points of percent.
const WITHIN: [(f64, f64); 2] = [(10.0, 1.0), (1.0, 5.0)];
/// The project's target, as a share of an oracle with the same window.
const OF_THE_BEST: f64 = 0.95;
/// The window in which the oracle switches between streams.
const WINDOW: f64 = 1.0;

/// The published scheduler, and the project's own.
const POLICIES: [&str; 2] = ["utilization", "headtime"];

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let seconds = p5::seconds(context);
    let mut findings = Findings::new(
        p5::parameters(seconds),
        Vec::new(),
        Plot::new(
            "reserved for the sequential stream, %",
            "share of disk time, %; requests per second",
            Axis::Linear,
        ),
    );
    findings.add_parameter(
        "policies",
        "utilization with the paper's two constants and runs of 1 s; headtime with runs of 250 ms",
    );
    for policy in POLICIES {
        let mut runs = p5::sweep(policy, seconds);
        for (place, name) in STREAMS.iter().enumerate() {
            let alone = p5::pair(100.0 * (1 - place) as f64).remove(place);
            runs.push(Run::new(format!("{policy}: {name} alone"), policy, vec![alone], seconds));
        }
        let courses = context.run(&runs)?;
        let (shared, alone) = courses.split_at(RESERVED.len());
        for (reserved, course) in RESERVED.iter().zip(shared) {
            findings.rows.extend(rows(context, policy, *reserved, course));
            findings.rows.push(against_the_best(policy, *reserved, course, alone));
        }
        let shares = p5::lines("", false, shared, |stream, _, course| course.share_percent(stream));
        let reserved = p5::reserved_lines(shared);
        findings.add_panel(format!("{policy}: share of disk time"), [shares, reserved].concat());
        let rates = p5::lines("", false, shared, |stream, _, course| course.rate_of(stream));
        findings.add_panel(format!("{policy}: throughput"), rates);
    }
    findings.notes.push(
        "Figure 4 has no numbers beside its bars: \"very nearly a perfect diagonal split\"."
            .to_string(),
    );
    findings.notes.push(
        "The oracle is computed, not run: each stream alone at its own rate, under the same \
            policy, for its reserved part of each second, less one return to its place in each, \
            which costs the sequential one a mean random access."
            .to_string(),
    );
    Ok(findings)
}

fn rows(context: &Context<'_>, policy: &str, reserved: f64, course: &Course) -> Vec<Row> {
    let mut rows = Vec::new();
    for (stream, name) in STREAMS.iter().enumerate() {
        let own = p5::own(stream, reserved);
        let what = |text: &str| {
            format!(
                "{policy}, {reserved} % sequential: {name}, {text} (simulated drive with noise)"
            )
        };
        let reason = "\"very nearly a perfect diagonal split\": a point, a guess";
        rows.push(Row::new(
            what("share of disk time"),
            "%",
            Judged::effect(own, course.share_percent(stream), 1.0, reason)
                .published(Published::Shape("as reserved")),
            "the split is another.",
        ));
        for (window, allowed) in WITHIN {
            let worst = context.maximum(course.worst(stream, own / 100.0, window));
            rows.push(Row::new(
                what(&format!("maximum distance from its reservation in any {window} s")),
                "points",
                Judged::at_most(allowed, worst, "target of the project").target(),
                "the target is missed.",
            ));
        }
        let why = "Figure 4(b) gives no numbers.";
        rows.push(Row::unpublished(
            what("throughput"),
            course.rate_of(stream),
            "requests per second",
            why,
        ));
    }
    rows
}

/// Both streams' requests together, over what an oracle would have had in the same shares.
fn against_the_best(policy: &str, reserved: f64, course: &Course, alone: &[Course]) -> Row {
    let [sequential, random] = [alone[0].rate_of(0), alone[1].rate_of(0)];
    let part = reserved / 100.0;
    // One return in each window, if there is another stream.
    let lost = if reserved > 0.0 && reserved < 100.0 {
        (1.0 / random.value / WINDOW).min(part)
    } else {
        0.0
    };
    let best = sequential.times(part - lost).plus(random.times(1.0 - part));
    let total =
        course.of_parts(|from, until| course.rate(0, from, until) + course.rate(1, from, until));
    let ratio = total.over(best);
    let what = format!(
        "{policy}, {reserved} % sequential: total throughput over the best split with a window of \
            {WINDOW} s (oracle) (simulated drive with noise)"
    );
    let judged = Judged::at_least(OF_THE_BEST, ratio, "target of the project").target();
    Row::new(what, "ratio", judged, "the target is missed.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::context::Silent;
    use crate::papers::verdict::RowVerdict;

    fn verdicts(scale: f64, share: impl Fn(usize) -> f64) -> [Option<RowVerdict>; 3] {
        let context = Context::new(1, scale, 1, &Silent);
        let course = Course::planted(85, share);
        let rows = rows(&context, "planted", 30.0, &course);
        [0, 1, 2].map(|place| rows[place].verdict)
    }

    #[test]
    fn shares_are_judged_on_both_sides_and_maxima_by_the_whole_run() {
        use RowVerdict::{Inconclusive, NotReproduced, Reproduced};
        assert_eq!(verdicts(1.0, |_| 0.3), [Some(Reproduced); 3]);
        assert_eq!(verdicts(1.0, |_| 0.4)[0], Some(NotReproduced));
        assert_eq!(verdicts(1.0, |_| 0.2), [Some(NotReproduced); 3]);
        // Right on average, but by chance: from 0 to 60 % by spans of 13 s.
        let erratic = |second: usize| if (second / 13).is_multiple_of(2) { 0.6 } else { 0.0 };
        assert_eq!(
            verdicts(1.0, erratic),
            [Some(Inconclusive), Some(NotReproduced), Some(NotReproduced)]
        );
        // A short run may have missed the worst.
        assert_eq!(
            verdicts(0.1, |_| 0.3),
            [Some(Reproduced), Some(Inconclusive), Some(Inconclusive)]
        );
    }
}
