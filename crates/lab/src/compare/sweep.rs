//! [`Sweep`]: a comparison of which other processes, perhaps on other machines, run the cells.
//!
//! The sweep owns the folder and answers which cells are missing. Each is a job, a line of text:
//! any process that has the same build and reads the same input runs it with [`run_job`] and
//! returns another line, which [`Sweep::keep`] stores. Nothing but these lines is exchanged, so
//! that processes, Dask and Ray are alike, and a job that was lost is run again. The answer has the
//! file of the cell, which is stored unchanged: the results are those of
//! [`session`](super::session::run), byte for byte.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail};
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Decisive};
use super::plan::Plan;
use super::references::{CellResult, cells_at_equal_load};
use super::results::Comparison;
use super::session::stored;
use super::store::{Store, file_text};
use headtime_console::Failure;
use headtime_console::stop::Stop;

/// A comparison whose cells are run elsewhere.
pub struct Sweep {
    plan: Plan,
    store: Store,
    /// The results of the cells that no others depend on, once all are there.
    first: Option<Vec<(Cell, CellResult)>>,
    /// The cells of this stage, and their results so far.
    cells: Vec<Cell>,
    results: Vec<Option<CellResult>>,
    /// The cells of this stage without a result, by their place.
    missing: BTreeMap<usize, Decisive>,
}

/// A cell to be run, as a line of JSON.
#[derive(Serialize, Deserialize)]
struct CellJob {
    /// The place in its stage.
    place: usize,
    cell: Cell,
    decisive: Decisive,
    build: String,
}

/// The answer to a job, as a line of JSON.
#[derive(Serialize, Deserialize)]
struct CellAnswer {
    place: usize,
    /// The content of the cell's file, or the reason why the cell cannot be run.
    file: Result<String, String>,
}

impl Sweep {
    /// Finds the cells that the folder has already.
    pub fn new(plan: Plan, store: Store) -> Self {
        let cells = Cell::all(&plan);
        let (results, missing) = (Vec::new(), BTreeMap::new());
        let mut sweep = Self { plan, store, first: None, cells: Vec::new(), results, missing };
        sweep.begin_stage(cells, "cells");
        sweep
    }

    fn begin_stage(&mut self, cells: Vec<Cell>, what: &str) {
        let (results, missing) = stored(&self.plan, &self.store, &cells, what);
        (self.cells, self.results, self.missing) = (cells, results, missing.into_iter().collect());
    }

    /// The jobs that are missing. Those at equal load follow when all others are kept, so ask again
    /// until there are none.
    ///
    /// # Errors
    /// When a job cannot be written as JSON.
    pub fn jobs(&mut self) -> anyhow::Result<Vec<String>> {
        if self.missing.is_empty() && self.first.is_none() {
            let first = self.stage_results()?;
            let second = cells_at_equal_load(&self.plan, &first);
            self.first = Some(first);
            self.begin_stage(second, "cells at equal load");
        }
        let jobs = self.missing.iter().map(|(&place, decisive)| {
            let (cell, decisive) = (self.cells[place].clone(), decisive.clone());
            let build = self.store.build().to_owned();
            serde_json::to_string(&CellJob { place, cell, decisive, build })
        });
        jobs.collect::<Result<_, _>>().context("a job cannot be written as JSON")
    }

    /// Stores the answer to a job. Returns the name of a cell that could not be run, and the
    /// reason. The second answer to a job changes nothing.
    ///
    /// # Errors
    /// When the answer is not one of this stage, or cannot be stored.
    pub fn keep(&mut self, answer: &str) -> anyhow::Result<Option<String>> {
        let CellAnswer { place, file } =
            serde_json::from_str(answer).context("the answer to a job cannot be read")?;
        let Some(decisive) = self.missing.get(&place) else { return Ok(None) };
        let (result, reason) = match file {
            Ok(text) => {
                let kept = self.store.keep_file(decisive, &text);
                (Ok(kept.context("the answer to a job")?), None)
            }
            Err(reason) => {
                let name = self.cells[place].name(&self.plan);
                (Err(reason.clone()), Some(format!("{name} cannot be run: {reason}")))
            }
        };
        self.results[place] = Some(result);
        self.missing.remove(&place);
        Ok(reason)
    }

    /// Cells of this stage with results, and all of them.
    pub fn progress(&self) -> (usize, usize) {
        (self.cells.len() - self.missing.len(), self.cells.len())
    }

    /// The results, and the folder to write them into.
    ///
    /// # Errors
    /// When jobs are missing.
    pub fn finish(mut self) -> Result<(Comparison, Store), Failure> {
        let jobs = self.jobs()?;
        if !jobs.is_empty() {
            let missing = anyhow!("{} cells are missing; run their jobs first", jobs.len());
            return Err(Failure::Usage(missing));
        }
        let second = self.stage_results()?;
        let mut results = self.first.take().unwrap_or_default();
        results.extend(second);
        Ok((Comparison::new(self.plan, results), self.store))
    }

    fn stage_results(&mut self) -> anyhow::Result<Vec<(Cell, CellResult)>> {
        let results = std::mem::take(&mut self.results).into_iter();
        let results: Option<Vec<CellResult>> = results.collect();
        let results = results.context("a cell has neither a job nor a result")?;
        Ok(std::mem::take(&mut self.cells).into_iter().zip(results).collect())
    }
}

