//! The one table of experiments: CLI, documentation and tests iterate over it.

use crate::papers::{Context, ExperimentError, Findings, Report, SelectError, experiments};

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct PaperExperiment {
    /// The name for the command line: paper or group, a dot, figure or subject.
    pub id: &'static str,
    /// The subject in one line.
    pub title: &'static str,
    /// The paper and section that it reproduces.
    pub source: &'static str,
    /// The approximate duration on two cores.
    pub takes: &'static str,
    /// Runs it.
    pub find: fn(&Context<'_>) -> Result<Findings, ExperimentError>,
}

/// Every experiment there is, in the order of the documentation. A new one is a file in
/// `experiments/` and a line here.
pub const EXPERIMENTS: &[PaperExperiment] = &[
    experiments::a_throughput::EXPERIMENT,
    experiments::a_depth::EXPERIMENT,
    experiments::a_greedy::EXPERIMENT,
    experiments::a_ageing::EXPERIMENT,
    experiments::a_errors::EXPERIMENT,
    experiments::a_cells::EXPERIMENT,
    experiments::a_noise::EXPERIMENT,
    experiments::p1_f3::EXPERIMENT,
    experiments::p1_f5::EXPERIMENT,
    experiments::p1_f6::EXPERIMENT,
    experiments::p1_map::EXPERIMENT,
    experiments::p1_map::ON_DRIVES,
    experiments::p1_t2::EXPERIMENT,
    experiments::p1_r::EXPERIMENT,
    experiments::p1_curve::EXPERIMENT,
    experiments::p1_exceed::EXPERIMENT,
    experiments::p1_adapt::EXPERIMENT,
    experiments::p2_f6::EXPERIMENT,
    experiments::p2_f7::EXPERIMENT,
    experiments::p2_f8::EXPERIMENT,
    experiments::p2_f9::EXPERIMENT,
    experiments::p2_cpu::EXPERIMENT,
    experiments::p3_t1::EXPERIMENT,
    experiments::p3_t2::EXPERIMENT,
    experiments::p3_t3::EXPERIMENT,
    experiments::p3_t4::EXPERIMENT,
    experiments::p3_f5::EXPERIMENT,
    experiments::p4_f1::BY_OUTSTANDING,
    experiments::p4_f1::BY_SIZE,
    experiments::p4_f3::RATES,
    experiments::p4_f3::CONCURRENCY,
    experiments::m_auto::EXPERIMENT,
    experiments::p5_f1::BY_TIME,
    experiments::p5_f2::EXPERIMENT,
    experiments::p5_f4::EXPERIMENT,
    experiments::p5_f5::CONTROL,
    experiments::p5_f5::EFFICIENCY,
    experiments::p5_f7::RANDOM,
    experiments::p5_f7::SEQUENTIAL,
    experiments::p5_f5::NOMINAL,
    experiments::p5_f1::BY_REQUESTS,
    experiments::p5_f11::EXPERIMENT,
    experiments::p5_isolation::EXPERIMENT,
    experiments::m_streams::EXPERIMENT,
];

impl PaperExperiment {
    /// Runs it and makes a report of what it finds.
    ///
    /// # Errors
    /// See [`ExperimentError`].
    ///
    /// # Panics
    /// When a row promises what it does not keep, such as a reason: a fault of the experiment.
    pub fn run(&self, context: &Context<'_>) -> Result<Report, ExperimentError> {
        let findings = (self.find)(context)?;
        findings.rows.iter().for_each(crate::papers::report::Row::check);
        Ok(Report {
            id: self.id,
            seed: context.seed(),
            rows: findings.rows,
            title: self.title,
            source: self.source,
            version: env!("CARGO_PKG_VERSION"),
            scale: context.scale(),
            command: format!(
                "headtime papers {} --seed {} --scale {}",
                self.id,
                context.seed(),
                context.scale()
            ),
            parameters: findings.parameters,
            notes: findings.notes,
            plot: findings.plot,
        })
    }
}

/// The experiments that `requested` names, each once, in the order of the table: ids, patterns in
/// which `*` stands for anything, and `all`.
///
/// # Errors
/// [`SelectError`] for the first that names none, with what there is.
pub fn select<S: AsRef<str>>(
    requested: &[S],
) -> Result<Vec<&'static PaperExperiment>, SelectError> {
    for text in requested.iter().map(AsRef::as_ref) {
        if EXPERIMENTS.iter().any(|experiment| named_by(text, experiment.id)) {
            continue;
        }
        let known =
            EXPERIMENTS.iter().map(|experiment| experiment.id).collect::<Vec<_>>().join(", ");
        let requested = text.to_string();
        return Err(match EXPERIMENTS.iter().min_by_key(|experiment| edits(text, experiment.id)) {
            // A name that shares little with every id is no slip of the keyboard.
            Some(nearest) if !text.contains('*') && 2 * edits(text, nearest.id) <= text.len() => {
                SelectError::Unknown { requested, nearest: nearest.id, known }
            }
            _ => SelectError::NoneFits { requested, known },
        });
    }
    Ok(EXPERIMENTS
        .iter()
        .filter(|experiment| requested.iter().any(|text| named_by(text.as_ref(), experiment.id)))
        .collect())
}

