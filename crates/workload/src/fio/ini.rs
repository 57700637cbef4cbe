//! The lines of a fio job file: sections, and options with the line they stand in.
//!
//! No crate for INI files keeps the lines of what it read, and a message about an option is of no
//! use without; the format needs less than a page.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::file::Mistake;

/// One option of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// Its name as it was written.
    pub(super) key: String,
    /// What stands behind the sign, or `1` where nothing does, as fio reads it.
    pub(super) value: String,
    /// The line, from 1.
    pub(super) line: usize,
}

/// One job with its options, those of `[global]` sections before it first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) options: Vec<Given>,
}

/// The jobs of a file, and what is wrong with its lines.
pub(super) fn sections(text: &str) -> (Vec<Section>, Vec<Mistake>) {
    let (mut jobs, mut mistakes) = (Vec::<Section>::new(), Vec::new());
    let mut global: Vec<Given> = Vec::new();
    let mut in_global = None;
    for (number, raw) in text.lines().enumerate() {
        let line = number + 1;
        let content = raw.split([';', '#']).next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let mut wrong = |message: String| mistakes.push(Mistake { at: Some((line, 1)), message });
        if let Some(name) = content.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']').filter(|name| !name.is_empty()) else {
                wrong(alloc::format!("`{content}` is no section; write it such as [job]"));
                continue;
            };
            in_global = Some(name == "global");
            if name != "global" {
                jobs.push(Section { name: name.to_string(), line, options: global.clone() });
            }
            continue;
        }
        let (key, value) = content
            .split_once('=')
            .map_or((content, "1"), |(key, value)| (key.trim_end(), value.trim_start()));
        let given = Given { key: key.to_string(), value: value.to_string(), line };
        match (in_global, jobs.last_mut()) {
            (Some(false), Some(job)) => job.options.push(given),
            (Some(true), _) => global.push(given),
            _ if key.starts_with("include ") => wrong(
                "include takes in another file, which is not done here; copy its lines into \
                    this file"
                    .to_string(),
            ),
            _ => wrong(alloc::format!(
                "option `{key}` stands before the first section; put \
                [global] or [job] above it"
            )),
        }
    }
    (jobs, mistakes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_options_of_the_globals_above_it_and_its_own() {
        let (jobs, mistakes) = sections(
            "[global]\nbs=4k ; small\n[a]\nstonewall\n# no\n[global]\nrw = write\n[b]\niodepth=2",
        );
        assert!(mistakes.is_empty());
        let shown: Vec<String> = jobs
            .iter()
            .map(|job| {
                let options: Vec<String> = job
                    .options
                    .iter()
                    .map(|given| alloc::format!("{}={}@{}", given.key, given.value, given.line))
                    .collect();
                alloc::format!("{}@{}: {}", job.name, job.line, options.join(" "))
            })
            .collect();
        assert_eq!(shown, ["a@3: bs=4k@2 stonewall=1@4", "b@8: bs=4k@2 rw=write@7 iodepth=2@9"]);
    }

    #[test]
    fn lines_that_belong_nowhere_are_named() {
        let (_, mistakes) = sections("bs=4k\n[a\n[]\n[b]\n");
        assert_eq!(
            mistakes.iter().filter_map(|mistake| mistake.at).collect::<Vec<_>>(),
            [(1, 1), (2, 1), (3, 1)]
        );
    }
}
