//! The sections and options of a fio job file, with their line numbers.
//!
//! No crate for INI files keeps line numbers, which errors need; the format takes less than a page.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headtime_config::TextError;

/// One option of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// The name as written.
    pub(super) key: String,
    /// The text after the equals sign; `1` where there is none, as in fio.
    pub(super) value: String,
    /// The line, counted from 1.
    pub(super) line: usize,
}

/// One job with its options, after those of the `[global]` sections above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) options: Vec<Given>,
}

/// The jobs of a file, and the errors in its lines.
pub(super) fn sections(file: &str, text: &str) -> (Vec<Section>, Vec<TextError>) {
    let (mut jobs, mut errors) = (Vec::<Section>::new(), Vec::new());
    let mut global: Vec<Given> = Vec::new();
    let mut in_global = None;
    for (number, raw) in text.lines().enumerate() {
        let line = number + 1;
        let content = raw.split([';', '#']).next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let mut wrong = |message: String| errors.push(TextError::at_line(file, line, message));
        if let Some(name) = content.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']').filter(|name| !name.is_empty()) else {
                wrong(alloc::format!("`{content}` is not a section; write it such as [job]"));
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
                "include of another file is not supported; copy its lines into this file"
                    .to_string(),
            ),
            _ => wrong(alloc::format!(
                "option `{key}` stands before the first section; put [global] or [job] above it"
            )),
        }
    }
    (jobs, errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_options_of_the_globals_above_it_and_its_own() {
        let (jobs, errors) = sections(
            "x",
            "[global]\nbs=4k ; small\n[a]\nstonewall\n# no\n[global]\nrw = write\n[b]\niodepth=2",
        );
        assert!(errors.is_empty());
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
    fn lines_outside_of_sections_are_errors() {
        let (_, errors) = sections("x", "bs=4k\n[a\n[]\n[b]\n");
        assert_eq!(
            errors.iter().filter_map(|error| error.position).collect::<Vec<_>>(),
            [(1, 1), (2, 1), (3, 1)]
        );
    }
}