fn named_by(text: &str, id: &str) -> bool {
    text == "all" || fits(text, id)
}

/// Returns true if `id` matches `pattern`, where `*` stands for any text.
fn fits(pattern: &str, id: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == id,
        Some((before, rest)) => id.strip_prefix(before).is_some_and(|left| {
            (0..=left.len())
                .any(|skipped| left.is_char_boundary(skipped) && fits(rest, &left[skipped..]))
        }),
    }
}

/// The least number of characters to put in, leave out or change to make one text the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, character) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, against) in other.iter().enumerate() {
            let changed = diagonal + usize::from(character != *against);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_has_its_own_id_and_says_what_it_is() {
        for (place, experiment) in EXPERIMENTS.iter().enumerate() {
            assert!(
                EXPERIMENTS[..place].iter().all(|other| other.id != experiment.id),
                "{} stands in the table twice",
                experiment.id
            );
            let fine = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
            assert!(
                experiment.id.contains('.') && experiment.id.chars().all(fine),
                "{} is no id, nor the name of a file",
                experiment.id
            );
            assert!(
                !experiment.title.is_empty()
                    && !experiment.source.is_empty()
                    && !experiment.takes.is_empty(),
                "{} says too little",
                experiment.id
            );
        }
    }

    #[test]
    fn patterns_fit_what_they_should() {
        for (pattern, id, expected) in [
            ("a.*", "a.depth", true),
            ("a.*", "P1.F3", false),
            ("*", "P1.F3", true),
            ("P*.F*", "P12.F3", true),
            ("*.F3", "P1.F3", true),
            ("*.F3", "P1.F33", false),
            ("a.depth", "a.depth", true),
            ("a.dep", "a.depth", false),
            ("a.*h*h", "a.throughput", false),
        ] {
            assert_eq!(fits(pattern, id), expected, "{pattern} and {id}");
        }
    }

    #[test]
    fn what_is_asked_for_twice_runs_once_in_the_order_of_the_table() {
        let ids = |requested: &[&str]| {
            select(requested)
                .map(|found| found.iter().map(|experiment| experiment.id).collect::<Vec<_>>())
        };
        assert_eq!(
            ids(&["a.greedy", "a.throughput", "a.gr*"]),
            Ok(vec!["a.throughput", "a.greedy"])
        );
        assert_eq!(ids(&["all"]).expect("there are some").len(), EXPERIMENTS.len());
    }

    #[test]
    fn an_unknown_id_is_answered_with_the_nearest_and_all_known() {
        let message =
            |requested: &str| select(&[requested]).expect_err("no such experiment").to_string();
        assert!(
            message("a.deph").starts_with(
                "there is no experiment `a.deph`; did you mean a.depth? Known are a.throughput, "
            ),
            "{}",
            message("a.deph")
        );
        assert!(
            message("P9.*").starts_with("no experiment fits `P9.*`; known are a.throughput, "),
            "{}",
            message("P9.*")
        );
        assert!(
            message("foo").starts_with("no experiment fits `foo`; known"),
            "{}",
            message("foo")
        );
        assert_eq!((edits("kitten", "sitting"), edits("", "abc"), edits("abc", "abc")), (3, 3, 0));
    }
}
