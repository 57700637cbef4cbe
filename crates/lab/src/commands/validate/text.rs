//! What `headtime validate` prints for people.

use headtime_sim::validate::{ArrivalShift, ErrorFigures};

use super::ValidateOutput;
use headtime_console::output::columns;

/// Classes that are shown; the JSON has all of them.
const CLASSES_SHOWN: usize = 12;

/// The whole answer.
pub(super) fn tables(answer: &ValidateOutput) -> String {
    let way = if answer.issue == "recorded" {
        "issued at their recorded times"
    } else {
        "issued a think time after the simulated completion"
    };
    let mut text = format!(
        "{} on {}: {} requests ({} reads, {} writes), {way}\n{}\n\n",
        answer.trace,
        answer.profile,
        answer.figures.requests,
        answer.reads,
        answer.writes,
        spindle(answer)
    );
    text.push_str(&format!(
        "demerit  {:.3} ms  (requests at their recorded times {:.3} ms, closed {:.3} ms)\n\n",
        answer.figures.demerit_ms, answer.demerit_recorded_ms, answer.demerit_closed_ms
    ));
    text.push_str(&by_kind(answer));
    text.push_str(&revolutions(answer));
    text.push_str(&unexplained(answer));
    text
}

fn spindle(answer: &ValidateOutput) -> String {
    let spindle = &answer.spindle;
    let measure = format!(
        "coherence {:.3} over {} completions, {:.3} over the other half; chance stays below {:.3}",
        spindle.coherence,
        spindle.completions_fitted,
        spindle.coherence_held_out,
        spindle.coherence_by_chance
    );
    match spindle.phase_turns {
        Some(phase) => format!(
            "fitted   period {:.6} us ({:+.1} ppm of the profile's {:.3}), phase {phase:.4} turn; \
                fit: {}; judged: {}\n         {measure}",
            spindle.period_us,
            (spindle.period_us / spindle.nominal_period_us - 1.0) * 1e6,
            spindle.nominal_period_us,
            spindle.fit,
            answer.judged,
        ),
        None => format!(
            "fitted   nothing: the recording keeps no rotational phase that the model knows of \
                ({measure})\n         \
             The profile's period is used, {:.3} us. Judge by the demerit: single errors are what \
             rotation makes them",
            spindle.nominal_period_us
        ),
    }
}

fn by_kind(answer: &ValidateOutput) -> String {
    let head = [
        "",
        "requests",
        "recorded ms",
        "simulated ms",
        "demerit ms",
        "error rms ms",
        "median ms",
        "within 0.2 ms",
        "or 10 %",
    ];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    rows.push(row("all", &answer.figures));
    if answer.spindle.coherent {
        rows.push(row("not fitted", &answer.held_out));
    }
    rows.extend(
        answer
            .by_kind
            .iter()
            .filter(|kind| kind.figures.requests > 0)
            .map(|kind| row(kind.kind, &kind.figures)),
    );
    columns(&rows, &[false, true, true, true, true, true, true, true, true])
}

fn row(name: &str, figures: &ErrorFigures) -> Vec<String> {
    let ms = |value: f64| format!("{value:.3}");
    vec![
        name.to_string(),
        figures.requests.to_string(),
        ms(figures.recorded_mean_ms),
        ms(figures.simulated_mean_ms),
        ms(figures.demerit_ms),
        ms(figures.per_request_rms_ms),
        ms(figures.median_abs_ms),
        percent(figures.within_0_2_ms),
        percent(figures.within_0_2_ms_or_tenth),
    ]
}

/// The number of predictions that are a revolution off, and the change of seek time that would
/// correct them.
fn revolutions(answer: &ValidateOutput) -> String {
    let line = |what: &str, share: f64, shift: &ArrivalShift, way: &str| {
        let arm = format!(
            ": an arm {:.3} ms {way} would put half of them right, {:.3} ms nine in ten",
            shift.median_ms, shift.p90_ms
        );
        // Where no phase is known the wait is made up.
        let arm = if answer.spindle.coherent && shift.requests > 0 { arm } else { String::new() };
        format!("one revolution too {what}, to within 0.3 ms: {}{arm}\n", percent(share))
    };
    let (figures, arm) = (&answer.figures, &answer.arrival_errors);
    let long = line("long", figures.revolution_too_long, &arm.too_late, "earlier");
    let short = line("short", figures.revolution_too_short, &arm.too_early, "later");
    format!("\n{long}{short}")
}

fn unexplained(answer: &ValidateOutput) -> String {
    if answer.classes.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        [
            "worst",
            "served by",
            "requests",
            "median ms",
            "within 0.2 ms",
            "turn too long",
            "turn too short",
        ]
        .map(str::to_string)
        .to_vec(),
    ];
    rows.extend(answer.classes.iter().take(CLASSES_SHOWN).map(|class| {
        vec![
            format!("{}s, {}", class.operation, class.slice),
            class.served.to_string(),
            class.figures.requests.to_string(),
            format!("{:.3}", class.figures.median_abs_ms),
            percent(class.figures.within_0_2_ms),
            percent(class.figures.revolution_too_long),
            percent(class.figures.revolution_too_short),
        ]
    }));
    let left = answer.classes.len().saturating_sub(CLASSES_SHOWN);
    let rest =
        if left > 0 { format!("and {left} classes more, see --json\n") } else { String::new() };
    format!(
        "\nwhat remains unexplained\n{}{rest}",
        columns(&rows, &[false, false, true, true, true, true, true])
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