/// Runs a job of a sweep over `plan` with this `build` of the program; returns the answer.
///
/// # Errors
/// When the job is not one of this plan and build: a file that it names differs here.
pub fn run_job(plan: &Plan, build: &str, job: &str) -> anyhow::Result<String> {
    let CellJob { place, cell, decisive, build: of_sweep } =
        serde_json::from_str(job).context("a job cannot be read")?;
    if of_sweep != build {
        bail!(
            "this machine has build {build} of the package, and the sweep {of_sweep}; install the \
                same package on every machine"
        );
    }
    if plan.cases.get(cell.case).is_none() || cell.decisive(plan) != decisive {
        let Decisive { policy, drive, workload, .. } = decisive;
        bail!(
            "{policy} on {drive} with {workload}: a profile, workload, trace or map file differs \
                from that on the machine of the sweep; copy it to every machine, with the same path"
        );
    }
    let began = Instant::now();
    let file = match cell.run(plan, &Stop::default(), &|_| ()) {
        Ok(Some(outcome)) => {
            Ok(file_text(build, &decisive, &outcome, began.elapsed().as_secs_f64())?)
        }
        Ok(None) => bail!("the job was stopped"),
        Err(error) => Err(format!("{error:#}")),
    };
    serde_json::to_string(&CellAnswer { place, file }).context("an answer is JSON")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;
    use crate::commands::compare::{CompareArguments, spec, write};
    use crate::compare::session::{CompareSession, run};

    const FLAGS: &str = "--policies fcfs sptf --drives atlas10k \
        --workloads random-beside-sequential --depths 2,8 --requests 150 --replicas 2";

    fn plan() -> Plan {
        let command = CompareArguments::augment_args(Command::new("c").no_binary_name(true));
        let matches = command.get_matches_from(FLAGS.split_whitespace());
        let arguments = CompareArguments::from_arg_matches(&matches).expect("valid flags");
        spec(&arguments).and_then(Plan::new).unwrap_or_else(|error| panic!("{}", error.message()))
    }

    fn store(folder: &Path) -> Store {
        Store::open(folder, "1+a".to_owned()).unwrap_or_else(|error| panic!("{}", error.message()))
    }

    /// The files of a comparison. What a cell took on this machine is no result.
    fn files(folder: &Path) -> BTreeMap<String, String> {
        let entries = [folder.to_owned(), folder.join("cells")]
            .into_iter()
            .flat_map(|folder| fs::read_dir(folder).expect("the folder is ours").flatten());
        let files = entries.filter(|entry| entry.path().is_file()).map(|entry| {
            let text = fs::read_to_string(entry.path()).expect("a text");
            let results = text.split(",\"wall_seconds\"").next().unwrap_or_default();
            (entry.file_name().to_string_lossy().into_owned(), results.to_owned())
        });
        files.collect()
    }

    #[test]
    fn a_sweep_yields_the_files_of_a_session_though_answers_are_lost_repeated_and_reordered() {
        let folder = tempfile::tempdir().expect("a folder");
        let (alone, swept) = (folder.path().join("alone"), folder.path().join("swept"));
        {
            let (plan, store) = (plan(), store(&alone));
            let Ok(CompareSession::Finished(results)) = run(&plan, &store, 1, &Stop::default())
            else {
                panic!("nothing stops the session")
            };
            write(&Comparison::new(plan, results), &store).expect("the folder is ours");
        }
        let elsewhere = plan();
        let mut sweep = Sweep::new(plan(), store(&swept));
        let mut stages = 0;
        loop {
            let jobs = sweep.jobs().expect("texts and numbers are JSON");
            if jobs.is_empty() {
                break;
            }
            stages += 1;
            // The second half is lost: its worker died.
            for job in jobs[..jobs.len().div_ceil(2)].iter().rev() {
                let answer = run_job(&elsewhere, "1+a", job).expect("the same plan");
                assert_eq!(sweep.keep(&answer).expect("it is stored"), None);
                assert_eq!(sweep.keep(&answer).expect("it changes nothing"), None);
            }
            if stages == 2 {
                // The process of the sweep died too.
                drop(sweep);
                sweep = Sweep::new(plan(), store(&swept));
            }
        }
        assert!(stages > 4, "only {stages} times there were jobs");
        let Ok((comparison, store)) = sweep.finish() else { panic!("all cells have results") };
        write(&comparison, &store).expect("the folder is ours");
        drop(store);
        let (alone, swept) = (files(&alone), files(&swept));
        assert!(alone.len() > 20 && alone.contains_key("report.html"), "{}", alone.len());
        assert!(alone.keys().eq(swept.keys()));
        for (name, text) in &alone {
            assert!(*text == swept[name], "{name} differs");
        }
    }

    #[test]
    fn jobs_and_answers_of_other_builds_plans_and_cells_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sweep = Sweep::new(plan(), store(folder.path()));
        let jobs = sweep.jobs().expect("texts and numbers are JSON");
        let error = run_job(&plan(), "1+b", &jobs[0]).expect_err("another build");
        assert!(error.to_string().contains("build 1+b of the package, and the sweep 1+a"));
        let other = jobs[0].replace("\"requests\":150", "\"requests\":151");
        let error = run_job(&plan(), "1+a", &other).expect_err("another plan");
        assert!(error.to_string().contains("with the same path"), "{error}");
        let answer = run_job(&plan(), "1+a", &jobs[0]).expect("a job of the plan");
        let moved = answer.replace("\"place\":0", "\"place\":1");
        let error = format!("{:#}", sweep.keep(&moved).expect_err("another cell"));
        assert_eq!(error, "the answer to a job: is another cell's");
        assert_eq!(sweep.progress().0, 0);
        assert!(sweep.finish().is_err_and(|error| error.message().contains("cells are missing")));
    }
}
