//! `p5.f11`: P5, figure 11. Three streams that start and stop.

use headtime_sched::Terms;
use headtime_units::Nanos;
use headtime_workload::StreamConfig;

use super::p5::{self, Course, Member, Run};
use crate::papers::{
    Axis, Context, Estimated, ExperimentError, Findings, Judged, PaperExperiment, Plot, Point,
    Published, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p5.f11",
    title: "three streams that start and stop",
    source: "P5, figure 11 and section 4.4",
    takes: "5 s",
    find,
};

/// Name, first and last second, and reserved share in percent. The paper gives the times, but not
/// the reservations; here the first stream gets the least, as its third effect requires.
const STREAMS: [(&str, u64, u64, f64); 3] =
    [("random 1", 0, 60, 20.0), ("sequential 2", 10, 30, 40.0), ("random 3", 20, 50, 40.0)];
/// The times at which a stream starts or stops.
const PHASES: [u64; 6] = [0, 10, 20, 30, 50, 60];
/// The settling time after a change: the window of the published moving average ("a few seconds").
const SETTLES: f64 = 3.0;
/// Runs at full scale, each on another simulated drive, whose scatter gives the intervals.
const RUNS: u64 = 8;
/// The streams that briefly receive more at a change, and when: one that starts, and one that has
/// received less when another stops.
const BRIEFLY_MORE: [(usize, u64, u64, &str); 3] = [
    (1, 10, 20, "when it starts"),
    (2, 20, 30, "when it starts"),
    (0, 30, 50, "when another stops"),
];
/// Points of percent by which a stream may fall short of its reservation, and the least that is
/// more.
const WITHIN: f64 = 2.0;
const EVERY: f64 = 0.5;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let member = |(name, from, until, reserved): &(&str, u64, u64, f64)| {
        let config = if name.starts_with("random") { p5::random() } else { p5::runs_of(p5::RUN) };
        let config = StreamConfig {
            start: Nanos::from_secs(*from),
            stop: Some(Nanos::from_secs(*until)),
            ..config
        };
        Member { config, terms: Terms::reserving(p5::percent(*reserved)) }
    };
    let members: Vec<Member> = STREAMS.iter().map(member).collect();
    let seconds = PHASES[PHASES.len() - 1] as f64;
    let run = |replica| Run {
        replica,
        ..Run::new("three streams", "utilization", members.clone(), seconds)
    };
    let runs = (libm::ceil(RUNS as f64 * context.scale()) as u64).min(RUNS);
    let courses = context.run(&(0..runs).map(run).collect::<Vec<Run>>())?;
    let mut findings = Findings::new(
        p5::parameters(seconds),
        Vec::new(),
        Plot::new("time, s", "share of disk time in the second before, %", Axis::Linear),
    );
    let reserved = STREAMS
        .map(|(name, from, until, reserved)| {
            format!("{name} {reserved} % from {from} to {until} s")
        })
        .join(", ");
    findings
        .add_parameter("reserved", format!("{reserved}; the paper does not give the reservations"));
    findings.add_parameter("runs", runs.to_string());
    for phase in PHASES.windows(2) {
        findings.rows.extend(settled_rows(&courses, phase[0], phase[1]));
    }
    findings.rows.extend(transient_rows(&courses, &BRIEFLY_MORE));
    let line = |(stream, (name, ..)): (usize, &(&str, u64, u64, f64))| {
        Series::measured(
            *name,
            (2..=(seconds / EVERY) as usize)
                .map(|number| number as f64 * EVERY)
                .map(|at| Point::of(at, share(&courses, stream, at - 1.0, at)))
                .collect(),
        )
    };
    findings.add_panel("three streams", STREAMS.iter().enumerate().map(line).collect());
    Ok(findings)
}

/// The share of a stream between two times in percent.
fn share(courses: &[Course], stream: usize, from: f64, until: f64) -> Estimated {
    let shares = courses.iter().map(|course| course.share(stream, from, until) * 100.0);
    Estimated::of_runs(&shares.collect::<Vec<f64>>())
}

fn settled_rows(courses: &[Course], from: u64, until: u64) -> Vec<Row> {
    let active = |(_, start, stop, _): &(&str, u64, u64, f64)| *start <= from && *stop >= until;
    let row = |(stream, (name, _, _, reserved)): (usize, &(&str, u64, u64, f64))| {
        let share = share(courses, stream, from as f64 + SETTLES, until as f64);
        let reason = format!("{WITHIN} points below its reservation, a guess");
        Row::new(
            format!(
                "{from} to {until} s: {name}, share of disk time once settled (simulated drive \
                    with noise)"
            ),
            "%",
            Judged::at_least(reserved - WITHIN, share, &reason)
                .published(Published::Shape("at least its reservation or a fair share")),
            "it falls short of its reservation.",
        )
    };
    STREAMS.iter().enumerate().filter(|(_, line)| active(line)).map(row).collect()
}

fn transient_rows(courses: &[Course], changes: &[(usize, u64, u64, &str)]) -> Vec<Row> {
    let row = |(stream, from, until, when): &(usize, u64, u64, &str)| {
        let (stream, from, until) = (*stream, *from as f64, *until as f64);
        let more = courses.iter().map(|course| {
            let seconds = (0..=((SETTLES - 1.0) / EVERY) as usize).map(|half| half as f64 * EVERY);
            let second = |after: f64| course.share(stream, from + after, from + after + 1.0);
            let most = seconds.map(second).fold(0.0, f64::max);
            (most - course.share(stream, from + SETTLES, until)) * 100.0
        });
        let more = Estimated::of_runs(&more.collect::<Vec<f64>>());
        Row::new(
            format!(
                "{from} s: {}, {when}, maximum share of disk time in a second of the first \
                    {SETTLES} s less that once settled (simulated drive with noise)",
                STREAMS[stream].0
            ),
            "points",
            Judged::ordering(more, WITHIN, "less is not visible in the figure, a guess")
                .published(Published::Shape("briefly more than usual")),
            "it does not receive more.",
        )
    };
    changes.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::verdict::RowVerdict;

    #[test]
    fn a_stream_that_gets_no_more_than_usual_after_a_change_shows() {
        let verdict = |first: fn(usize) -> f64| {
            let courses: Vec<Course> = (0..3).map(|_| Course::planted(60, first)).collect();
            // Of the planted streams, the second has the rest of the time.
            transient_rows(&courses, &BRIEFLY_MORE[..1])[0].verdict
        };
        assert_eq!(verdict(|_| 0.5), Some(RowVerdict::NotReproduced));
        assert_eq!(
            verdict(|second| if second == 10 { 0.2 } else { 0.5 }),
            Some(RowVerdict::Reproduced)
        );
    }
}
